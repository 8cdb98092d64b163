"""Interface of a protocol to the file server: a listener in the serving process, and the sessions of its clients.

A process serves its protocols in one event loop, so caps and the pace of a site's transfers apply to all protocols. A
protocol is named by its import path, `package.module:NAME`, by which the process loads it; nothing here imports one.

Facts
-----

- The event loop is pyftpdlib's, which a protocol may use as it likes: dispatchers for sockets, `call_later` for
  timers. This module is the one place here that says so.
- It is built on asyncore and asynchat, deprecated in Python 3.11 and taken from pinned packages from 3.12 on.
- A listening socket whose accept fails wakes it again at once; the library's own server closes it for good.
- Its scheduler complains when one timer cancels another that is due in the same round; nothing is lost then.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import logging
import socket
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flashferry.fileserver.sockets import BACKLOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.client_session import CommandLog
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_service import TicketService
    from flashferry.tcp.syn import SynOptions

__all__ = [
    "BACKLOG",
    "Acceptor",
    "AsyncChat",
    "Client",
    "IOLoop",
    "Listener",
    "ProtocolFactory",
    "ServingContext",
    "accept_failed",
    "divert_loop_errors",
    "load_protocol",
    "report_loop_error",
]

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.ioloop import Acceptor, AsyncChat, IOLoop

_NO_SPACE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingContext:
    """Objects of the serving process that all protocols share.

    Attributes:
        tickets: The ticket service.
        settings: The server's settings.
        loop: The event loop of the process: pyftpdlib's, or asyncio's with the same interface.
    """

    tickets: TicketService
    settings: ServerSettings
    loop: Any


class Listener(Protocol):
    """A protocol on one listening socket, with its sessions."""

    @property
    def transfers_to_come(self) -> int:
        """Number of granted transfers that have not started; the ticket service counts those that have."""

    def open(self) -> None:
        """Start accepting sessions; called once, when tickets and fixed logins are known."""

    def drain(self) -> None:
        """Stop accepting sessions, and close those without a granted or running transfer."""

    def close(self, reason: str) -> None:
        """Close the listening socket and every session at once; a transfer granted to one ends with the reason."""


class ProtocolFactory(Protocol):
    """Factory of a protocol's listeners.

    One with a true attribute `NEEDS_ASYNCIO` is served in a process with asyncio's loop (`AsyncioLoop`), in which its
    listeners should be alone.
    """

    def __call__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> Listener:
        """Make a listener, which accepts no session before it is opened.

        Args:
            listening: Bound socket; clients that connect before the listener is opened wait in its queue.
            context: Shared objects of the serving process.
            options: The protocol's own settings, see `settings.ListenerSettings.options`.

        Raises:
            ValueError: The options are not valid for the protocol.
        """


class Client(Protocol):
    """Interface of a client's session to its transfer, the monitor and the reporter.

    Attributes:
        client_address: The client's address in plain form.
        control_syn: Options of the SYN of its control connection; None: not recorded.
        command_log: Commands and replies so far, secrets masked.
    """

    client_address: str
    control_syn: SynOptions | None
    command_log: CommandLog

    @property
    def tickets(self) -> TicketService:
        """The server's ticket service."""

    @property
    def settings(self) -> ServerSettings:
        """The server's settings."""


def load_protocol(name: str) -> ProtocolFactory:
    """Return the protocol of a name such as `package.module:NAME`.

    Raises:
        ImportError: There is no such module.
        AttributeError: The module has no such name.
    """
    module, _, attribute = name.partition(":")
    factory: ProtocolFactory = getattr(importlib.import_module(module), attribute)
    return factory


def report_loop_error(what: str) -> None:
    """Log the exception being handled in the way of the loop's library, see `divert_loop_errors`."""
    logging.getLogger("pyftpdlib").exception(what)


def accept_failed(acceptor: Any, what: str) -> None:
    """Keep listening after the exception being handled; for an acceptor's `handle_error`.

    If no descriptors or memory are left, accepting continues after a pause, and clients wait in the queue. Any other
    error is logged.

    Args:
        acceptor: The loop's listening socket.
        what: Name of the acceptor in the log.
    """
    error = sys.exc_info()[1]
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        acceptor.del_channel()
        acceptor.ioloop.call_later(_PAUSE_S, _accept_again, acceptor)
    else:
        report_loop_error(what)


def _accept_again(acceptor: Any) -> None:
    if not acceptor._closed:  # noqa: SLF001 -- the library has no other word for it
        acceptor.add_channel()


def divert_loop_errors(handler: logging.Handler) -> None:
    """Give what the loop's library logs as an error to a handler alone."""
    library = logging.getLogger("pyftpdlib")
    handler.addFilter(_is_an_error_of_ours)
    library.handlers = [handler]
    library.propagate = False
    library.setLevel(logging.ERROR)


def _is_an_error_of_ours(record: logging.LogRecord) -> bool:
    return not record.getMessage().rstrip().endswith("already cancelled")


_LOG = logging.getLogger("pyftpdlib")

_LEAVING_S = 0.2


class AsyncioLoop:
    """asyncio's loop as a loop of pyftpdlib's.

    Attributes:
        asyncio: The loop.
        socket_map: Registered sockets by descriptor, as pyftpdlib's classes expect it.
    """

    READ, WRITE = IOLoop.READ, IOLoop.WRITE

    def __init__(self) -> None:
        self.asyncio = asyncio.new_event_loop()
        self.asyncio.set_exception_handler(_report)
        self.socket_map: dict[int, Any] = {}

    def register(self, fd: int, instance: Any, events: int) -> None:
        """Watch a socket for events, and call its dispatcher."""
        self.socket_map.setdefault(fd, instance)
        self.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """Stop watching a socket."""
        if self.socket_map.pop(fd, None) is not None:
            self.asyncio.remove_reader(fd)
            self.asyncio.remove_writer(fd)

    def modify(self, fd: int, events: int) -> None:
        """Change the events that a registered socket is watched for."""
        instance = self.socket_map[fd]
        for event, add, remove, handle in (
            (self.READ, self.asyncio.add_reader, self.asyncio.remove_reader, instance.handle_read_event),
            (self.WRITE, self.asyncio.add_writer, self.asyncio.remove_writer, instance.handle_write_event),
        ):
            if events & event:
                add(fd, _call, handle, instance.handle_error)
            else:
                remove(fd)

    def call_later(
        self,
        seconds: float,
        target: Callable[..., Any],
        *args: Any,
        _errback: Callable[[], None] | None = None,
    ) -> asyncio.TimerHandle:
        """Call something after some seconds; `_errback` handles its exception."""
        return self.asyncio.call_later(seconds, _call, target, _errback, *args)

    def call_every(self, seconds: float, target: Callable[[], Any]) -> None:
        """Call something every so many seconds, as long as it raises nothing."""

        def call() -> None:
            target()
            self.asyncio.call_later(seconds, call)

        self.asyncio.call_later(seconds, call)

    def run(self) -> None:
        """Run until `stop`."""
        asyncio.set_event_loop(self.asyncio)
        self.asyncio.run_forever()

    def stop(self) -> None:
        """Make `run` return after the present event."""
        self.asyncio.stop()

    def leave(self) -> None:
        """Run on for a fifth of a second, so that the last messages go out; a `stop` meanwhile changes nothing."""
        until_s = self.asyncio.time() + _LEAVING_S
        while (left_s := until_s - self.asyncio.time()) > 0:
            timer = self.asyncio.call_later(left_s, self.asyncio.stop)
            self.asyncio.run_forever()
            timer.cancel()


def _call(target: Callable[..., Any], errback: Callable[[], None] | None, *args: Any) -> None:
    try:
        target(*args)
    except Exception:
        if errback is None:
            raise
        errback()


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled exception where the errors of pyftpdlib's loop go."""
    error = context.get("exception")
    _LOG.error(context.get("message", "asyncio"), exc_info=error if isinstance(error, BaseException) else None)

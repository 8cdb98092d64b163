"""asyncio's event loop, with the interface of pyftpdlib's: for processes whose protocols are asyncio's.

Facts
-----

- The channel to the parent and the timers of transfers are written for pyftpdlib's loop (see `protocol`). Here the same
  calls register with asyncio's loop, which is the only one in such a process.
- pyftpdlib's loops watch a socket for reading, writing or both, and close one whose peer is gone; asyncio reports that
  as readable, and the read that follows closes it.
- asyncio reports an exception in a callback to a handler of the loop; none is lost, and none ends the process.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from flashferry.fileserver.protocol import IOLoop

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """Watch a socket no more."""
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
        target: "Callable[..., Any]",
        *args: Any,
        _errback: "Callable[[], None] | None" = None,
    ) -> asyncio.TimerHandle:
        """Call something after some seconds; `_errback` handles its exception."""
        return self.asyncio.call_later(seconds, _call, target, _errback, *args)

    def call_every(self, seconds: float, target: "Callable[[], Any]") -> None:
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
        """Leave `run`."""
        self.asyncio.stop()

    def leave(self) -> None:
        """Run on for a fifth of a second, so that the last messages go out; a `stop` meanwhile changes nothing."""
        until_s = self.asyncio.time() + _LEAVING_S
        while (left_s := until_s - self.asyncio.time()) > 0:
            timer = self.asyncio.call_later(left_s, self.asyncio.stop)
            self.asyncio.run_forever()
            timer.cancel()


def _call(target: "Callable[..., Any]", errback: "Callable[[], None] | None", *args: Any) -> None:
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

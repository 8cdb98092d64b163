"""The serving process, started by `flashferry.fileserver.child`: `python -m flashferry.fileserver.process FD FD`.

It ends when its parent does, however that happens: the control channel then reads as closed, and as a second line of
defence the parent's process id is looked at twice a second.
"""

import json
import logging
import os
import signal
import socket
import sys
import warnings
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flashferry.core.codec import decode
from flashferry.core.errors import kind_of
from flashferry.fileserver.caps import given_cap
from flashferry.fileserver.host_capabilities import probe_capabilities, raise_soft_limit
from flashferry.fileserver.wire import Hello, Pulse, Ready, line, pulses_line
from flashferry.images.digests import ImageFile

with warnings.catch_warnings():
    # asyncore and asynchat are deprecated in 3.11 and come from pinned packages from 3.12 on.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.ioloop import AsyncChat, IOLoop
    from pyftpdlib.servers import FTPServer

    from flashferry.fileserver.ticket_service import TicketService
    from ftpserver.session import ImageSession, session_class

from flashferry.fileserver.errors import FileServerError
from flashferry.fileserver.logins import FixedGrant
from flashferry.fileserver.records import LoginFailure, ServerEvent
from flashferry.fileserver.tickets import TicketGrant

if TYPE_CHECKING:
    from collections.abc import Callable

_HEARTBEAT_S = 0.5
_HOLD_S = 0.1
# What may lie unread on the way to the parent. A busy parent reads late; a long queue of old news would have it take a
# copy that flows for one that does not, and wait as long for its answers.
_UNREAD_BYTES = 16_384
_BACKLOG = 1024


class ControlLink(AsyncChat):
    """The parent's end of the line, seen from the serving process."""

    def __init__(self, connection: socket.socket, ioloop: Any, service: "Service") -> None:
        self._service = service
        self._incoming: list[bytes] = []
        self._outgoing: list[bytes] = []
        # The newest of each ticket.
        self._pulses: dict[str, list[Any]] = {}
        self._is_post_due = False
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
        super().__init__(connection, ioloop=ioloop)
        self.set_terminator(b"\n")

    def collect_incoming_data(self, data: bytes) -> None:
        """Collect a line."""
        self._incoming.append(data)

    def found_terminator(self) -> None:
        """Answer a request."""
        message = json.loads(b"".join(self._incoming))
        self._incoming.clear()
        try:
            result = self._service.answer(str(message["op"]), message)
        except (FileServerError, KeyError, ValueError) as error:
            self.say(re=message.get("id"), error=f"{kind_of(error)}: {error}")
        else:
            self.say(re=message.get("id"), ok=result)

    def say(self, **message: Any) -> None:
        """Send a message now: the parent shall know of a delivery before the client reads 226."""
        if not self._closed:
            # Behind the progress that came before it.
            self._gather()
            self._outgoing.append(line(**message))
            self._post()

    def tell(self, event: ServerEvent) -> None:
        """Send an event; of mere progress only the newest while the parent does not read."""
        pulse = Pulse.of(event)
        if pulse is None:
            self.say(event=event)
        elif not self._closed:
            self._pulses[pulse.ticket_id] = pulse.row()
            # Together with that of all other transfers read in this turn of the loop.
            self._post_in(0)

    def _post_in(self, seconds: float) -> None:
        if not self._is_post_due:
            self._is_post_due = True
            self.ioloop.call_later(seconds, self._post_pulses, _errback=self.handle_error)

    def _post_pulses(self) -> None:
        self._is_post_due = False
        if not self.producer_fifo:
            self._post()
        elif not self._closed:
            self._post_in(_HOLD_S)

    def _gather(self) -> None:
        pulses, self._pulses = list(self._pulses.values()), {}
        if pulses:
            self._outgoing.append(pulses_line(pulses))

    def _post(self) -> None:
        self._gather()
        lines, self._outgoing = self._outgoing, []
        if lines and not self._closed:
            self.push(b"".join(lines))

    def flush(self) -> None:
        """Send what is queued, for at most two seconds, before the process ends."""
        if self._closed:
            return
        self._post()
        self.socket.settimeout(2.0)
        while self.producer_fifo and not self._closed:
            self.initiate_send()

    def handle_close(self) -> None:
        """End with the parent."""
        self.close()
        self._service.stop()

    def handle_error(self) -> None:
        """End rather than run without a parent that understands us."""
        logging.getLogger("flashferry.ftpserver").exception("control channel")
        self.handle_close()


class Service:
    """The server in its own process."""

    def __init__(self, control: socket.socket, listener: socket.socket, hello: Hello) -> None:
        self._hello = hello
        self._ioloop = IOLoop()
        self._running = True
        self._terminated = False
        self._drain_until_s: float | None = None
        self._link = ControlLink(control, self._ioloop, self)
        self.tickets = TicketService(hello.settings, self._link.tell)
        self.tickets.on_login_failure = self._tell_login_failure
        self._server = _server(listener, session_class(self.tickets, hello.settings), self._ioloop)
        self._operations: dict[str, Callable[[dict[str, Any]], Any]] = {
            "ticket": self._take_ticket,
            "admit": lambda message: self.tickets.admit(decode(FixedGrant, message["grant"])),
            "revoke": lambda message: self.tickets.revoke(message["ticket_id"]),
            "set_cap": lambda message: self.tickets.set_cap(message["ticket_id"], message["cap_bytes_per_s"]),
            "set_site_cap": lambda message: self.tickets.set_site_cap(
                message["site"], given_cap(message["cap_bytes_per_s"], message["source"])
            ),
            "set_site_link": lambda message: self.tickets.set_site_link(message["site"], message["link_bytes_per_s"]),
            "drain": lambda _: self.drain(),
            "stop": lambda _: self.stop(),
        }

    def run(self) -> None:
        """Serve until stopped."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._link.say(ready=Ready(port=self._server.address[1], capabilities=probe_capabilities()))
        self._ioloop.call_every(_HEARTBEAT_S, self._heartbeat)
        timeout_s = 0.0
        while self._running:
            timeout_s = self._ioloop.loop(timeout_s, blocking=False)
        self._end()

    def answer(self, operation: str, message: dict[str, Any]) -> Any:
        """Do what the parent asks and return what to answer."""
        return self._operations[operation](message)

    def stop(self) -> None:
        """Leave the loop."""
        self._running = False

    def drain(self) -> int:
        """Take no new sessions, send idle ones away, and end when the last transfer has or the time is up.

        A RETR that was granted is a transfer, also while it still waits for its data connection.

        Returns:
            How many transfers are under way.
        """
        if self._drain_until_s is not None:
            return self._under_way()
        self._drain_until_s = self.tickets.clock() + self._hello.settings.limits.drain_s
        self._server.close()
        for session in self._sessions():
            if session.data_channel is None and not session.waits_to_send:
                session.respond("421 Server is going down.")
                session.close_when_done()
        self._heartbeat()
        return self._under_way()

    def _take_ticket(self, message: dict[str, Any]) -> Any:
        grant = decode(TicketGrant, message["grant"])
        return self.tickets.add(replace(grant, image=_shared(grant.image)))

    def _tell_login_failure(self, failure: LoginFailure) -> None:
        self._link.say(login_failure=failure)

    def _on_sigterm(self, _number: int, _frame: Any) -> None:
        # Only a mark: the loop may be in the middle of anything. The heartbeat acts on it.
        self._terminated = True

    def _heartbeat(self) -> None:
        if os.getppid() != self._hello.parent_pid:
            self.stop()
        elif self._terminated:
            self.drain()
        self.tickets.sweep()
        if self._drain_until_s is not None and (not self._under_way() or self.tickets.clock() >= self._drain_until_s):
            self.stop()

    def _under_way(self) -> int:
        return len(self.tickets.running) + sum(session.waits_to_send for session in self._sessions())

    def _sessions(self) -> list[ImageSession]:
        return [instance for instance in self._ioloop.socket_map.values() if isinstance(instance, ImageSession)]

    def _end(self) -> None:
        for account in self.tickets.running:
            if account.channel is not None:
                account.channel.cut("the server was stopped")
        self._server.close()
        for session in self._sessions():
            session.end_waiting("the server was stopped")
            session.close()
        self._link.flush()


@lru_cache(maxsize=64)
def _shared(image: ImageFile) -> ImageFile:
    """Return one and the same value for all tickets of an image: its digests are half of what a ticket takes."""
    return image


def _server(listener: socket.socket, handler: type[ImageSession], ioloop: Any) -> Any:
    server = FTPServer(listener, handler, ioloop=ioloop, backlog=_BACKLOG)
    # The library counts sockets, ours counts sessions: see `ImageSession.on_connect`.
    server.max_cons = 0
    return server


class _Notices(logging.Handler):
    """Sends what the library logs as an error to the parent: the message and the kind of exception, nothing more."""

    def __init__(self, tickets: TicketService) -> None:
        super().__init__(logging.ERROR)
        self._tickets = tickets

    def emit(self, record: logging.LogRecord) -> None:
        """Send one."""
        kind = record.exc_info[0] if record.exc_info else None
        last_line = record.getMessage().strip().splitlines()[-1:] or [""]
        if last_line[0].endswith("already cancelled"):
            # The library's scheduler complains when one timer cancels another of the same round; nothing is lost.
            return
        self._tickets.notice(f"internal error: {kind.__name__ if kind else last_line[0][:200]}")


def _read_hello(control: socket.socket) -> Hello:
    data = b""
    while not data.endswith(b"\n"):
        chunk = control.recv(65536)
        if not chunk:
            sys.exit("flashferry.fileserver.process: expected a greeting from the parent, found the channel closed")
        data += chunk
    return decode(Hello, json.loads(data)["hello"])


def main(arguments: list[str]) -> None:
    """Serve on the sockets inherited from the parent."""
    control, listener = (socket.socket(fileno=int(number)) for number in arguments)
    hello = _read_hello(control)
    service = Service(control, listener, hello)
    library = logging.getLogger("pyftpdlib")
    library.handlers = [_Notices(service.tickets)]
    library.propagate = False
    library.setLevel(logging.ERROR)
    raise_soft_limit()
    service.run()


if __name__ == "__main__":
    main(sys.argv[1:])

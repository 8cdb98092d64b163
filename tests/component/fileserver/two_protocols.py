"""A protocol as small as can be, which a serving process of a test loads beside another, or twice.

A client sends one line, `USER PASSWORD`, and reads one: a greeting of the listener's own, and whether it got in.
"""

import socket
from collections.abc import Mapping
from typing import Any

from flashferry.fileserver.protocol import Acceptor, AsyncChat, ServingContext
from flashferry.fileserver.ticket_accounts import Refusal


class LineListener(Acceptor):
    """The protocol on one socket."""

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        super().__init__(ioloop=context.loop)
        self.context = context
        self.greeting = str(options["greeting"])
        self.sessions: set[LineSession] = set()
        self._listening = listening

    def open(self) -> None:
        self._listening.setblocking(False)
        self.set_socket(self._listening)
        self.listen(5)

    def handle_accepted(self, sock: socket.socket, addr: Any) -> None:
        self.sessions.add(LineSession(sock, self, addr[0]))

    @property
    def transfers_to_come(self) -> int:
        return sum(session.is_let_in for session in self.sessions)

    def drain(self) -> None:
        super().close()
        for session in [one for one in self.sessions if not one.is_let_in]:
            session.say("no new sessions")

    def close(self, reason: str = "") -> None:
        super().close()
        for session in tuple(self.sessions):
            session.say(reason)


class LineSession(AsyncChat):
    """One client."""

    def __init__(self, connection: socket.socket, listener: LineListener, address: str) -> None:
        super().__init__(connection, ioloop=listener.context.loop)
        self._listener, self._address, self._line = listener, address, b""
        self.is_let_in = False
        self.set_terminator(b"\n")

    def collect_incoming_data(self, data: bytes) -> None:
        self._line += data

    def found_terminator(self) -> None:
        line, self._line = self._line, b""
        username, password = line.decode().split()
        result = self._listener.context.tickets.login(username, password, self._address)
        self.is_let_in = not isinstance(result, Refusal)
        self.push(f"{self._listener.greeting}: {'come in' if self.is_let_in else 'no'}\n".encode())

    def say(self, text: str) -> None:
        self.push(f"{text}\n".encode())
        self.close_when_done()

    def handle_close(self) -> None:
        self.close()

    def close(self) -> None:
        self._listener.sessions.discard(self)
        super().close()

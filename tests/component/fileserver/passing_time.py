"""A listener by which a test lets time pass in a serving process: by the clock of its tickets, and by nothing else.

A client sends a line with a number of seconds, and reads one when they have passed. Tickets end by that clock; the
timers of sessions and data connections are the loop's.
"""

import socket
from collections.abc import Mapping
from typing import Any

from flashferry.fileserver.protocol import Acceptor, AsyncChat, ServingContext

PASSED = b"passed\n"


class Clock(Acceptor):
    """The listener."""

    transfers_to_come = 0

    def __init__(self, listening: socket.socket, context: ServingContext, _options: Mapping[str, object]) -> None:
        super().__init__(ioloop=context.loop)
        self._listening, self._tickets = listening, context.tickets

    def open(self) -> None:
        self._listening.setblocking(False)
        self.set_socket(self._listening)
        self.listen(5)

    def handle_accepted(self, sock: socket.socket, _address: Any) -> None:
        Line(sock, self)

    def set_forward(self, seconds: float) -> None:
        """Let time pass for the tickets."""
        clock = self._tickets.clock
        self._tickets.clock = lambda: clock() + seconds

    def drain(self) -> None:
        self.close()

    def close(self, _reason: str = "") -> None:
        super().close()


class Line(AsyncChat):
    """One client."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        super().__init__(connection, ioloop=clock.ioloop)
        self._clock, self._line = clock, b""
        self.set_terminator(b"\n")

    def collect_incoming_data(self, data: bytes) -> None:
        self._line += data

    def found_terminator(self) -> None:
        line, self._line = self._line, b""
        self._clock.set_forward(float(line))
        self.push(PASSED)

    def handle_close(self) -> None:
        self.close()

"""A listener by which a test lets time pass in a serving process: for its tickets and transfers, and for all timers.

A client sends a line with a number of seconds, and reads one when they have passed: each timer that was to expire
within them expires in the loop's next turn.
"""

import socket
from collections.abc import Mapping
from typing import Any

from pyftpdlib import ioloop

from flashferry.fileserver.protocol import Acceptor, AsyncChat, AsyncioLoop, ServingContext

PASSED = b"passed\n"


class Clock(Acceptor):
    """The listener."""

    transfers_to_come = 0

    def __init__(self, listening: socket.socket, context: ServingContext, _options: Mapping[str, object]) -> None:
        super().__init__(ioloop=context.loop)
        self._listening, self._tickets, self._loop = listening, context.tickets, context.loop

    def open(self) -> None:
        self._listening.setblocking(False)
        self.set_socket(self._listening)
        self.listen(5)

    def handle_accepted(self, sock: socket.socket, _address: Any) -> None:
        Line(sock, self)

    def set_forward(self, seconds: float) -> None:
        """Let time pass: the tickets' clock and the loop's are set forward."""
        clock = self._tickets.clock
        self._tickets.clock = lambda: clock() + seconds
        place, name = (self._loop.asyncio, "time") if isinstance(self._loop, AsyncioLoop) else (ioloop, "timer")
        timer = getattr(place, name)
        setattr(place, name, lambda: timer() + seconds)

    def drain(self) -> None:
        """Time passes on while a server drains."""

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

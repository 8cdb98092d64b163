"""A connection to a source that can be given up at any moment: while it connects, shakes hands, or waits for bytes.

Facts
-----

- Python's reader of a response gives a socket up for good after its first timeout. So what it reads from is a reader of
  ours, which waits in short turns and asks between them whether to stop.
- The kernel sizes the receive buffer as the path needs it; who sets SO_RCVBUF switches that off (tcp(7)).
"""

from __future__ import annotations

import errno
import http.client
import io
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flashferry.depot.sync.errors import SourceUnreachable, SyncStopped

TURN_S = 0.25
"""So often it is asked whether to stop."""

LEAST_BYTES_PER_S = 10
"""A source that sends less, over as long as a silent one is waited for, is one that is away: it would hold the
catalogue for ever. A modem's line carries a hundred times as much."""

Interrupted = Callable[[], bool]


def never() -> bool:
    """Return False: nothing asks to stop."""
    return False


def check(interrupted: Interrupted) -> None:
    """Ask whether to stop.

    Raises:
        SyncStopped: It was asked to stop.
    """
    if interrupted():
        raise SyncStopped("interrupted: what is verified is kept")


class Connection(http.client.HTTPConnection):
    """A connection for one request.

    Args:
        host: Name or address of the source.
        port: Its port.
        context: What TLS is spoken with, which checks who answers; None: clear text.
        stall_s: So long a silent source is waited for.
        interrupted: Whether to stop.
    """

    def __init__(
        self, host: str, port: int, *, context: ssl.SSLContext | None, stall_s: float, interrupted: Interrupted
    ) -> None:
        super().__init__(host, port, timeout=stall_s)
        self._context, self._stall_s, self._interrupted = context, stall_s, interrupted

    def connect(self) -> None:
        """Connect, and shake hands where it is TLS.

        Raises:
            SourceUnreachable: Nothing answers there.
            OSError: The line breaks, or the certificate is not to be trusted.
            SyncStopped: It was asked to stop.
        """
        try:
            plain = _connected(self.host, self.port, self._stall_s, self._interrupted)
        except OSError as error:
            found = words_for(error)
            raise SourceUnreachable(f"expected {self.host} to answer at port {self.port}, found: {found}") from None
        try:
            plain.settimeout(self._stall_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = plain if self._context is None else self._context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        self.sock.settimeout(TURN_S)

    def close(self) -> None:
        """Do nothing: the library calls it as soon as it has read that the answer is the last one; see `end`."""

    def end(self) -> None:
        """Close it."""
        super().close()

    def response_class(self, sock: socket.socket, **more: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        """Return a reader of the answer, by which the library reads it."""
        lines: Any = _Lines(sock, self._stall_s, self._interrupted)
        return http.client.HTTPResponse(lines, **more)


class _Lines:
    """A socket as a reader of an answer takes it: something that makes a file."""

    def __init__(self, connection: socket.socket, stall_s: float, interrupted: Interrupted) -> None:
        self._reader = _Reader(connection, stall_s, interrupted)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader, 1 << 13)


class _Reader(io.RawIOBase):
    """Reads a socket in short turns."""

    def __init__(self, connection: socket.socket, stall_s: float, interrupted: Interrupted) -> None:
        self._connection, self._stall_s, self._interrupted = connection, stall_s, interrupted
        self._waited_s, self._came_bytes = 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            check(self._interrupted)
            asked_s, came_bytes = time.monotonic(), None
            with suppress(TimeoutError):
                came_bytes = self._connection.recv_into(buffer)
            self._note(time.monotonic() - asked_s, came_bytes or 0)
            if came_bytes is not None:
                return came_bytes

    def _note(self, waited_s: float, came_bytes: int) -> None:
        """Count what came while it was waited for; what the disk takes meanwhile does not count."""
        self._waited_s, self._came_bytes = self._waited_s + waited_s, self._came_bytes + came_bytes
        if self._waited_s < self._stall_s:
            return
        if self._came_bytes < self._stall_s * LEAST_BYTES_PER_S:
            found = f"no more than {self._came_bytes} bytes" if self._came_bytes else "nothing"
            raise SourceUnreachable(f"{found} came for {self._stall_s:.0f} s")
        self._waited_s, self._came_bytes = 0.0, 0


def words_for(error: OSError) -> str:
    """Return what the system says of a line, in words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _connected(host: str, port: int, patience_s: float, interrupted: Interrupted) -> socket.socket:
    """Return a connection to the first address of a host that answers."""
    failed: OSError = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            _await_connected(connection, address, patience_s, interrupted)
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failed


def _await_connected(connection: socket.socket, address: Any, patience_s: float, interrupted: Interrupted) -> None:
    until_s = time.monotonic() + patience_s
    code = connection.connect_ex(address)
    while code == errno.EINPROGRESS:
        check(interrupted)
        if select.select((), (connection,), (), TURN_S)[1]:
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            break
        if time.monotonic() >= until_s:
            code = errno.ETIMEDOUT
    if code:
        raise OSError(code, os.strerror(code))

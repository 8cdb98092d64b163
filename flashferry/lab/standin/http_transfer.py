"""HTTP and HTTPS as a client: GET for a download, PUT for an upload, over the same TCP as the device's FTP.

The clock of `bytes copied` starts with the answer's head, as FTP's does with its 150 reply. That is not documented: see
docs/lab.md, "Doubts".
"""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Protocol

from flashferry.lab.standin import clock, receive_window
from flashferry.lab.standin.flash import Pace
from flashferry.lab.standin.ftp_pull import Pull
from flashferry.lab.standin.ftp_push import Push
from flashferry.lab.standin.ftp_request import AbortedError, PullHooks
from flashferry.lab.standin.ftp_transfer import CHUNK_BYTES, WordedTransfer
from flashferry.lab.standin.http_protocol import END, Answer, read_head, request_head
from flashferry.lab.standin.results import PullResult
from flashferry.lab.standin.tls import TlsError, TlsSettings, TlsStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import BinaryIO

_LONGEST_HEAD_BYTES = 65536


class Stream(Protocol):
    """What a request goes over: a socket, or TLS on one."""

    def recv(self, most_bytes: int, /) -> bytes:
        """Return up to so many bytes; none at the end."""

    def sendall(self, data: bytes, /) -> None:
        """Send all."""


class HttpTransfer(WordedTransfer):
    """What a download and an upload by HTTP have in common."""

    def open_http(self) -> tuple[socket.socket, Stream]:
        """Open the connection, and TLS on it where the URL says so; its window holds from the first answer on."""
        self._stage = "connect"
        connection = self._connect((self.request.address, self.request.url.port))
        connection.settimeout(self.request.reply_timeout_s)
        receive_window.before_data(connection, self.request.tcp.window_bytes, head_comes_first=True)
        self._stage = "dialogue"
        if self.request.url.scheme == "http":
            return connection, connection
        pace = self.request.decrypts_bytes_per_s
        settings = TlsSettings(
            trusted=self.request.trusted,
            host=self.request.url.host,
            now=self.device_time(),
            pace=None if pace is None else Pace(pace, self._stop),
        )
        try:
            return connection, TlsStream(connection, settings)
        except TlsError as error:
            raise self.failed(error.text) from error

    def device_time(self) -> datetime:
        """Return what the device takes the time to be, in UTC."""
        return (clock.now() + timedelta(seconds=self.request.clock_offset_s)).astimezone(UTC)

    def answer(self, stream: Stream) -> tuple[Answer, bytes]:
        """Read the head of an answer; return it with what came behind it."""
        held = b""
        while END not in held:
            chunk = stream.recv(4096)
            held += chunk
            if not chunk or len(held) > _LONGEST_HEAD_BYTES:
                raise self.failed("closed")
        head, _, rest = held.partition(END)
        self._stage = "file"
        return read_head(head), rest

    def name_of_loss(self) -> str:
        """Distinguish a body that broke off from an answer that never came."""
        return "broken" if self._stage == "file" else "closed"


class HttpPull(HttpTransfer, Pull):
    """One download by GET (RFC 9112)."""

    def _fetch(self, hooks: PullHooks) -> PullResult:
        connection, stream = self.open_http()
        stream.sendall(request_head(self.request, "GET", self.device_time()))
        answer, first = self.answer(stream)
        if answer.failure:
            raise self.failed(answer.failure)
        opened_s = time.monotonic()
        first += self._first_of_body(connection, stream, answer)
        if not hooks.may_begin():
            raise AbortedError
        sink = hooks.open_sink(answer.length_bytes)
        try:
            size = 0
            for chunk in self._body(connection, stream, first, answer.length_bytes):
                sink.write(chunk)
                size += len(chunk)
                hooks.progress(size)
        finally:
            sink.close()
        seconds = time.monotonic() - opened_s
        self.close(connection)
        if answer.length_bytes is not None and size < answer.length_bytes:
            raise self.failed("short")
        return PullResult(size_bytes=size, seconds=seconds)

    def _first_of_body(self, connection: socket.socket, stream: Stream, answer: Answer) -> bytes:
        """Set the buffer for full segments, and over plain HTTP read what comes first.

        The head has taken its part of a small window. With the buffer set before the first of the body is read, Linux
        opens the window again at once; behind it, only after the server's timer has run out.
        """
        if answer.length_bytes == 0:
            return b""
        is_plain = stream is connection
        if is_plain:
            connection.recv(1, socket.MSG_PEEK)
        receive_window.after_first_data(connection, self.request.tcp.window_bytes)
        return self._receive_some(connection, stream, CHUNK_BYTES) if is_plain else b""

    def _body(
        self, connection: socket.socket, stream: Stream, first: bytes, length_bytes: int | None
    ) -> Iterator[bytes]:
        """Yield the body: as long as announced, or to the end of the connection where nothing is announced."""
        left = 1 << 62 if length_bytes is None else length_bytes
        self._stop.wait(self.request.silent_start_s)
        chunk = first[:left] or self._receive_some(connection, stream, left)
        while chunk:
            yield chunk
            left -= len(chunk)
            chunk = self._receive_some(connection, stream, left)

    def _receive_some(self, connection: socket.socket, stream: Stream, most_bytes: int) -> bytes:
        chunk = stream.recv(min(CHUNK_BYTES, most_bytes)) if most_bytes else b""
        receive_window.acknowledge(connection)
        if self._stop.is_set():
            raise AbortedError
        return chunk


class HttpPush(HttpTransfer, Push):
    """One upload by PUT."""

    def run(self, source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Store the file; arguments and errors are those of an FTP upload."""
        with self.device_words():
            connection, stream = self.open_http()
            length = source.seek(0, os.SEEK_END)
            source.seek(0)
            stream.sendall(request_head(self.request, "PUT", self.device_time(), length_bytes=length))
            opened()
            opened_s = time.monotonic()
            size = self._send_body(stream, source, progress)
            answer, _ = self.answer(stream)
            if answer.failure not in {"", "chunked"}:
                raise self.failed(answer.failure if answer.code in {401, 403} else "not_stored")
            self.close(connection)
            return PullResult(size_bytes=size, seconds=time.monotonic() - opened_s)

    def _send_body(self, stream: Stream, source: BinaryIO, progress: Callable[[int], None]) -> int:
        size = 0
        while chunk := source.read(CHUNK_BYTES):
            stream.sendall(chunk)
            size += len(chunk)
            progress(size)
            if self._stop.is_set():
                raise AbortedError
        return size

"""HTTP as a client: GET for a download, PUT for an upload."""

from __future__ import annotations

import base64
import os
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.ftp_pull import Pull
from flashferry.lab.standin.ftp_push import Push
from flashferry.lab.standin.ftp_request import AbortedError, CopyError, PullHooks
from flashferry.lab.standin.results import PullResult

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import BinaryIO

_LONGEST_HEAD_BYTES = 65536
_REASONS = {401: "Permission denied", 403: "Permission denied", 404: "No such file or directory"}


class HttpPull(Pull):
    """One download by GET (RFC 9112); the connection opens with the device's TCP, as that of FTP does."""

    def _fetch(self, hooks: PullHooks) -> PullResult:
        connection = self._connect((self.request.url.host, self.request.url.port))
        connection.settimeout(self.request.reply_timeout_s)
        receive_window.before_data(connection, self.request.tcp.window_bytes)
        connection.sendall(_head(self, "GET"))
        code, length, first = _answer(connection)
        _expect(code, "opening")
        if not hooks.may_begin():
            raise AbortedError
        opened_s = time.monotonic()
        sink = hooks.open_sink(length)
        try:
            if first:
                sink.write(first)
                hooks.progress(len(first))
            size = len(first) + self._receive(connection, sink, lambda more: hooks.progress(len(first) + more))
        finally:
            sink.close()
        seconds = time.monotonic() - opened_s
        self.close(connection)
        if length is not None and size != length:
            raise CopyError("reading", "I/O error")
        return PullResult(size_bytes=size, seconds=seconds)


class HttpPush(Push):
    """One upload by PUT."""

    def run(self, source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Store the file; arguments and errors are those of an FTP upload."""
        with self.device_words():
            connection = self._connect((self.request.url.host, self.request.url.port))
            connection.settimeout(self.request.reply_timeout_s)
            length = source.seek(0, os.SEEK_END)
            source.seek(0)
            connection.sendall(_head(self, "PUT", f"Content-Length: {length}\r\n"))
            opened()
            opened_s = time.monotonic()
            size = self._send_all(connection, source, progress)
            code, _, _ = _answer(connection)
            _expect(code, "writing")
            self.close(connection)
            return PullResult(size_bytes=size, seconds=time.monotonic() - opened_s)


def _head(transfer: Pull | Push, method: str, more: str = "") -> bytes:
    url = transfer.request.url
    login = f"{url.user}:{url.password or ''}".encode("latin-1", "replace")
    authorization = f"Authorization: Basic {base64.b64encode(login).decode()}\r\n" if url.user is not None else ""
    head = f"{method} /{url.path} HTTP/1.1\r\nHost: {url.host}\r\nConnection: close\r\nUser-Agent: cisco-IOS\r\n"
    return f"{head}{authorization}{more}\r\n".encode("latin-1", "replace")


def _answer(connection: socket.socket) -> tuple[int, int | None, bytes]:
    """Read the head of an answer; return its code, the length it announces, and what came behind it."""
    held = b""
    while b"\r\n\r\n" not in held:
        chunk = connection.recv(4096)
        held += chunk
        if not chunk or len(held) > _LONGEST_HEAD_BYTES:
            raise CopyError("opening", "Protocol error")
    head, _, rest = held.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    words = status.split()
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():
        raise CopyError("opening", "Protocol error")
    named = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "transfer-encoding" in named:
        raise CopyError("opening", "Protocol error")
    length = named.get("content-length", "")
    return int(words[1]), int(length) if length.isdecimal() else None, rest


def _expect(code: int, verb: str) -> None:
    if not 200 <= code < 300:
        raise CopyError(verb, _REASONS.get(code, "I/O error"))

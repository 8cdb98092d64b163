"""A web server for rehearsals: it serves files from memory or disk, misbehaves on request, and keeps the requests.

It is the lab's own, standard library only, so that the devices' HTTP client can be judged without the product. A
listening socket belongs to the network namespace that it was made in: start it in the core of a world (`in_core`).
"""

from __future__ import annotations

import base64
import contextlib
import io
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

_PIECE_BYTES = 65536
_LONGEST_HEAD_BYTES = 16384
_PATIENCE_S = 60.0
_LINGER_NOTHING = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How the server answers; the default is well.

    Attributes:
        status: The code of every answer; other than 200 brings no file.
        location: Where a redirect points to.
        is_chunked: The body comes in chunks (RFC 9112 7.1), without a length.
        announced_bytes: The length in the head, whatever the file has; None for the true one, -1 for none.
        cut_after_bytes: The connection ends behind so many bytes of the body, in good order.
        reset_after_bytes: It ends there by a reset.
        stall_after_bytes: Nothing comes behind so many bytes, until the server is closed.
        is_silent: It takes the request and never answers.
        login: Wanted as ``user:password``; anybody else gets 401. None lets everybody in.
    """

    status: int = 200
    location: str = ""
    is_chunked: bool = False
    announced_bytes: int | None = None
    cut_after_bytes: int | None = None
    reset_after_bytes: int | None = None
    stall_after_bytes: int | None = None
    is_silent: bool = False
    login: str | None = None


@dataclass(slots=True, kw_only=True)
class Web:
    """A running server.

    Attributes:
        files: What it serves, by name without the slash: bytes, or the path of a file.
        behaviour: How it answers; may be replaced while it runs.
        requests: The heads of the requests, as they came.
        stored: What was uploaded, by name.
    """

    address: str
    port: int
    files: dict[str, bytes | Path]
    behaviour: Behaviour = field(default_factory=Behaviour)
    requests: list[bytes] = field(default_factory=list)
    stored: dict[str, bytes] = field(default_factory=dict)


@contextlib.contextmanager
def running_web(
    address: str,
    files: Mapping[str, bytes | Path],
    *,
    tls: ssl.SSLContext | None = None,
    congestion: str | None = None,
) -> Iterator[Web]:
    """Serve in the caller's namespace until the block ends.

    `files`: What there is, by name without the slash. `tls`: Makes it a server of HTTPS.
    `congestion`: Congestion control of its connections; None for the host's.
    """
    listener = socket.create_server((address, 0))
    if congestion is not None:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    web = Web(address=address, port=listener.getsockname()[1], files=dict(files))
    over = threading.Event()
    thread = threading.Thread(target=_accept, args=(listener, web, tls, over), name="lab-web")
    thread.start()
    try:
        yield web
    finally:
        over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _accept(listener: socket.socket, web: Web, tls: ssl.SSLContext | None, over: threading.Event) -> None:
    threads: list[threading.Thread] = []
    open_connections: list[socket.socket] = []
    while not over.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        open_connections.append(connection)
        thread = threading.Thread(target=_serve, args=(connection, web, tls, over), name="lab-web-connection")
        thread.start()
        threads.append(thread)
    for connection in open_connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


def _serve(raw: socket.socket, web: Web, tls: ssl.SSLContext | None, over: threading.Event) -> None:
    raw.settimeout(_PATIENCE_S)
    with contextlib.suppress(OSError):  # whatever a device does to its connection is its affair
        connection = raw if tls is None else tls.wrap_socket(raw, server_side=True)
        with connection:
            _Exchange(connection, web, over).run()
    raw.close()


class _Exchange:
    """One request and its answer."""

    def __init__(self, connection: socket.socket, web: Web, over: threading.Event) -> None:
        self._connection = connection
        self._web = web
        self._over = over
        self._does = web.behaviour

    def run(self) -> None:
        head, rest = self._head()
        if not head:
            return
        self._web.requests.append(head)
        if self._does.is_silent:
            self._over.wait(_PATIENCE_S)
            return
        method, target = head.split(b"\r\n")[0].decode("latin-1").split()[:2]
        name = target.lstrip("/")
        if method == "PUT":
            self._store(name, head, rest)
        else:
            self._answer(name, head, has_body=method != "HEAD")

    def _head(self) -> tuple[bytes, bytes]:
        held = b""
        while b"\r\n\r\n" not in held and len(held) < _LONGEST_HEAD_BYTES:
            piece = self._connection.recv(4096)
            if not piece:
                return b"", b""
            held += piece
            if not held[:1].isalpha():  # TLS, at a server without it
                self._send_head(HTTPStatus.BAD_REQUEST, 0)
                return b"", b""
        head, _, rest = held.partition(b"\r\n\r\n")
        return head, rest

    def _store(self, name: str, head: bytes, rest: bytes) -> None:
        length = int(_field(head, "content-length") or 0)
        while len(rest) < length:
            piece = self._connection.recv(_PIECE_BYTES)
            if not piece:
                return
            rest += piece
        status = self._status(head, found=True)
        if status == HTTPStatus.OK:
            self._web.stored[name] = rest
            status = HTTPStatus.CREATED
        self._send_head(status, 0)

    def _answer(self, name: str, head: bytes, *, has_body: bool) -> None:
        held = self._web.files.get(name)
        status = self._status(head, found=held is not None)
        if status != HTTPStatus.OK or held is None:
            self._send_head(status, 0)
            return
        size = len(held) if isinstance(held, bytes) else held.stat().st_size
        self._send_head(status, size)
        if has_body:
            with io.BytesIO(held) if isinstance(held, bytes) else held.open("rb") as source:
                self._send_body(source)

    def _status(self, head: bytes, *, found: bool) -> HTTPStatus:
        if self._does.status != HTTPStatus.OK:
            return HTTPStatus(self._does.status)
        login = self._does.login
        if login is not None and _field(head, "authorization") != f"Basic {base64.b64encode(login.encode()).decode()}":
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.OK if found else HTTPStatus.NOT_FOUND

    def _send_head(self, status: HTTPStatus, size: int) -> None:
        announced = size if self._does.announced_bytes is None else self._does.announced_bytes
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Connection: close"]
        if self._does.location:
            lines.append(f"Location: {self._does.location}")
        if self._does.is_chunked:
            lines.append("Transfer-Encoding: chunked")
        elif announced >= 0:
            lines.append(f"Content-Length: {announced}")
        self._connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _send_body(self, source: BinaryIO) -> None:
        does, sent = self._does, 0
        stops = (does.cut_after_bytes, does.reset_after_bytes, does.stall_after_bytes)
        limit = min((stop for stop in stops if stop is not None), default=1 << 62)
        while sent < limit and (piece := source.read(min(_PIECE_BYTES, limit - sent))):
            self._connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece) if does.is_chunked else piece)
            sent += len(piece)
        if does.stall_after_bytes == limit:
            self._over.wait(_PATIENCE_S)
        elif does.reset_after_bytes == limit:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
        elif does.is_chunked:
            self._connection.sendall(b"0\r\n\r\n")


def _field(head: bytes, name: str) -> str | None:
    """Return the value of a header field."""
    for line in head.decode("latin-1").split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return None

"""The stand-in's web: HTTPS for clients, and a second, plain door for whoever turns its switches.

The plain door (``/standin/...``) listens on loopback or on a unix socket, which also reaches across network namespaces:

- ``GET``, ``PUT``, ``DELETE /standin/faults``: the table of switches; set some; put all back.
- ``GET /standin/exchanges``: what was asked and answered, without tokens and bodies.
- ``GET /standin/labs``: all labs with their states.
- ``GET /standin/errors``: tracebacks of the stand-in's own; there should be none.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import socketserver
import ssl
import struct
import sys
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from flashferry.lab.cml import routes_elements, routes_labs, routes_licence, routes_system
from flashferry.lab.cml.controller import Controller
from flashferry.lab.cml.faults import Selector, Struck
from flashferry.lab.cml.routing import Answer, Request, answer, refusal, said
from flashferry.lab.cml.texts import refused
from flashferry.lab.errors import LabError

BASE = "/api/v0/"
"""Where the interface begins."""

ROUTES = (*routes_labs.ROUTES, *routes_elements.ROUTES, *routes_licence.ROUTES, *routes_system.ROUTES)
"""All calls that there are."""

_IDLE_S = 30.0
_POLL_S = 0.01
_LINGER_NOTHING = struct.pack("ii", 1, 0)
_LONGEST_BODY_BYTES = 64 * 2**20
_UPLOAD = "images/upload"
_HTML = (
    "<html>\r\n<head><title>{status} {phrase}</title></head>\r\n<body>\r\n<center><h1>{status} {phrase}</h1></center>"
    "\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
_PAGES = {"bad_gateway": HTTPStatus.BAD_GATEWAY, "unavailable": HTTPStatus.SERVICE_UNAVAILABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and how it ended; neither body nor token.

    Attributes:
        method: ``GET``, ...
        path: Below ``/api/v0/``, with its question.
        status: Of the answer; 0 where the connection was reset instead.
        faults: The switches that hit it.
    """

    method: str
    path: str
    status: int
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class Web:
    """What the connections of a running stand-in share.

    Attributes:
        controller: Its state.
        spool: A folder for what comes in.
        exchanges: What was asked and answered.
        held: Paths of requests that a slow fault holds now; one that is answered late has been carried out.
        errors: Tracebacks of calls that broke the stand-in itself; the client saw its connection end.
        over: Set at the end.
    """

    controller: Controller
    spool: Path
    exchanges: list[Exchange] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 64
    daemon_threads = False

    def __init__(self, address: Any, handler: type[_Handler], web: Web, tls: ssl.SSLContext | None) -> None:
        self.web = web
        self.tls = tls
        self._open: set[socket.socket] = set()
        if isinstance(address, str):
            self.address_family = socket.AF_UNIX
        super().__init__(address, handler)

    def note(self, connection: socket.socket, *, is_open: bool) -> None:
        """Know a connection that is served, or forget it."""
        (self._open.add if is_open else self._open.discard)(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request, client_address
        if not isinstance(sys.exc_info()[1], OSError):  # whatever a client does to its connection is its affair
            self.web.errors.append(traceback.format_exc())

    def accept(self) -> None:
        """Serve each connection by a thread of its own, until the listening socket is shut."""
        while not self.web.over.is_set():
            try:
                connection, where = self.socket.accept()
            except OSError:
                return
            self.process_request(connection, where)

    def end(self) -> None:
        """Shut every connection, so that no thread waits on one."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                # Not the method of TLS, which would take its state from under the thread that reads.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(ABC, BaseHTTPRequestHandler):
    """Reads requests of one connection, one after another."""

    protocol_version = "HTTP/1.1"
    server_version = "nginx"
    sys_version = ""
    timeout = _IDLE_S
    server: _Server

    def setup(self) -> None:
        if self.server.tls is not None:
            self.request.settimeout(self.timeout)
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.server.note(self.request, is_open=True)
        if self.request.family != socket.AF_UNIX:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def finish(self) -> None:
        self.server.note(self.request, is_open=False)
        with contextlib.suppress(OSError):
            super().finish()
        with contextlib.suppress(OSError):
            self.request.close()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format, args

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def do_PUT(self) -> None:
        self._do()

    def do_PATCH(self) -> None:
        self._do()

    def do_DELETE(self) -> None:
        self._do()

    @abstractmethod
    def _do(self) -> None: ...

    def _length(self) -> int:
        length = self.headers.get("Content-Length", "0")
        return int(length) if length.isdecimal() else 0

    def _send(self, told: Answer) -> None:
        self.send_response(told.status)
        if told.content_type:
            self.send_header("Content-Type", told.content_type)
        if told.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)


class _Interface(_Handler):
    """The interface of the controller."""

    def _do(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path.removeprefix(BASE)) if parts.path.startswith(BASE) else ""
        web = self.server.web
        struck = web.controller.switches.strike(self.command, path)
        with self._request(path, dict(parse_qsl(parts.query))) as request:
            told = None if request is None else self._answered(request, struck)
        shown = f"{path}?{parts.query}" if parts.query else path
        status = 0 if told is None else int(told.status)
        web.exchanges.append(
            Exchange(method=self.command, path=shown, status=status, faults=tuple(sorted(struck.faults)))
        )
        if told is None:
            self._reset()
        else:
            self._send(told)

    @contextlib.contextmanager
    def _request(self, path: str, query: dict[str, str]) -> Iterator[Request | None]:
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = self._length()
        if "chunked" in headers.get("transfer-encoding", "") or (length > _LONGEST_BODY_BYTES and path != _UPLOAD):
            yield None
            return
        if path != _UPLOAD:
            body = self.rfile.read(length)
            yield Request(method=self.command, path=path, query=query, headers=headers, body=body)
            return
        with tempfile.NamedTemporaryFile(dir=self.server.web.spool) as spool:
            while length and (piece := self.rfile.read(min(length, 2**20))):
                spool.write(piece)
                length -= len(piece)
            spool.flush()
            yield Request(method=self.command, path=path, query=query, headers=headers, spool=Path(spool.name))

    def _answered(self, request: Request, struck: Struck) -> Answer | None:
        """Return the answer under the faults that hit; None for a reset."""
        if (instead := self._instead(struck)) is not None:
            return instead
        web = self.server.web
        if struck.has("slow"):
            self._hold(struck.faults["slow"], request.path)
        if struck.has("reset"):
            return None
        told = answer(web.controller, ROUTES, request)
        if struck.has("slow_answer"):
            self._hold(struck.faults["slow_answer"], request.path)
        if struck.has("lost_answer"):
            return None
        if struck.has("plain_text") and told.status != HTTPStatus.NO_CONTENT:
            return Answer(status=told.status, body=b"The stand-in answers in plain text.\n", content_type="text/plain")
        return told

    def _hold(self, fault: Selector, path: str) -> None:
        """Wait as a slow fault says; the end of the stand-in ends it."""
        web = self.server.web
        web.held.append(path)
        # A client that waits for its answer says nothing: what can be read is that it hung up.
        client = select.poll()
        client.register(self.request, select.POLLIN | select.POLLRDHUP)
        while fault.is_in_vain and not client.poll(0) and not web.over.wait(_POLL_S):
            pass
        ends_s = web.controller.uptime_s() + fault.seconds
        while web.controller.uptime_s() < ends_s and not web.over.wait(_POLL_S):
            pass
        web.held.remove(path)

    def _instead(self, struck: Struck) -> Answer | None:
        for name, status in _PAGES.items():
            if struck.has(name):
                page = _HTML.format(status=status.value, phrase=status.phrase)
                return Answer(status=status, body=page.encode(), content_type="text/html")
        if struck.has("server_error"):
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            return said({"code": int(status), "description": "The stand-in was told to fail."}, status)
        if struck.has("expired_token"):
            return refusal(refused("bad_token"))
        if struck.has("forbidden"):
            return refusal(refused("not_permitted", user="of this token"))
        return None

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
            self.request.close()


class _Door(_Handler):
    """The plain door for whoever turns the switches."""

    def _do(self) -> None:
        body = self.rfile.read(self._length())
        try:
            told = self._told(body)
        except (LabError, TypeError, ValueError) as error:
            told = said({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        self._send(told)

    def _told(self, body: bytes) -> Answer:
        web = self.server.web
        switches = web.controller.switches
        match self.command, urlsplit(self.path).path:
            case "GET" | "PUT" | "DELETE" as method, "/standin/faults":
                if method == "PUT":
                    switches.set(**json.loads(body or b"{}"))
                elif method == "DELETE":
                    switches.clear()
                return said(switches.shown())
            case "GET", "/standin/exchanges":
                return said([asdict(each) for each in web.exchanges])
            case "GET", "/standin/errors":
                return said(web.errors)
            case "GET", "/standin/labs":
                with web.controller.lock:
                    labs = web.controller.labs()
                    return said([{"title": lab.title, **web.controller.shapes.lab(lab)} for lab in labs])
        return said({"error": f"There is no {self.command} {self.path} here."}, HTTPStatus.NOT_FOUND)


@contextlib.contextmanager
def serving(web: Web, address: tuple[str, int], tls: ssl.SSLContext) -> Iterator[tuple[str, int]]:
    """Serve the interface in the caller's namespace until the block ends; yields where."""
    with _running(_Server(address, _Interface, web, tls)) as server:
        host, port = server.server_address[:2]
        yield str(host), int(port)


@contextlib.contextmanager
def door(web: Web, address: tuple[str, int] | Path) -> Iterator[str]:
    """Serve the plain door until the block ends.

    Args:
        web: What it is the door of.
        address: Host and port, or the path of a unix socket.

    Yields:
        ``http://HOST:PORT``, or the path.
    """
    where = str(address) if isinstance(address, Path) else address
    with _running(_Server(where, _Door, web, None)) as server:
        yield str(address) if isinstance(address, Path) else "http://{}:{}".format(*server.server_address[:2])
    if isinstance(address, Path):
        address.unlink(missing_ok=True)


@contextlib.contextmanager
def _running(server: _Server) -> Iterator[_Server]:
    thread = threading.Thread(target=server.accept, name="cml-standin")
    thread.start()
    try:
        yield server
    finally:
        server.web.over.set()
        server.socket.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.end()
        server.server_close()

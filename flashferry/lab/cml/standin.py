"""The stand-in's web on Starlette: HTTPS for clients, and a plain control port where tests turn its switches.

The control port (``/standin/...``) listens on loopback or on a unix socket, which also reaches across network
namespaces:

- ``GET``, ``PUT``, ``DELETE /standin/faults``: the table of switches; set some; put all back.
- ``GET /standin/exchanges``: what was asked and answered, without tokens and bodies.
- ``GET /standin/labs``: all labs with their states.
- ``GET /standin/errors``: tracebacks of the stand-in's own; there should be none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import tempfile
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from flashferry.lab.authority import Authority, ServerCertificate
from flashferry.lab.cml.controller import Controller, User
from flashferry.lab.cml.definitions import refused
from flashferry.lab.cml.faults import Selector, Switches
from flashferry.lab.cml.routes import ELEMENT_ROUTES, LAB_ROUTES, LICENCE_ROUTES, SYSTEM_ROUTES
from flashferry.lab.cml.routing import answer, as_json, below_base, refusal
from flashferry.lab.cml.runtime import BootTimes, ClockRuntime, NodeRuntime
from flashferry.lab.errors import LabError

ROUTES = (*LAB_ROUTES, *ELEMENT_ROUTES, *LICENCE_ROUTES, *SYSTEM_ROUTES)
"""All calls that there are."""

_IDLE_S = 30
_END_S = 5
_POLL_S = 0.01
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_UPLOAD = "images/upload"

_HTML = (
    "<html>\r\n<head><title>{status} {phrase}</title></head>\r\n<body>\r\n<center><h1>{status} {phrase}</h1></center>"
    "\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)

_PAGES = {"bad_gateway": HTTPStatus.BAD_GATEWAY, "unavailable": HTTPStatus.SERVICE_UNAVAILABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and how it ended, without body and token.

    `path`: Below ``/api/v0/``, with its query. `status`: Of the answer; 0 where the connection was reset instead.
    `faults`: The switches that hit it.
    """

    method: str
    path: str
    status: int
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class Web:
    """What the connections of a running stand-in share.

    Attributes:
        spool: A folder for what comes in.
        exchanges: What was asked and answered.
        held: Paths of requests that a slow fault holds now; one that is answered late has been carried out.
        errors: Tracebacks of calls that broke the stand-in itself; the client saw its connection end.
    """

    controller: Controller
    spool: Path
    exchanges: list[Exchange] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class _Interface:
    """The interface of the controller, under the faults that hit each request."""

    def __init__(self, web: Web) -> None:
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path, query = below_base(request), request.url.query
        struck = self._web.controller.switches.strike(request.method, path)
        response: Response | None = None
        try:
            async with self._received(request, path) as (body, spool):
                response = await self._answered(request, struck, body, spool)
        except ClientDisconnect:
            return
        except Exception:  # noqa: BLE001 -- the client sees its connection end, and the test sees the traceback
            self._web.errors.append(traceback.format_exc())
        status = 0 if response is None else response.status_code
        shown = f"{path}?{query}" if query else path
        faults = tuple(sorted(struck))
        self._web.exchanges.append(Exchange(method=request.method, path=shown, status=status, faults=faults))
        if response is None:
            _reset(scope["transport"])
        else:
            await response(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _received(self, request: Request, path: str) -> AsyncIterator[tuple[bytes, Path | None]]:
        """Yield the body, or the file that holds it where it is an upload."""
        if path != _UPLOAD:
            yield await request.body(), None
            return
        with tempfile.NamedTemporaryFile(dir=self._web.spool) as spool:
            async for piece in request.stream():
                spool.write(piece)
            spool.flush()
            yield b"", Path(spool.name)

    async def _answered(
        self, request: Request, struck: Mapping[str, Selector], body: bytes, spool: Path | None
    ) -> Response | None:
        """Return the answer under the faults that hit; None for a reset."""
        if (instead := _instead(struck)) is not None:
            return instead
        if "slow" in struck:
            await self._hold(struck["slow"], request)
        if "reset" in struck:
            return None
        response = await run_in_threadpool(answer, self._web.controller, ROUTES, request, body, spool)
        if "slow_answer" in struck:
            await self._hold(struck["slow_answer"], request)
        if "lost_answer" in struck:
            return None
        if "plain_text" in struck and response.status_code != HTTPStatus.NO_CONTENT:
            return PlainTextResponse("The stand-in answers in plain text.\n", response.status_code)
        return response

    async def _hold(self, fault: Selector, request: Request) -> None:
        """Wait as a slow fault says; the end of the stand-in ends it."""
        web, path = self._web, below_base(request)
        web.held.append(path)
        while fault.is_in_vain and not web.over.is_set() and not await request.is_disconnected():
            await asyncio.sleep(_POLL_S)
        ends_s = web.controller.uptime_s() + fault.seconds
        while web.controller.uptime_s() < ends_s and not web.over.is_set():
            await asyncio.sleep(_POLL_S)
        web.held.remove(path)


def _instead(struck: Mapping[str, Selector]) -> Response | None:
    """Return the answer of a fault in whose place nothing is done."""
    for name, status in _PAGES.items():
        if name in struck:
            return HTMLResponse(_HTML.format(status=status.value, phrase=status.phrase), status)
    if "server_error" in struck:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return as_json({"code": int(status), "description": "A switch of the stand-in makes this call fail."}, status)
    if "expired_token" in struck:
        return refusal(refused("bad_token"))
    if "forbidden" in struck:
        return refusal(refused("not_permitted", user="of this token"))
    return None


def _reset(transport: asyncio.Transport) -> None:
    """Close a connection by a reset."""
    with contextlib.suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def _control(web: Web) -> Starlette:
    """Return the application of the control port."""
    switches = web.controller.switches

    async def faults(request: Request) -> Response:
        if request.method == "PUT":
            switches.set(**json.loads(await request.body() or b"{}"))
        elif request.method == "DELETE":
            switches.clear()
        return as_json(switches.shown())

    def exchanges(_: Request) -> Response:
        return as_json([asdict(each) for each in web.exchanges])

    def errors(_: Request) -> Response:
        return as_json(web.errors)

    def labs(_: Request) -> Response:
        with web.controller.lock:
            return as_json([{"title": lab.title, **web.controller.shapes.lab(lab)} for lab in web.controller.labs()])

    async def bad(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.BAD_REQUEST
        return as_json({"error": str(error)}, status)

    routes = [
        Route("/standin/faults", faults, methods=["GET", "PUT", "DELETE"]),
        *(Route(f"/standin/{each.__name__}", each) for each in (exchanges, errors, labs)),
    ]
    handled: dict[Any, Any] = dict.fromkeys((LabError, TypeError, ValueError, HTTPException), bad)
    return Starlette(routes=routes, exception_handlers=handled)


class _Protocol(H11Protocol):
    """Lets the application see the transport, which a reset needs."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        app = self.app

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "transport": transport}, receive, send)

        self.app = with_transport


def _server(app: ASGIApp, tls: ssl.SSLContext | None = None) -> uvicorn.Server:
    config = uvicorn.Config(
        app, http=_Protocol, ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False,
        server_header=False, timeout_keep_alive=_IDLE_S, timeout_graceful_shutdown=_END_S,
    )  # fmt: skip
    config.load()
    config.ssl = tls
    return uvicorn.Server(config)


@contextlib.contextmanager
def serving(
    web: Web, address: tuple[str, int], tls: ssl.SSLContext, control_at: tuple[str, int] | Path
) -> Iterator[tuple[int, str]]:
    """Serve the interface and the control port in the caller's network namespace until the block ends.

    `address`: Host and port of the interface; port 0 for a free one. `control_at`: Host and port, or the path of a unix
    socket. Yields the interface's port, and the control port as ``http://HOST:PORT`` or the path.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(address))
        if isinstance(control_at, Path):
            control = stack.enter_context(socket.socket(socket.AF_UNIX))
            control.bind(str(control_at))
            control.listen()
            stack.callback(control_at.unlink, missing_ok=True)
            shown = str(control_at)
        else:
            control = stack.enter_context(socket.create_server(control_at))
            shown = "http://{}:{}".format(*control.getsockname()[:2])
        servers = {_server(_Interface(web), tls): listener, _server(_control(web)): control}

        async def serve() -> None:
            await asyncio.gather(*(server.serve(sockets=[each]) for server, each in servers.items()))

        thread = threading.Thread(target=asyncio.run, args=(serve(),), name="cml-standin")
        thread.start()
        try:
            yield int(listener.getsockname()[1]), shown
        finally:
            web.over.set()
            for server in servers:
                server.should_exit = True
            thread.join()


USERNAME = "admin"
"""The administrator."""

PASSWORD = "standin"  # noqa: S105
"""The password of every account."""

STRANGER = "stranger"
"""An account without rights over others' labs."""

QUICK = BootTimes(queued_s=0.05, started_s=0.1, stagger_s=0.02)
"""Boot times for tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A controller's certificate and key, and its authority's, PEM; may be used by several, one after another."""

    ca_file: Path
    server: ServerCertificate


def new_identity(folder: Path, *addresses: str) -> Identity:
    """Write a new authority's certificate and one for these addresses and ``localhost`` into a folder."""
    authority = Authority("CML stand-in CA")
    ca_file = folder / "ca.pem"
    ca_file.write_text(authority.pem, encoding="utf-8")
    hosts = list(dict.fromkeys([*addresses, "localhost", "127.0.0.1"]))
    return Identity(ca_file=ca_file, server=authority.issue(folder, hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningController:
    """A stand-in that answers.

    Attributes:
        ca_file: The certificate of its authority, PEM.
        folder: Its own: `images` holds what was uploaded.
        control: Where its switches are turned from outside: ``http://HOST:PORT``, or the path of a unix socket.
        controller: Its state, to look at; hold its lock.
    """

    url: str
    ca_file: Path
    folder: Path
    username: str
    password: str
    control: str
    controller: Controller
    web: Web

    @property
    def faults(self) -> Switches:
        """Its switches."""
        return self.controller.switches

    def as_json(self) -> dict[str, str]:
        """Return where it is and how it is entered, for another process."""
        return {key: str(getattr(self, key)) for key in ("url", "ca_file", "username", "password", "control")}

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """What was asked and answered so far."""
        return tuple(self.web.exchanges)


@contextlib.contextmanager
def standin_controller(
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    runtime: NodeRuntime | None = None,
    version: str | None = None,
    control_at: tuple[str, int] | Path = ("127.0.0.1", 0),
    folder: Path | None = None,
    identity: Identity | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RunningController]:
    """Serve a controller in the caller's network namespace until the block ends.

    `address`: Where to listen; the certificate is for it and for ``localhost``. `port`: 0 for a free one. `runtime`:
    What runs the nodes, closed at the end; None for nodes that boot in a moment and are but a clock. `version`: The
    controller's; None for the switch's default. `control_at`: Where switches are turned: host and port, or a path for a
    unix socket. `folder`: An existing folder for its certificates and image files; None for one that goes at the end.
    `identity`: Its certificates; None for new ones, which takes a moment. `clock`: Its seconds, of any beginning; never
    backwards. A runtime that is given has its own.
    """
    with contextlib.ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cml-standin-")))
        images, spool = home / "images", home / "spool"
        images.mkdir(exist_ok=True)
        spool.mkdir(exist_ok=True)
        nodes: NodeRuntime = runtime or ClockRuntime(QUICK, clock=clock)
        stack.callback(nodes.close)
        users = [User(username=USERNAME, password=PASSWORD), User(username=STRANGER, password=PASSWORD, is_admin=False)]
        controller = Controller(images, users=users, runtime=nodes, clock=clock)
        controller.switches.set(version=version)
        shown = identity or new_identity(home, address)
        web = Web(controller=controller, spool=spool)
        opened, control = stack.enter_context(serving(web, (address, port), shown.server.context(), control_at))
        yield RunningController(
            url=f"https://{address}:{opened}",
            ca_file=shown.ca_file,
            folder=home,
            username=USERNAME,
            password=PASSWORD,
            control=control,
            controller=controller,
            web=web,
        )

"""Guard of each route: checks the access table and refuses cross-site requests."""

from __future__ import annotations

import hmac
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from copy import copy
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flashferry.core.value_description import of_these, unknown_key
from flashferry.core.values import replace
from flashferry.service.access import PUBLIC, Access
from flashferry.service.api.depends import LONGEST_PROSE, why_unfit
from flashferry.service.api.limits import OTHERS, SIGNED_IN, Bodies, FormPieces
from flashferry.service.errors import BadForm, Forbidden, InvalidRequest, ServiceError, Unauthenticated
from flashferry.service.people.identity import Identity, RequestAuth, anonymous, auth_of, identify, is_scraper
from flashferry.service.people.sign_in import DenialLog, network_of
from flashferry.service.principal import Actor
from flashferry.service.service import Service

FIELD = "csrf"
"""The field of every form that changes something."""
HEADER = "x-csrf-token"
"""The same for scripts, which send no form."""
_MOST_AHEAD_BYTES = 256 << 10
_LONGEST_NEXT = 2000
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_AGAIN = "Load the page again, and send it from there"


def changes_something(method: str) -> bool:
    """Return whether a method may change anything."""
    return method not in _SAFE


def check_same_site(request: Request, service: Service, *, is_demanded: bool) -> None:
    """Check that a page of this service started the request.

    With `is_demanded`, the browser's headers must prove it; otherwise a request without such headers passes.

    Raises:
        Forbidden: Another site started the request, or the origin is unknown.
    """
    settings = service.settings
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    ours = _host(settings.url) if settings.url else _host(f"//{request.headers.get('host', '')}")
    if site is not None and site != "same-origin":
        raise _refused(
            f"expected a request from a page of this service, found one that the browser calls {site[:20]!r}"
        )
    is_plain = settings.is_secure and urlsplit(origin or "").scheme == "http"
    if origin is not None and ((_host(origin) or origin) != ours or is_plain):
        raise _refused("expected a request from a page of this service, found one with another Origin")
    if is_demanded and site is None and origin is None:
        raise _refused("expected Origin or Sec-Fetch-Site beside a session's cookie, found neither")


async def check_token(request: Request, csrf: str) -> Receive:
    """Check the session's CSRF token in header or form; return a receiver from which the route reads the body again.

    Raises:
        Forbidden: The token is missing or wrong.
    """
    given, receive = request.headers.get(HEADER), request.receive
    if given is None and request.headers.get("content-type", "").startswith(_FORMS):
        body = await request.body()
        given, receive = await _field(request, body), _again(body, request.receive)
    if given is None:
        raise _refused(f"expected the form's token in the field {FIELD!r} or the header X-CSRF-Token, found none")
    if not hmac.compare_digest(given.encode(), csrf.encode()):
        raise _refused("expected the token of this session's forms, found another one")
    return receive


async def check_token_ahead(request: Request, csrf: str) -> Receive:
    """Check the CSRF token at the start of a form with a large file, without reading the file.

    Raises:
        Forbidden: The token is wrong, or not among the first bytes.
    """
    if HEADER in request.headers:
        return await check_token(request, csrf)
    if not request.headers.get("content-type", "").startswith(_FORMS[1]):
        raise _refused("expected the form's token in X-CSRF-Token, or in a form of several parts, found neither")
    pieces = FormPieces(request.headers.get("content-type", ""))
    read: list[Message] = []
    size = 0
    while FIELD not in pieces.fields and size < _MOST_AHEAD_BYTES:
        message = await request.receive()
        read.append(message)
        size += len(message.get("body", b""))
        pieces.feed(message.get("body", b""))
        if not message.get("more_body", False):
            break
    if not hmac.compare_digest(pieces.fields.get(FIELD, "").encode(), csrf.encode()):
        raise _refused("expected the token of this session's forms before the file, found none or another one")

    async def receive() -> Message:
        return read.pop(0) if read else await request.receive()

    return receive


def _host(url: str) -> str:
    """Return host and port of a URL, without a default port; empty if the URL is invalid."""
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        return ""
    return (split.hostname or "") + (f":{port}" if port not in (None, 80, 443) else "")


def safe_next(requested: str) -> str:
    r"""Return the page to show after sign-in if it is a path of this service, else `/`.

    Browsers take `//host`, `/\host` and `/<tab>/host` for another host.
    """
    is_ours = (
        requested.startswith("/")
        and not requested.startswith("//")
        and "\\" not in requested
        and requested.isprintable()
        and len(requested) <= _LONGEST_NEXT
        and not urlsplit(requested).netloc
        and not requested.startswith(("/api/", "/login", "/logout"))
    )
    return requested if is_ours else "/"


async def _field(request: Request, body: bytes) -> str | None:
    async def once() -> AsyncGenerator[bytes, None]:
        yield body
        yield b""

    try:
        if request.headers["content-type"].startswith(_FORMS[0]):
            form = await FormParser(request.headers, once()).parse()
        else:
            form = await MultiPartParser(request.headers, once()).parse()
    except (MultiPartException, KeyError, ValueError):
        raise BadForm("expected a form, found what cannot be read as one", hint=_AGAIN) from None
    found = form.get(FIELD)
    await form.close()
    return found if isinstance(found, str) else None


def _again(body: bytes, rest: Receive) -> Receive:
    is_given = False

    async def receive() -> Message:
        nonlocal is_given
        if is_given:
            return await rest()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _refused(sentence: str) -> ServiceError:
    return Forbidden(sentence, hint=_AGAIN)


REFUSED = "access.refused"
RECHECK_S = 15.0
"""How often access is checked again while an answer is streamed, seconds."""


def guarded(
    routes: Iterable[BaseRoute],
    table: Mapping[tuple[str, str], Access],
    service: Service,
    book: DenialLog,
    bodies: Bodies,
) -> list[BaseRoute]:
    """Return copies of routes that check access before they answer.

    Raises:
        LookupError: A route has no row in the table, or is of a kind that cannot be guarded.
    """
    return [_guarded(route, table, service, book, bodies) for route in routes]


def _guarded(
    route: BaseRoute, table: Mapping[tuple[str, str], Access], service: Service, book: DenialLog, bodies: Bodies
) -> BaseRoute:
    if not isinstance(route, Route | Mount):  # such as a router inside a router, whose routes FastAPI does not list
        raise LookupError(f"expected a route that can be guarded, found {type(route).__name__}")  # noqa: TRY004
    methods = (route.methods or set()) if isinstance(route, Route) else {"GET"}
    rows: dict[str, Access] = {}
    for method in {"GET" if method == "HEAD" else method for method in methods}:
        if (row := table.get((method, route.path))) is None:
            raise LookupError(f"route {method} {route.path} has no row in the table of access")
        rows[method] = row
    made = copy(route)
    made.app = Guard(
        route.app, rows, path=route.path, query=_query_of(route), service=service, book=book, bodies=bodies
    )
    return made


def _query_of(route: BaseRoute) -> frozenset[str] | None:
    """Return the query parameters that an API route takes; None for a page, which ignores unknown ones."""
    if not isinstance(route, APIRoute) or not route.path.startswith("/api/"):
        return None
    return frozenset(_query_names(route.dependant))


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_names(inner)


class Guard:
    """ASGI application that admits callers to the methods of one route."""

    def __init__(
        self,
        app: ASGIApp,
        rows: Mapping[str, Access],
        *,
        path: str,
        query: frozenset[str] | None = None,
        service: Service,
        book: DenialLog,
        bodies: Bodies,
    ) -> None:
        self._app = app
        self._rows = rows
        self._path = path
        self._query = query
        self._service = service
        self._book = book
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check access and call the route. Raises `ServiceError` if the caller is refused."""
        request = Request(scope, receive)
        asked_for = self._rows.get(request.method, PUBLIC)
        if asked_for.is_large:
            await self._answer(scope, receive, send)
            return
        quota = OTHERS if asked_for.is_public else SIGNED_IN
        body = self._bodies.counted(
            request, asked_for.most_bytes, quota=quota, owner=lambda: _owner(request, is_public=asked_for.is_public)
        )
        try:
            await self._answer(scope, body.receive, send)
        finally:
            body.let_go()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        method = "GET" if request.method == "HEAD" else request.method
        row = self._rows.get(method)
        if row is None:
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED.value)
        asked = auth_of(request, self._service)
        request.state.actor = actor = anonymous(asked.address)
        request.state.csrf = ""
        try:
            if row.is_public:
                if changes_something(method):
                    check_same_site(request, self._service, is_demanded=False)
            elif not (row.is_for_scrapers and is_scraper(request, asked, self._service.settings.metrics.networks)):
                identity = await run_in_threadpool(identify, self._service, asked)
                request.state.actor = actor = identity.actor
                request.state.identity, request.state.csrf = identity, identity.csrf
                _check_roles(row, actor)
                if changes_something(method) and identity.csrf:
                    receive = await self._check_meant(request, identity, row)
        except ServiceError as problem:
            if isinstance(problem, Unauthenticated) and _is_for_people(request):
                await RedirectResponse(_sign_in(request), HTTPStatus.SEE_OTHER)(scope, receive, send)
                return
            await run_in_threadpool(self._book.note, actor, REFUSED, f"route:{method} {self._path}", problem.sentence)
            raise
        _check_texts(request)
        if self._query is not None:
            _check_query(request, self._query)
        if not row.is_public and request.method == "GET":
            send = self._watched(asked, row, actor, send)
        request.state.is_admitted = True
        await self._app(scope, receive, send)

    def _watched(self, asked: RequestAuth, row: Access, actor: Actor, send: Send) -> Send:
        """Return a `send` that stops a long stream once the caller loses access."""
        checked_s, is_cut = time.monotonic(), False

        async def sent(message: Message) -> None:
            nonlocal checked_s, is_cut
            if is_cut:
                return
            if message["type"] == "http.response.body" and time.monotonic() - checked_s > RECHECK_S:
                checked_s = time.monotonic()
                if is_cut := not await run_in_threadpool(self._still, asked, row, actor):
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return sent

    def _still(self, asked: RequestAuth, row: Access, actor: Actor) -> bool:
        """Return whether the caller is still admitted, with the same grants as at the start."""
        try:
            now = identify(self._service, replace(asked, is_watch=True)).actor
            _check_roles(row, now)
        except ServiceError:
            return False
        return now.grants == actor.grants

    async def _check_meant(self, request: Request, identity: Identity, row: Access) -> Receive:
        if identity.is_idle:
            idle_min = self._service.settings.idle_s / 60
            raise Forbidden(
                f"expected a session that was used within {idle_min:.0f} min, found one that was left alone longer",
                hint="Sign in again; until then the session can read, but change nothing",
            )
        check_same_site(request, self._service, is_demanded=True)
        check = check_token_ahead if row.is_large else check_token
        return await check(request, identity.csrf)


def _owner(request: Request, *, is_public: bool) -> str:
    """Return the key under which body bytes are counted: the user, or the address on a public route."""
    actor: Actor = request.state.actor
    return network_of(actor.address or "") if is_public else actor.name


def _check_texts(request: Request) -> None:
    """Refuse invalid characters and excessive lengths in path names and query values."""
    path = [("path", str(value)) for value in request.path_params.values()]
    for where, text in [*path, *(("query", text) for pair in request.query_params.multi_items() for text in pair)]:
        found = why_unfit(text) or (f"{len(text):,} characters" if len(text) > LONGEST_PROSE else "")
        if found:
            raise InvalidRequest(
                f"{where}: expected text of at most {LONGEST_PROSE:,} characters without NUL, found {found}",
                hint="Send the name as it is listed",
            )


def _check_query(request: Request, known: frozenset[str]) -> None:
    """Refuse unknown query parameters: a misspelled filter must not return everything."""
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise InvalidRequest(
            f"query: {unknown_key(unknown[0], sorted(known)) if known else 'this path takes no parameter'}",
            hint="GET /api/v1/openapi.json describes what each path takes"
            if request.url.path.startswith("/api/")
            else "Choose the page from the menu",
        )


def _check_roles(row: Access, actor: Actor) -> None:
    if row.roles and not actor.has(row.roles):
        roles = sorted(row.roles) if len(row.roles) > 1 else [f"the role {role}" for role in row.roles]
        has = ", ".join(sorted({grant.role.value for grant in actor.grants})) or "none"
        raise Forbidden(
            f"expected {of_these(roles, 'one of the roles')}, found {has}",
            hint="Ask an admin of the service for the role",
        )


def _is_for_people(request: Request) -> bool:
    """Return whether a browser asks for a page, so that the answer is a redirect to the sign-in."""
    path = request.url.path
    return (
        request.method in ("GET", "HEAD")
        and not path.startswith("/api/")
        and not path.endswith(".json")
        and "text/html" in request.headers.get("accept", "")
    )


def _sign_in(request: Request) -> str:
    requested = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?next={quote(requested, safe='/')}"

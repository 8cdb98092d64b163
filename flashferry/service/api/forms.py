"""Protection against cross-site requests: where a request was started, and the form's token.

Facts
-----
* Browsers send `Sec-Fetch-Site` (Fetch Metadata; HTTPS and loopback), and `Origin` with every POST (Fetch standard).
  `Origin` is `null` with `Referrer-Policy: no-referrer`; ours is `same-origin`.
* `SameSite=Lax` withholds the cookie from POSTs of other sites, not from those of another host of the same site.
* The token is read here before the route reads the form; the route is given the same bytes again.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

from starlette.formparsers import FormParser, MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Message, Receive

from flashferry.service.api.form_pieces import FormPieces
from flashferry.service.errors import BadForm, Forbidden, ServiceError
from flashferry.service.settings import ServiceSettings

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


def check_same_site(request: Request, settings: ServiceSettings, *, is_demanded: bool) -> None:
    """Check that a request was started by a page of this service.

    Args:
        request: The request.
        settings: For the public URL.
        is_demanded: Whether the browser must say so; else it is enough that it does not say otherwise.

    Raises:
        Forbidden: It was started elsewhere, or that is unknown.
    """
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
    """Check the session's token; return the receiver from which the route reads the body.

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
    """Check the session's token before a large file, without reading the file.

    Raises:
        Forbidden: The token is missing among the first bytes, or wrong.
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
    """Return host and port of a URL without the default ports, as browsers do; empty if invalid."""
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

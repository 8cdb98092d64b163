"""ASGI middleware: security headers, and one log line per request."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flashferry.core.log_file import FIELDS
from flashferry.core.redaction import MASK, masked, sanitize
from flashferry.service.principal import ANONYMOUS, Actor
from flashferry.service.settings import ServiceSettings

POLICY = (
    "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'; "
    "img-src 'self' data:"
)
"""No inline scripts, no inline style."""

ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}

TRANSPORT = "max-age=31536000"
"""How long browsers insist on HTTPS."""


class SecurityHeaders:
    """Adds security headers to every answer, including errors."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._headers = {**ALWAYS, **({"Strict-Transport-Security": TRANSPORT} if settings.is_secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application and add the headers to its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            refused = PlainTextResponse("expected one length, found two\n", 400, {"Connection": "close"})
            await refused(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


LOG = logging.getLogger("flashferry.service.access")
_TOKEN = re.compile(r"ffy_[A-Za-z0-9_-]+")
_KEPT = "/:@!$&'()*+,;=~-._"
_LONGEST = 400


class AccessLog:
    """Logs each request after its answer; a stream is logged when its client disconnects."""

    def __init__(self, app: ASGIApp, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock_s = app, clock_s
        # Log every request, whatever the log's level.
        LOG.setLevel(logging.INFO)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application and log the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status = self._clock_s(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            _report(scope, status, (self._clock_s() - began_s) * 1000)


def log_path(path: str) -> str:
    """Return a path fit for a log line: URL characters only, secrets masked, limited in length."""
    found = quote(_TOKEN.sub(f"ffy_{MASK}", masked(path)), safe=_KEPT)
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."


def _report(scope: Scope, status: int, took_ms: float) -> None:
    actor = scope.get("state", {}).get("actor")
    name, address = (actor.name, actor.address) if isinstance(actor, Actor) else (ANONYMOUS, "")
    client = scope.get("client")
    fields = {
        "address": address or (client[0] if client else "-"),
        "actor": name,
        "method": scope["method"],
        "path": log_path(scope["path"]),
        "status": status or None,
        "ms": round(took_ms, 1),
    }
    words = (str(fields[key] or "-") for key in ("address", "actor", "method", "path", "status"))
    # A space would start another field of the log line.
    line = " ".join(quote(sanitize(word), safe=f"{_KEPT}%") for word in words)
    LOG.info("%s %.1f ms", line, took_ms, extra={FIELDS: fields})

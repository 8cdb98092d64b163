"""Security headers of every answer, unless the answer sets its own.

A request with two lengths is refused here: RFC 9112 (6.1) takes it for request smuggling.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Adds the headers to every answer, errors too."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._headers = {**ALWAYS, **({"Strict-Transport-Security": TRANSPORT} if settings.is_secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers."""
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

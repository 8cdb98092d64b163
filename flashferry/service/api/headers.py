"""What every answer says to browsers: load nothing from elsewhere, show it in no frame, guess no type, keep no copy.

An answer that says otherwise for itself is left so: a report, say, which is one file with its own style.

A request whose length is told in two ways is answered here, and its connection closed: RFC 9112 (6.1) takes it for an
attempt to smuggle a second request past a proxy, and the server below would take the second one.
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
"""Neither inline scripts nor inline style: a hostile text that got out of its place would still do nothing."""

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
"""How long browsers insist on HTTPS, where they came by it."""


class SecurityHeaders:
    """Puts them on every answer, errors too.

    Args:
        app: What answers.
        settings: Whether there is TLS.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self._app = app
        self._headers = {**ALWAYS, **({"Strict-Transport-Security": TRANSPORT} if settings.is_secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with the headers."""
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

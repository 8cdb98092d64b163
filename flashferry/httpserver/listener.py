"""The HTTP protocol on a listening socket, and its settings."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from flashferry.core.values import as_dict
from flashferry.fileserver import ListenerSettings, sockets
from flashferry.fileserver.protocol import BACKLOG, Acceptor, ServingContext, accept_failed
from flashferry.httpserver.certificate import check_certificate, server_context
from flashferry.httpserver.session import HttpSession
from flashferry.httpserver.streams import PlainStream, Stream, TlsStream

PROTOCOL = "flashferry.httpserver.listener:HttpListener"
"""Name by which the file server imports HTTP and HTTPS."""

CLEAR, ENCRYPTED = ("http",), ("https",)
"""Names of the transports served, as in tickets."""


class HttpOptions(Struct, frozen=True, kw_only=True):
    """Options of a listener that are specific to HTTP.

    Attributes:
        certificate: File with our certificate followed by those of its issuers; empty for clear text.
        key: File with its private key.
    """

    certificate: str = ""
    key: str = ""

    @property
    def transports(self) -> tuple[str, ...]:
        """Names of the transports served with these options."""
        return ENCRYPTED if self.certificate else CLEAR


def http_listener(
    *,
    listen_address: str = "0.0.0.0",  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0,
) -> ListenerSettings:
    """Return a listener for HTTP; see `ListenerSettings`.

    Raises:
        SettingsInvalid: An argument is out of its range.
    """
    return ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=CLEAR,
        options=as_dict(HttpOptions()),
    )


def https_listener(
    *,
    listen_address: str = "0.0.0.0",  # noqa: S104 - as above
    port: int = 0,
    certificate: Path,
    key: Path,
) -> ListenerSettings:
    """Return a listener for HTTPS; it never speaks clear text.

    Args:
        listen_address: See `ListenerSettings`.
        port: The same.
        certificate: PEM file with our certificate, which devices already trust, followed by those of its issuers.
        key: PEM file with its private key, without a passphrase, not readable by other users.

    Raises:
        SettingsInvalid: An argument is out of its range, or one of the files is unusable; see `check_certificate`.
    """
    check_certificate(certificate, key)
    return ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=ENCRYPTED,
        options=as_dict(HttpOptions(certificate=str(certificate.absolute()), key=str(key.absolute()))),
    )


class HttpListener(Acceptor):
    """HTTP or HTTPS on one listening socket, see `flashferry.fileserver.protocol`.

    Attributes:
        context: Shared objects of the file server.
        transports: Names of the transports served, as in tickets.
        sessions: Open sessions.
    """

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        given = msgspec.convert(options, HttpOptions)
        super().__init__(ioloop=context.loop)
        self.context = context
        self.transports = given.transports
        self.sessions: set[HttpSession] = set()
        self._tls: ssl.SSLContext | None = None
        if given.certificate:
            self._tls = server_context(Path(given.certificate), Path(given.key))
        if context.settings.profile.mss_bytes is not None:
            # Set on the listening socket, because the MSS is sent in the SYN-ACK.
            sockets.set_mss(listening, context.settings.profile.mss_bytes)
        self._listening = listening

    def open(self) -> None:
        """Start accepting sessions."""
        self._listening.setblocking(False)
        self.set_socket(self._listening)
        self.listen(BACKLOG)

    @property
    def transfers_to_come(self) -> int:
        """Always 0: an image is sent as soon as it is requested."""
        return 0

    def stream_of(self, connection: socket.socket) -> Stream:
        """Return the byte stream of a client's connection: clear text or TLS."""
        return PlainStream(connection) if self._tls is None else TlsStream(connection, self._tls)

    def handle_accepted(self, sock: socket.socket, addr: Any) -> None:
        """Serve a client."""
        HttpSession(sock, self, addr[0]).begin()

    def drain(self) -> None:
        """Stop accepting sessions, and close idle ones."""
        self._stop_listening()
        for session in tuple(self.sessions):
            session.close_idle()

    def close(self, reason: str = "") -> None:
        """Close the listening socket and every session at once."""
        self._stop_listening()
        for session in tuple(self.sessions):
            session.cut_reason = reason or session.cut_reason
            session.close()

    def _stop_listening(self) -> None:
        super().close()
        self._listening.close()

    def handle_error(self) -> None:
        """Keep listening after a connection could not be accepted."""
        accept_failed(self, "http listener")

    def handle_close(self) -> None:
        """Keep listening."""

"""The HTTP protocol on a listening socket, and its settings."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from flashferry.fileserver import ListenerSettings, sockets
from flashferry.fileserver.protocol import BACKLOG, Acceptor, ServingContext, accept_failed
from flashferry.httpserver.certificate import check_certificate, server_context
from flashferry.httpserver.session import HttpSession
from flashferry.httpserver.streams import PlainStream, Stream, TlsStream

PROTOCOL = "flashferry.httpserver.listener:HttpListener"

"""Where a file server finds both."""

CLEAR, ENCRYPTED = ("http",), ("https",)

"""What is served, as tickets name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What is HTTP's own in how a server runs.

    Attributes:
        certificate: File with our certificate, those of its issuers behind it; empty: in clear text.
        key: File with its private key.
    """

    certificate: str = ""
    key: str = ""

    @property
    def transports(self) -> tuple[str, ...]:
        """What is served by them."""
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
        options=asdict(HttpOptions()),
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
        certificate: File with our certificate, which devices trust already, in PEM; those of its issuers behind it.
        key: File with its private key, in PEM and without a passphrase, which others cannot read.

    Raises:
        SettingsInvalid: An argument is out of its range, or one of both files will not do; see `check_certificate`.
    """
    check_certificate(certificate, key)
    return ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=ENCRYPTED,
        options=asdict(HttpOptions(certificate=str(certificate.absolute()), key=str(key.absolute()))),
    )


class HttpListener(Acceptor):
    """HTTP or HTTPS on one listening socket, see `flashferry.fileserver.protocol`.

    Attributes:
        context: What its sessions work with.
        transports: What is served, as tickets name it.
        sessions: Those that are open.
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
            # It goes into the SYN-ACK, and one connection carries request and image.
            sockets.set_mss(listening, context.settings.profile.mss_bytes)
        self._listening = listening

    def open(self) -> None:
        """Take sessions from now on."""
        self._listening.setblocking(False)
        self.set_socket(self._listening)
        self.listen(BACKLOG)

    @property
    def transfers_to_come(self) -> int:
        """None: an image is sent as soon as it is granted."""
        return 0

    def stream_of(self, connection: socket.socket) -> Stream:
        """Return how bytes come and go on a client's connection."""
        return PlainStream(connection) if self._tls is None else TlsStream(connection, self._tls)

    def handle_accepted(self, sock: socket.socket, addr: Any) -> None:
        """Serve a client."""
        HttpSession(sock, self, addr[0]).begin()

    def drain(self) -> None:
        """Take no new sessions, and send idle ones away."""
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
        """Go on: one connection that could not be taken is no reason to take none."""
        accept_failed(self, "http listener")

    def handle_close(self) -> None:
        """Go on, for the same reason."""

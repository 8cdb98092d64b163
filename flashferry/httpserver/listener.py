"""HTTP and HTTPS as protocols of the file server; found by the name in `settings.PROTOCOL`."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from flashferry.fileserver import sockets
from flashferry.fileserver.protocol import BACKLOG, Acceptor, ServingContext, accept_failed
from flashferry.httpserver.certificate import server_context
from flashferry.httpserver.session import HttpSession
from flashferry.httpserver.settings import HttpOptions
from flashferry.httpserver.streams import PlainStream, Stream, TlsStream


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

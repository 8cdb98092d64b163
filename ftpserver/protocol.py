"""FTP as a protocol of the file server, which imports it by the name in `ftpserver.control.PROTOCOL`."""

import socket
from collections.abc import Mapping
from typing import Any

import msgspec

from flashferry.fileserver.protocol import BACKLOG, ServingContext, accept_failed
from ftpserver.control import FtpOptions
from ftpserver.data import FTPServer
from ftpserver.session import ImageSession


def session_class(context: ServingContext, options: FtpOptions) -> type[ImageSession]:
    """Make a session class for one listener; the library keeps settings as class attributes."""
    return type(
        "ServerSession",
        (ImageSession,),
        {
            "tickets": context.tickets,
            "settings": context.settings,
            "options": options,
            "timeout": context.settings.limits.idle_s,
        },
    )


class _ListeningSocket(FTPServer):
    """The library's listening socket, which here continues after a connection could not be accepted."""

    def handle_error(self) -> None:
        accept_failed(self, "ftp listener")


class FtpListener:
    """FTP on one listening socket, see `flashferry.fileserver.protocol`."""

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        self._session_class = session_class(context, msgspec.convert(options, FtpOptions))
        self._loop = context.loop
        self._listening = listening
        self._server: Any = None

    def open(self) -> None:
        """Start accepting sessions."""
        self._server = _ListeningSocket(self._listening, self._session_class, ioloop=self._loop, backlog=BACKLOG)
        # The library's limit counts sockets; ours counts sessions, see `BoundedControl.on_connect`.
        self._server.max_cons = 0

    @property
    def transfers_to_come(self) -> int:
        """Number of accepted RETR commands (reply 150) that wait for their data connection."""
        return sum(session.waits_to_send for session in self._sessions())

    def drain(self) -> None:
        """Stop accepting sessions, and close idle ones."""
        self._stop_listening()
        for session in self._sessions():
            if session.data_channel is None and not session.waits_to_send:
                session.respond("421 Server is going down.")
                session.close_when_done()

    def close(self, reason: str) -> None:
        """Close the listening socket and every session at once."""
        self._stop_listening()
        for session in self._sessions():
            session.end_waiting(reason)
            session.close()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
        self._listening.close()

    def _sessions(self) -> list[ImageSession]:
        open_now = self._loop.socket_map.values()
        return [instance for instance in open_now if isinstance(instance, self._session_class)]

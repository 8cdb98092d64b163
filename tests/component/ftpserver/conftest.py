"""A real server process on loopback, and clients that speak FTP to it."""

import contextlib
import ftplib
import select
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver import EventKind, ServerEvent, Ticket
from ftpserver import ftp_listener
from tests.component.benches import IMAGE, ServerBench, serving
from tests.patience import PATIENCE_S, until


@dataclass(kw_only=True)
class Bench(ServerBench):
    """A server, its image, and what a test needs to reach it."""

    def connect(self, source: str = "127.0.0.1") -> ftplib.FTP:
        client = ftplib.FTP()
        try:
            client.connect("127.0.0.1", self.server.port, timeout=PATIENCE_S, source_address=(source, 0))
        except BaseException:
            client.close()
            raise
        return client

    def login(self, ticket: Ticket, source: str = "127.0.0.1") -> ftplib.FTP:
        client = self.connect(source)
        try:
            client.login(ticket.username, ticket.password)
        except BaseException:
            client.close()
            raise
        return client

    @staticmethod
    def heard(events: Sequence[ServerEvent], kind: EventKind) -> None:
        """Wait until an event of a kind is among those heard: they come by a thread of their own, maybe later."""
        until(lambda: any(event.kind is kind for event in events), lambda: f"event {kind} among {events}")

    @staticmethod
    def fetch(client: ftplib.FTP, path: str = IMAGE, rest: int | None = None) -> bytes:
        """Fetch a file into memory."""
        pieces: list[bytes] = []
        client.retrbinary(f"RETR {path}", pieces.append, rest=rest)
        return b"".join(pieces)

    def fetch_active(self, client: ftplib.FTP) -> bytes:
        """Fetch the image by PORT: the kernel takes the server's call at once, whatever this process does meanwhile."""
        client.set_pasv(False)
        return self.fetch(client)

    @staticmethod
    def never_connect(client: ftplib.FTP) -> int:
        """Ask for the image by PASV in one packet, and never come for it; return the port.

        Between the two a client that stands still would lose its listener.
        """
        assert client.sock is not None
        client.sock.sendall(f"PASV\r\nRETR {IMAGE}\r\n".encode())
        _, port = ftplib.parse227(client.getresp())
        assert client.getresp().startswith("150")
        return port

    @staticmethod
    def slow_data_connection(client: ftplib.FTP, receive_buffer: int = 2304) -> socket.socket:
        """Open a passive data connection whose receiver hardly takes anything before it is read."""
        host, port = client.makepasv()
        data = socket.socket()
        data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        data.settimeout(PATIENCE_S)
        data.connect((host, port))
        return data

    @staticmethod
    def read_all(data: socket.socket) -> bytes:
        """Read a connection to its end."""
        pieces = []
        while piece := data.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)

    @staticmethod
    def has_reply(client: ftplib.FTP) -> bool:
        """Tell whether something has come on the control connection, without waiting."""
        assert client.sock is not None
        return bool(select.select([client.sock], [], [], 0)[0])


@contextlib.contextmanager
def running(folder: Path, **options: Any) -> Iterator[Bench]:
    """Run a server in a folder; options change its settings, `listener` those of its listener."""
    listener = ftp_listener(**{"listen_address": "127.0.0.1", **options.pop("listener", {})})
    with serving(folder, (listener,), options) as found:
        yield Bench(**vars(found))


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server; `@pytest.mark.parametrize("bench", [{...}], indirect=True)` changes settings."""
    with running(tmp_path, **dict(getattr(request, "param", {}))) as found:
        yield found


@pytest.fixture
def closing() -> Iterator[contextlib.ExitStack]:
    """Closes clients and sockets at the end of a test."""
    with contextlib.ExitStack() as stack:
        yield stack

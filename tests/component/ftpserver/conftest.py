"""A real server process on loopback, and clients that speak FTP to it."""

import contextlib
import ftplib
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver import (
    EventKind,
    FileServer,
    Limits,
    SenderProfile,
    ServerEvent,
    ServerSettings,
    Ticket,
    TicketRequest,
    TransferProgress,
    TransferState,
)
from ftpserver import ftp_listener

IMAGE = "csr1000v-universalk9.16.11.01.SPA.bin"
OTHER = "other.bin"


@dataclass
class Bench:
    """A server, its image, and what a test needs to reach it."""

    server: FileServer
    directory: Path
    content: bytes
    image_name: str = IMAGE
    other_name: str = OTHER

    def ticket(self, image_name: str = IMAGE, **more: Any) -> Ticket:
        return self.server.issue_ticket(TicketRequest(image_name=image_name, **more))

    def connect(self, source: str = "127.0.0.1") -> ftplib.FTP:
        client = ftplib.FTP()
        try:
            client.connect("127.0.0.1", self.server.port, timeout=20, source_address=(source, 0))
        except BaseException:
            client.close()
            raise
        return client

    def login(self, ticket: Ticket, source: str = "127.0.0.1") -> ftplib.FTP:
        client = self.connect(source)
        client.login(ticket.username, ticket.password)
        return client

    def until(self, ticket: Ticket, wanted: Callable[[TransferProgress], bool]) -> TransferProgress:
        """Wait until a snapshot is as wanted; fail after twenty seconds with what it was."""
        deadline = time.monotonic() + 20
        progress = self.server.progress(ticket.ticket_id)
        while not wanted(progress):
            assert time.monotonic() < deadline, f"never came about; last seen: {progress}"
            if progress.state.is_final:
                time.sleep(0.01)  # of a ticket that has more tries: nobody waits for news of an ended one
            progress = self.server.wait(ticket.ticket_id, 5)
        return progress

    @staticmethod
    def heard(events: Sequence[ServerEvent], kind: EventKind) -> None:
        """Wait until an event of a kind is among those heard: they come by a thread of their own, maybe later."""
        deadline = time.monotonic() + 20
        while not any(event.kind is kind for event in events):
            assert time.monotonic() < deadline, f"no event {kind}; heard: {events}"
            time.sleep(0.01)

    def descriptors(self) -> int:
        """Count what the server's process has open."""
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))

    def memory_kb(self) -> int:
        """Return the resident memory of the server's process in KiB."""
        status = Path(f"/proc/{self.server.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    @staticmethod
    def settles(condition: Callable[[], bool]) -> bool:
        """Look again and again for up to twenty seconds until a condition holds."""
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        return condition()

    def delivered(self, ticket: Ticket) -> TransferProgress:
        """Wait until a ticket is delivered, whatever became of a try before."""
        return self.until(ticket, lambda seen: seen.state is TransferState.DELIVERED)

    def final(self, ticket: Ticket) -> TransferProgress:
        progress = self.server.wait_final(ticket.ticket_id, 20)
        assert progress.state.is_final, progress
        return progress

    @staticmethod
    def fetch(client: ftplib.FTP, path: str = IMAGE, rest: int | None = None) -> bytes:
        """Fetch a file into memory."""
        pieces: list[bytes] = []
        client.retrbinary(f"RETR {path}", pieces.append, rest=rest)
        return b"".join(pieces)

    @staticmethod
    def slow_data_connection(client: ftplib.FTP, receive_buffer: int = 2304) -> socket.socket:
        """Open a passive data connection whose receiver hardly takes anything before it is read."""
        host, port = client.makepasv()
        data = socket.socket()
        data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        data.settimeout(20)
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


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server with short limits; `@pytest.mark.parametrize("bench", [{...}], indirect=True)` changes settings."""
    options: dict[str, Any] = dict(getattr(request, "param", {}))
    directory = tmp_path / "images"
    directory.mkdir()
    content = os.urandom(options.pop("size", 300_000))
    (directory / IMAGE).write_bytes(content)
    (directory / OTHER).write_bytes(b"not for you")
    limits = {"failed_login_delay_s": 0.05, "failed_logins": 3, "data_connect_s": 0.5, **options.pop("limits", {})}
    profile = {"stall_after_s": 0.2, **options.pop("profile", {})}
    listener = {"listen_address": "127.0.0.1", **options.pop("listener", {})}
    settings = ServerSettings(
        image_paths=(directory,),
        listeners=(ftp_listener(**listener),),
        sample_interval_s=options.pop("sample_interval_s", 0.05),
        limits=Limits(**limits),
        profile=SenderProfile(**profile),
        **options,
    )
    with FileServer(settings) as server:
        yield Bench(server=server, directory=directory, content=content)
        assert not [note for note in server.notices if "internal error" in note], server.notices


@pytest.fixture
def closing() -> Iterator[contextlib.ExitStack]:
    """Closes clients and sockets at the end of a test."""
    with contextlib.ExitStack() as stack:
        yield stack

"""What a session leaves in the process that served it: nothing, without waiting for a collection of garbage."""

import contextlib
import ftplib
import gc
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver import ServerSettings, TicketRequest, process
from flashferry.fileserver.protocol import IOLoop, ServingContext
from flashferry.fileserver.ticket_accounts import issue
from flashferry.fileserver.ticket_service import TicketService
from flashferry.images.catalogue import Catalogue
from ftpserver import ftp_listener, session
from ftpserver.protocol import FtpListener
from tests.patience import PATIENCE_S, until

_KINDS = ("ServerSession", "ImageChannel", "PassiveListener", "Transfer", "Reporter", "Tuning")


class _Here:
    """A server in this process, driven by hand."""

    def __init__(self, directory: Path) -> None:
        (directory / "a.bin").write_bytes(b"x" * 300_000)
        listener = ftp_listener(listen_address="127.0.0.1")
        settings = ServerSettings(image_paths=(directory,), listeners=(listener,), sample_interval_s=0.05)
        self.image = Catalogue((directory,)).image("a.bin")
        self.loop: Any = IOLoop()
        self.tickets = TicketService(settings, lambda _: None)
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        context = ServingContext(tickets=self.tickets, settings=settings, loop=self.loop)
        self.listener = FtpListener(listening, context, listener.options)
        self.listener.open()

    def serve(self, client: Callable[[], None]) -> None:
        """Serve until the client is done and its sessions are gone."""
        thread = threading.Thread(target=client)
        thread.start()

        def is_over() -> bool:
            self.loop.loop(0.01, blocking=False)
            return not thread.is_alive() and not self.tickets.sessions and not self._timers()

        until(is_over, "the end of the client and of its sessions", poll_s=0)
        thread.join()

    def _timers(self) -> int:
        return sum(not task.cancelled for task in self.loop.sched._tasks)

    def login(self) -> ftplib.FTP:
        ticket, grant = issue(TicketRequest(image_name="a.bin"), self.image)
        self.tickets.add(grant)
        client = ftplib.FTP()
        client.connect(*self.address, timeout=PATIENCE_S)
        client.login(ticket.username, ticket.password)
        return client

    def silent(self) -> None:
        with socket.create_connection(self.address, timeout=PATIENCE_S) as connection:
            connection.recv(100)

    def fetch(self) -> None:
        with self.login() as client:
            client.retrbinary("RETR a.bin", lambda _: None)

    def reset(self) -> None:
        client = self.login()
        host, port = client.makepasv()
        with contextlib.closing(client), socket.socket() as data:
            data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
            data.connect((host, port))
            client.sendcmd("RETR a.bin")
            data.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[_Here]:
    made = _Here(tmp_path)
    gc.collect()
    gc.disable()
    try:
        yield made
    finally:
        gc.enable()
        made.listener.close("the test is over")
        made.loop.close()


def test_what_is_looked_for_is_there() -> None:
    """A class of another name would be missed whatever it leaves."""
    rooms = (Path(process.__file__).parent, Path(session.__file__).parent)
    sources = "".join(path.read_text(encoding="utf-8") for room in rooms for path in room.glob("*.py"))
    assert [name for name in _KINDS if f"class {name}" not in sources and f'"{name}",' not in sources] == []


@pytest.mark.parametrize("kind", ["silent", "fetch", "reset"])
def test_a_session_that_ended_is_gone(here: _Here, kind: str) -> None:
    """Neither the session nor its transfer is kept by a circle of references: a thousand of them would be megabytes."""
    here.serve(getattr(here, kind))
    assert [type(thing).__name__ for thing in gc.get_objects() if type(thing).__name__ in _KINDS] == []

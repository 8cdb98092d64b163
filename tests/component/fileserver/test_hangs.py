"""A serving process that hangs is reported, and neither the other processes nor the end wait for it."""

from __future__ import annotations

import contextlib
import ftplib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.core.jobs import ProcessMark
from flashferry.core.values import replace
from flashferry.fileserver import EventKind, FileServer, ServerEvent, ServerGone, ServerSettings, TicketRequest
from flashferry.fileserver.rate_limits import SiteLoad
from flashferry.fileserver.wire import SetLoadElsewhere
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S, until

IMAGE, SIZE = "a.bin", 30_000_000


class Bench:
    """A server of two processes, `main` and `other`, which serve the same tickets."""

    def __init__(self, server: FileServer) -> None:
        self.server = server
        self.events: list[ServerEvent] = []
        self._marks = {name: ProcessMark.of(pid) for name, pid in server.pids.items()}
        server.events(self.events.append)

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        os.kill(self.server.pids[name], number)

    def until_notice(self, text: str) -> str:
        """Wait until the server reports something of itself, and return the sentence."""
        found = until(lambda: next((note for note in self.server.notices if text in note), ""), text)
        return str(found)

    def stop(self, name: str) -> None:
        """Stop a process, and wait until that is noticed."""
        self.send(name, signal.SIGSTOP)
        self.until_notice(f"'{name}' (process {self.server.pids[name]}) has not answered")

    def client(self, number: int, username: str, password: str) -> ftplib.FTP:
        """Return a client that is logged in at a listener."""
        client = ftplib.FTP()
        client.connect("127.0.0.1", self.server.ports[number], timeout=PATIENCE_S)
        client.login(username, password)
        return client

    def is_alive(self, name: str) -> bool:
        """Return whether a process lives that did at the start."""
        mark = self._marks[name]
        return mark is not None and mark.is_alive()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / IMAGE).write_bytes(os.urandom(SIZE))
    main = ftp_listener(listen_address="127.0.0.1")
    listeners = (main, replace(main, transports=("other",), process="other"))
    settings = ServerSettings(image_paths=(tmp_path / IMAGE,), listeners=listeners, sample_interval_s=0.05)
    with FileServer(settings) as server:
        yield Bench(server)


def _fetched(client: ftplib.FTP) -> int:
    sizes: list[int] = []
    with contextlib.closing(client):
        client.retrbinary(f"RETR {IMAGE}", lambda piece: sizes.append(len(piece)))
    return sum(sizes)


def test_a_process_that_hangs_is_reported_and_when_it_answers_again(bench: Bench) -> None:
    """With which one, since when, and what to do; the other one works meanwhile."""
    bench.stop("main")
    note = bench.until_notice("'main'")
    assert "was stopped by a signal; 'kill -CONT" in note
    assert [event.kind for event in bench.events if event.text == note] == [EventKind.NOTICE]
    ticket = bench.server.issue_ticket(TicketRequest(image_name=IMAGE))
    assert _fetched(bench.client(1, ticket.username, ticket.password)) == SIZE
    bench.send("main", signal.SIGCONT)
    bench.until_notice("'main' answers again")
    ticket = bench.server.issue_ticket(TicketRequest(image_name=IMAGE))
    assert _fetched(bench.client(0, ticket.username, ticket.password)) == SIZE


def test_a_try_does_not_wait_for_a_process_that_hangs(bench: Bench) -> None:
    """What the device began there stands still; it fetches by the other, and the first copy gives way to that."""
    ticket = bench.server.issue_ticket(TicketRequest(image_name=IMAGE, tries=3))
    with (
        contextlib.closing(bench.client(0, ticket.username, ticket.password)) as client,
        contextlib.closing(client.transfercmd(f"RETR {IMAGE}")) as data,
    ):
        got = len(data.recv(1))
        bench.stop("main")
        assert _fetched(bench.client(1, ticket.username, ticket.password)) == SIZE
        bench.send("main", signal.SIGCONT)
        with contextlib.suppress(ConnectionResetError):
            while some := data.recv(65_536):
                got += len(some)
        assert got < SIZE


def test_the_end_does_not_wait_for_processes_that_hang(bench: Bench) -> None:
    """All of them are stopped, and none is there any more."""
    for name in bench.server.pids:
        bench.send(name, signal.SIGSTOP)
    bench.server.close()
    assert not bench.is_alive("main")
    assert not bench.is_alive("other")


def test_a_server_that_is_to_finish_does_not_wait_for_a_process_that_hangs(bench: Bench) -> None:
    """It can finish nothing: it is killed, and the server's end says so."""
    bench.send("other", signal.SIGSTOP)
    with contextlib.suppress(ServerGone):
        bench.server.drain()
    until(lambda: bench.server.gone, "the end of the server")
    assert bench.server.gone == "the server's process ended: 'other' did not answer, and was killed"
    assert not bench.server.ended_in_order
    assert bench.events[-1].kind is EventKind.GONE


def test_a_process_that_reads_nothing_is_killed_before_the_others_wait_for_it(bench: Bench) -> None:
    """What the others do is passed on to it until the line is full: from then on their own news would stand still."""
    bench.stop("other")
    workers, load = bench.server._workers, SetLoadElsewhere(load=SiteLoad(site="AMS", transfers=1, moved_bytes=0))

    def tell_on() -> None:
        while workers._send("other", load):
            pass

    telling = threading.Thread(target=tell_on, daemon=True)
    telling.start()
    bench.until_notice("'other' did not answer, and was killed ('other'); the others go on")
    telling.join(PATIENCE_S)
    assert not telling.is_alive()
    ticket = bench.server.issue_ticket(TicketRequest(image_name=IMAGE, transports=("ftp",)))
    assert _fetched(bench.client(0, ticket.username, ticket.password)) == SIZE

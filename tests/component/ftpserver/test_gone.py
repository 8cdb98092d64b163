"""The death of the server's process: everybody who watches or waits is told, clients see a reset, and a run goes on."""

import contextlib
import os
import queue
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import (
    EventKind,
    FileServer,
    FileServerError,
    FixedLogin,
    ServerEvent,
    ServerGone,
    ServerSettings,
    TicketRequest,
    TransferState,
)
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench

_KILLED = "the server's process ended: killed by SIGKILL"


def _until_gone(events: "queue.SimpleQueue[ServerEvent]") -> list[ServerEvent]:
    found = [events.get(timeout=PATIENCE_S)]
    while found[-1].kind is not EventKind.GONE:
        found.append(events.get(timeout=PATIENCE_S))
    return found


def test_everybody_is_told(bench: "Bench") -> None:
    """Who watches gets the failed copy and `gone` last, who waits an error, and who asks finds the copy failed."""
    events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
    ticket, unused = bench.ticket(), bench.ticket()
    with contextlib.closing(bench.login(ticket)) as client, bench.slow_data_connection(client) as data:
        client.sendcmd(f"RETR {bench.image_name}")
        bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
        bench.server.events(events.put)
        os.kill(bench.server.pid, signal.SIGKILL)
        *_, failed, gone = _until_gone(events)
        with pytest.raises(ConnectionResetError):
            bench.read_all(data)
    assert (failed.kind, failed.text, gone.text) == (EventKind.FAILED, _KILLED, _KILLED)
    assert (bench.server.gone, bench.server.ended_in_order) == (_KILLED, False)
    seen = bench.server.progress(ticket.ticket_id)
    assert (seen.state, seen.last_error) == (TransferState.FAILED, _KILLED)
    for one in (ticket, unused):
        with pytest.raises(ServerGone, match="killed by SIGKILL"):
            bench.server.wait(one.ticket_id, PATIENCE_S)
    with pytest.raises(ServerGone, match="killed by SIGKILL"):
        bench.server.drain()
    late: list[ServerEvent] = []
    bench.server.events(late.append)
    assert [event.kind for event in late] == [EventKind.GONE]


@pytest.mark.parametrize("moment", ["idle", "logged in"])
def test_a_death_is_known(bench: "Bench", closing: contextlib.ExitStack, moment: str) -> None:
    """Events end with `gone` and its reason also where nothing was sent when the process was killed."""
    events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
    ticket = bench.ticket()
    if moment != "idle":
        closing.enter_context(contextlib.closing(bench.login(ticket)))
    bench.server.events(events.put)
    os.kill(bench.server.pid, signal.SIGKILL)
    assert _until_gone(events)[-1].text == _KILLED


@pytest.mark.parametrize("how", ["close", "drain", "SIGTERM"])
def test_an_end_in_order_is_told_as_such(bench: "Bench", how: str) -> None:
    """The last event is `gone` then, too, and the facade tells it from a death."""
    events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
    bench.server.events(events.put)
    if how == "SIGTERM":
        os.kill(bench.server.pid, signal.SIGTERM)
    else:
        getattr(bench.server, how)()
    assert _until_gone(events)[-1].text == "the server was stopped"
    assert bench.server.ended_in_order


def test_draining_counts_what_is_under_way(bench: "Bench") -> None:
    """A copy that runs and one whose data connection is still to come; an idle session is none."""
    with contextlib.ExitStack() as stack:
        running, waiting, _ = (stack.enter_context(contextlib.closing(bench.login(bench.ticket()))) for _ in range(3))
        stack.enter_context(bench.slow_data_connection(running))
        running.sendcmd(f"RETR {bench.image_name}")
        waiting.makepasv()
        waiting.sendcmd(f"RETR {bench.image_name}")
        assert bench.server.drain() == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_new_process_takes_its_place(tmp_path: Path, bench: "Bench", number: int) -> None:
    """On the same port, with the caps and logins of the former; the former's tickets are void; so often and no more."""
    (tmp_path / "b.bin").write_bytes(os.urandom(200_000))
    fixed = FixedLogin(username="lab", password="Bench-2026.word")
    with FileServer(
        ServerSettings(image_paths=(tmp_path / "b.bin",), listeners=(ftp_listener(listen_address="127.0.0.1"),)),
        restarts=1,
    ) as server:
        server.admit(fixed)
        server.set_site_cap("lab", 1_000_000, "a test")
        before, pid, port = server.issue_ticket(TicketRequest(image_name="b.bin")), server.pid, server.port
        events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
        server.events(events.put)
        os.kill(pid, number)
        _until_gone(events)
        assert (server.port, server.pid) == (port, pid), "only what needs a process starts one"
        assert server.gone
        after = server.issue_ticket(TicketRequest(image_name="b.bin", site="lab"))
        assert (server.port, server.pid == pid, server.gone) == (port, False, "")
        with pytest.raises(ServerGone):
            server.wait(before.ticket_id, PATIENCE_S)
        server.revoke(before.ticket_id)
        new = type(bench)(server=server, directory=tmp_path, content=(tmp_path / "b.bin").read_bytes())
        with new.login(after) as client:
            assert new.fetch(client, "b.bin") == new.content
        record = new.final(after).record
        assert record is not None
        assert record.sender.cap_bytes_per_s == 1_000_000
        with new.connect() as client:
            client.login("lab", "Bench-2026.word")
            assert new.fetch(client, "b.bin") == new.content
        assert any("a new one has taken its place" in notice for notice in server.notices)
        os.kill(server.pid, number)
        _until_gone(events)
        with pytest.raises(ServerGone):
            server.issue_ticket(TicketRequest(image_name="b.bin"))
        with pytest.raises(ServerGone):
            # By which a run knows that nothing new is to begin.
            _ = server.port


def test_one_that_cannot_be_replaced_is_told(tmp_path: Path) -> None:
    """Its image folder, port or process may be gone: one error with both reasons, not a traceback of another kind."""
    (tmp_path / "b.bin").write_bytes(b"image")
    settings = ServerSettings(image_paths=(tmp_path / "b.bin",), listeners=(ftp_listener(listen_address="127.0.0.1"),))
    with FileServer(settings, restarts=1) as server, contextlib.ExitStack() as stack:
        events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
        server.events(events.put)
        port = server.port
        os.kill(server.pid, signal.SIGKILL)
        _until_gone(events)

        stack.enter_context(socket.create_server(("127.0.0.1", port)))
        with pytest.raises(FileServerError, match=r"killed by SIGKILL; a new one did not start: .*in use"):
            server.issue_ticket(TicketRequest(image_name="b.bin"))
        assert server.gone

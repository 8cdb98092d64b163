"""One server of several processes: each serves its own listeners, and tickets and caps hold over all of them."""

import contextlib
import ftplib
import os
import queue
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import (
    EventKind,
    FileServer,
    ListenerSettings,
    SenderProfile,
    ServerEvent,
    ServerGone,
    ServerSettings,
    SettingsInvalid,
    Ticket,
    TicketRequest,
    TransferState,
)
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S, until

_SIZE = 300_000
_HERE = Path(__file__).parent
_KILLED = "the server's process ended: killed by SIGKILL"


def _settings(folder: Path, *listeners: ListenerSettings) -> ServerSettings:
    (folder / "a.bin").write_bytes(os.urandom(_SIZE))
    return ServerSettings(
        image_paths=(folder / "a.bin",),
        listeners=listeners,
        sample_interval_s=0.05,
        profile=SenderProfile(mss_bytes=1400, stall_after_s=PATIENCE_S),
    )


def _two() -> tuple[ListenerSettings, ListenerSettings]:
    """FTP twice, by a process each; the second passes for another transport."""
    main = ftp_listener(listen_address="127.0.0.1")
    return main, replace(main, transports=("other",), process="other")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    with FileServer(_settings(tmp_path, *_two())) as running:
        yield running
        assert not [note for note in running.notices if "internal error" in note], running.notices


def _ticket(server: FileServer, **more: object) -> Ticket:
    return server.issue_ticket(TicketRequest(image_name="a.bin", **more))  # type: ignore[arg-type]


@contextlib.contextmanager
def _client(server: FileServer, number: int, ticket: Ticket) -> Iterator[ftplib.FTP]:
    with contextlib.closing(ftplib.FTP()) as client:
        client.connect("127.0.0.1", server.ports[number], timeout=PATIENCE_S)
        client.login(ticket.username, ticket.password)
        yield client


def _fetched(client: ftplib.FTP) -> int:
    sizes: list[int] = []
    client.retrbinary("RETR a.bin", lambda piece: sizes.append(len(piece)))
    return sum(sizes)


@contextlib.contextmanager
def _slow_copy(server: FileServer, number: int, ticket: Ticket) -> Iterator[socket.socket]:
    with _client(server, number, ticket) as client:
        host, port = client.makepasv()
        with socket.socket() as data:
            data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
            data.connect((host, port))
            client.sendcmd("RETR a.bin")
            _until(server, ticket, TransferState.TRANSFERRING)
            yield data


def _drained(data: socket.socket) -> None:
    while data.recv(65536):
        pass


def _until(server: FileServer, ticket: Ticket, state: TransferState) -> None:
    until(
        lambda: server.progress(ticket.ticket_id).state is state,
        lambda: f"{state} instead of {server.progress(ticket.ticket_id)}",
    )


def test_each_process_has_its_listeners_and_its_tickets(server: FileServer) -> None:
    """Ports are in the order of the listeners; a ticket for one transport is unknown to the other process."""
    assert set(server.pids) == {"main", "other"}
    assert len(set(server.pids.values())) == len(set(server.ports)) == 2
    assert (server.pid, server.port) == (server.pids["main"], server.ports[0])
    ticket = _ticket(server, transports=("ftp",))
    with pytest.raises(ftplib.error_perm, match="530"), _client(server, 1, ticket):
        pass
    with _client(server, 0, ticket) as client:
        assert _fetched(client) == _SIZE
    with pytest.raises(SettingsInvalid, match=r"expected a transport that this server serves \(ftp, other\), found x"):
        _ticket(server, transports=("x",))


@pytest.mark.parametrize("first", [0, 1])
def test_a_ticket_used_up_in_one_process_is_worthless_in_the_other(server: FileServer, first: int) -> None:
    """It is one ticket: delivered by one of them, and the other lets nobody in with it."""
    ticket = _ticket(server)
    with _client(server, first, ticket) as client:
        assert _fetched(client) == _SIZE
    _until(server, ticket, TransferState.DELIVERED)
    with pytest.raises(ftplib.error_perm, match="530"), _client(server, 1 - first, ticket):
        pass
    seen = server.progress(ticket.ticket_id)
    assert (seen.state, seen.record is not None) == (TransferState.DELIVERED, True)


def test_the_newest_transfer_of_a_ticket_takes_over_from_another_process(server: FileServer) -> None:
    """As within one process: what the client left hanging there is cut, and its tries are counted together."""
    ticket = _ticket(server, tries=2, cap_bytes_per_s=20_000)
    with _slow_copy(server, 0, ticket) as left, _slow_copy(server, 1, ticket):
        with pytest.raises(ConnectionResetError):
            _drained(left)
        # At once; that the newest has begun may be told behind the end of the other.
        assert server.progress(ticket.ticket_id).tries_left == 0
        _until(server, ticket, TransferState.TRANSFERRING)
        with pytest.raises(ftplib.error_perm, match="530"), _client(server, 0, ticket):
            pass
        server.revoke(ticket.ticket_id)
        _until(server, ticket, TransferState.FAILED)
    assert server.progress(ticket.ticket_id).last_error == "ticket revoked"


def test_tries_begun_at_the_same_moment_count_each(server: FileServer) -> None:
    """However the two processes hear of each other: two tries are used, and one of the two copies goes on, alone."""
    ticket = _ticket(server, tries=4, cap_bytes_per_s=20_000)
    for left in (2, 0):
        with contextlib.ExitStack() as stack:
            data = []
            for number in (0, 1):
                client = stack.enter_context(_client(server, number, ticket))
                data.append(stack.enter_context(socket.create_connection(client.makepasv(), timeout=PATIENCE_S)))
                os.kill(server.pids[("main", "other")[number]], signal.SIGSTOP)
                client.putcmd("RETR a.bin")
            for pid in server.pids.values():
                os.kill(pid, signal.SIGCONT)

            def is_one_ended(data: list[socket.socket] = data) -> bool:
                for one in select.select(data, [], [], 0)[0]:
                    with contextlib.suppress(ConnectionResetError):
                        if one.recv(65536):
                            continue
                    data.remove(one)
                return len(data) < 2

            until(is_one_ended, "the end of one of two copies")
            until(lambda left=left: server.progress(ticket.ticket_id).tries_left <= left, "two tries less")  # type: ignore[misc]
            is_one_ended()
            assert (server.progress(ticket.ticket_id).tries_left, len(data)) == (left, 1)
            assert data[0].recv(1)
    with pytest.raises(ftplib.error_perm, match="530"), _client(server, 0, ticket):
        pass


def test_transfers_of_a_site_share_its_cap_over_processes(server: FileServer) -> None:
    """One in each gets half of it; when one ends the other gets all of it."""
    server.set_site_cap("branch", 40_000)
    tickets = [_ticket(server, site="branch") for _ in range(2)]
    with contextlib.ExitStack() as stack:
        for number, ticket in enumerate(tickets):
            stack.enter_context(_slow_copy(server, number, ticket))
        caps = []
        # Who asks hears of a copy's begin and end behind the other process: no time has to pass.
        for ticket in tickets:
            server.revoke(ticket.ticket_id)
            record = server.wait_final(ticket.ticket_id, PATIENCE_S).record
            assert record is not None
            caps.append((record.sender.cap_bytes_per_s, record.sender.shared_cap_bytes_per_s))
    assert caps == [(20_000, 40_000), (40_000, 40_000)]


def test_the_end_of_one_leaves_the_other(server: FileServer) -> None:
    """Its tickets are void and its copies failed, told by a notice; the other sends on; the server is not gone."""
    events: queue.SimpleQueue[ServerEvent] = queue.SimpleQueue()
    server.events(events.put)
    here, there = _ticket(server, transports=("ftp",), cap_bytes_per_s=20_000), _ticket(server, transports=("other",))
    both = _ticket(server)
    with _slow_copy(server, 0, here):
        os.kill(server.pids["other"], signal.SIGKILL)
        with pytest.raises(ServerGone, match="killed by SIGKILL"):
            server.wait(there.ticket_id, PATIENCE_S)
        assert f"{_KILLED} ('other'); the others go on" in server.notices
        assert (server.gone, server.ended_in_order) == ("", True)
        assert server.progress(here.ticket_id).state is TransferState.TRANSFERRING
        server.set_site_cap("branch", 50_000)
        with pytest.raises(ServerGone, match="killed by SIGKILL"):
            _ticket(server, transports=("other",))
        with _client(server, 0, both) as client:
            assert _fetched(client) == _SIZE
        os.kill(server.pids["main"], signal.SIGKILL)
        while (event := events.get(timeout=PATIENCE_S)).kind is not EventKind.GONE:
            pass
    assert (event.text, server.gone, server.ended_in_order) == (_KILLED, _KILLED, False)


def test_a_copy_that_both_might_serve_fails_with_its_process_and_may_begin_anew(server: FileServer) -> None:
    """The ticket is as good as its tries in the process that is left."""
    ticket = _ticket(server, cap_bytes_per_s=20_000)
    with _slow_copy(server, 1, ticket):
        os.kill(server.pids["other"], signal.SIGKILL)
        _until(server, ticket, TransferState.FAILED)
    server.set_cap(ticket.ticket_id, None)
    with _client(server, 0, ticket) as client:
        assert _fetched(client) == _SIZE
    _until(server, ticket, TransferState.DELIVERED)


def test_one_that_died_is_replaced_by_itself(tmp_path: Path) -> None:
    """On its port, with the caps of the former and with what the other has under way; the other goes on as it is."""
    with FileServer(_settings(tmp_path, *_two()), restarts=1) as server:
        server.set_site_cap("branch", 40_000)
        before, ports = server.pids, server.ports
        here = _ticket(server, transports=("ftp",), site="branch")
        with _slow_copy(server, 0, here):
            os.kill(before["other"], signal.SIGKILL)
            until(lambda: server.notices, "the notice of its end")
            there = _ticket(server, site="branch")
            assert server.ports == ports
            assert server.pids["main"] == before["main"]
            assert server.pids["other"] != before["other"]
            with _slow_copy(server, 1, there):
                server.revoke(here.ticket_id)
                record = server.wait_final(here.ticket_id, PATIENCE_S).record
        assert record is not None
        assert (record.sender.cap_bytes_per_s, record.outcome) == (20_000, "ticket revoked")


@pytest.mark.parametrize("how", ["close", "drain"])
def test_all_of_them_end_in_order(server: FileServer, how: str) -> None:
    """One word ends them all, and `gone` is told once, behind the last of them."""
    events: list[EventKind] = []
    server.events(lambda event: events.append(event.kind))
    tickets = [_ticket(server, cap_bytes_per_s=1_000_000), _ticket(server, cap_bytes_per_s=1_000_000)]
    with _slow_copy(server, 0, tickets[0]) as left, _slow_copy(server, 1, tickets[1]) as right:
        assert getattr(server, how)() == (2 if how == "drain" else None)
        for data in (left, right):
            with contextlib.suppress(ConnectionResetError):
                _drained(data)
    until(lambda: EventKind.GONE in events, "the last event")
    assert events.count(EventKind.GONE) == 1
    assert (server.gone, server.ended_in_order) == ("the server was stopped", True)


def test_one_that_does_not_come_up_takes_the_others_with_it(tmp_path: Path) -> None:
    """No process is left behind."""
    main, other = _two()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = _settings(tmp_path, main, replace(other, port=taken.getsockname()[1]))
        server = FileServer(settings)
        with pytest.raises(Exception, match="cannot listen"):
            server.__enter__()
    assert all(not Path(f"/proc/{pid}").exists() for pid in server.pids.values())


@pytest.fixture
def echoing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server whose second process has asyncio's loop."""
    monkeypatch.setenv("PYTHONPATH", str(_HERE))
    echo = ListenerSettings(
        protocol="asyncio_protocol:Echo", listen_address="127.0.0.1", transports=("echo",), process="echo"
    )
    with FileServer(_settings(tmp_path, _two()[0], echo)) as running:
        yield running


def test_a_protocol_of_asyncio_has_a_process_with_its_loop(echoing: FileServer) -> None:
    """It serves, its process answers the parent, timers of both loops run, and a stop is told to its clients."""
    with (
        socket.create_connection(("127.0.0.1", echoing.ports[1]), timeout=PATIENCE_S) as client,
        client.makefile("rb") as lines,
    ):
        for line in (b"one\n", b"two\n"):
            client.sendall(line)
            assert lines.readline() == line
        # A process whose loop does not turn answers nobody: that is an error after twenty seconds.
        _ticket(echoing, transports=("echo",))
        client.sendall(b"break\n")
        assert lines.readline() == b"break\n"
        until(lambda: "internal error: ZeroDivisionError" in echoing.notices, "the notice of the error")
        echoing.close()
        assert lines.readline() == b"the server was stopped\n"
    assert echoing.ended_in_order


@pytest.mark.parametrize("how", ["SIGTERM", "parent"])
def test_a_process_of_asyncio_ends_as_the_others_do(echoing: FileServer, how: str) -> None:
    """By a signal once its last transfer has ended."""
    pid = echoing.pids["echo"]
    with (
        socket.create_connection(("127.0.0.1", echoing.ports[1]), timeout=PATIENCE_S) as client,
        client.makefile("rb") as lines,
    ):
        client.sendall(b"x\n")
        assert lines.readline() == b"x\n"
        if how == "SIGTERM":
            os.kill(pid, signal.SIGTERM)
        else:
            assert echoing.drain() == 1
        until(lambda: _refuses(echoing.ports[1]), "the end of its listener")
        client.sendall(b"y\n")
        assert lines.readline() == b"y\n"
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the process")


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False

"""The server's process: it starts or says why not, keeps no secret in sight, and ends with its parent."""

import contextlib
import ftplib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import (
    EventKind,
    FileServer,
    ServerEvent,
    ServerGone,
    ServerSettings,
    ServerStartFailed,
    TicketUnknown,
    TransferState,
)
from flashferry.images.errors import ImageUnknown
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S, killed_at_end

if TYPE_CHECKING:
    from conftest import Bench

_PARENT = """
    import sys
    from pathlib import Path
    from flashferry.fileserver import FileServer, ServerSettings
    from ftpserver import ftp_listener
    listeners = (ftp_listener(listen_address="127.0.0.1"),)
    server = FileServer(ServerSettings(image_paths=(Path(sys.argv[1]),), listeners=listeners))
    server.__enter__()
    print(server.port, server.pid, flush=True)
    sys.stdin.read()
"""


_ENVIRONED = """
    import sys
    from pathlib import Path
    from flashferry.fileserver import FileServer, ServerSettings
    from ftpserver import ftp_listener
    listeners = (ftp_listener(listen_address="127.0.0.1"),)
    with FileServer(ServerSettings(image_paths=(Path(sys.argv[1]),), listeners=listeners)) as server:
        print(Path(f"/proc/{server.pid}/environ").read_text(), flush=True)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_killing_the_parent_ends_the_server(tmp_path: Path, bench: "Bench") -> None:
    """After kill -9 of the parent neither process nor port is left."""
    (tmp_path / "a.bin").write_bytes(b"image")
    command = [sys.executable, "-c", textwrap.dedent(_PARENT), str(tmp_path / "a.bin")]
    with killed_at_end(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as parent:
        assert parent.stdout is not None
        port, pid = map(int, parent.stdout.readline().split())
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        parent.kill()
        parent.wait()
    assert bench.settles(lambda: not _alive(pid))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def test_leaving_the_context_ends_the_server(bench: "Bench") -> None:
    """Close stops the process at once; closing twice is harmless; afterwards requests say the server is gone."""
    ticket, pid = bench.ticket(), bench.server.pid
    bench.server.close()
    bench.server.close()
    assert not _alive(pid)
    with pytest.raises(ServerGone, match="the server was stopped"):
        bench.ticket()
    with pytest.raises(ServerGone):
        bench.server.wait(ticket.ticket_id, PATIENCE_S)
    assert bench.server.progress(ticket.ticket_id).state is TransferState.WAITING


def test_a_server_that_dies_is_noticed(bench: "Bench") -> None:
    """Kill -9 of the server's process wakes whoever waits, with the reason."""
    ticket = bench.ticket()
    os.kill(bench.server.pid, signal.SIGKILL)
    with pytest.raises(ServerGone, match="killed by SIGKILL"):
        bench.server.wait(ticket.ticket_id, PATIENCE_S)


def test_stopping_fails_running_transfers_with_a_reason(bench: "Bench") -> None:
    """A transfer cut by the stop of the server still gets its record."""
    ticket = bench.ticket()
    with contextlib.closing(bench.login(ticket)) as client, bench.slow_data_connection(client):
        client.sendcmd(f"RETR {bench.image_name}")
        bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
        bench.server.close()
    failed = bench.server.progress(ticket.ticket_id)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "the server was stopped")
    assert failed.record is not None


@pytest.mark.parametrize("how", ["SIGTERM", "drain"])
def test_draining_lets_transfers_finish(bench: "Bench", how: str) -> None:
    """No new session gets in, an idle one is sent away, the running transfer is delivered, then the process ends."""
    ticket = bench.ticket()
    with contextlib.closing(bench.login(ticket)) as client, bench.slow_data_connection(client) as data:
        idle = bench.connect()
        client.sendcmd(f"RETR {bench.image_name}")
        bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
        if how == "SIGTERM":
            os.kill(bench.server.pid, signal.SIGTERM)
        else:
            bench.server.drain()
        assert idle.getline().startswith("421")
        idle.close()
        with pytest.raises(OSError, match="refused"):
            bench.connect()
        assert bench.read_all(data) == bench.content
        assert client.voidresp().startswith("226")
        assert bench.final(ticket).state is TransferState.DELIVERED
        pid = bench.server.pid
        assert bench.settles(lambda: not _alive(pid))


def test_no_secret_is_in_sight(bench: "Bench") -> None:
    """Neither arguments nor environment of the server's process, nor events, hold user or password."""
    events: list[ServerEvent] = []
    bench.server.events(events.append)
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        bench.fetch(client)
    bench.final(ticket)
    process = Path(f"/proc/{bench.server.pid}")
    seen = (process / "cmdline").read_bytes() + (process / "environ").read_bytes() + repr(events).encode()
    assert ticket.password.encode() not in seen
    assert ticket.username.encode() not in seen
    assert bench.image_name.encode() in seen


def test_events_tell_the_story_in_order(bench: "Bench") -> None:
    """Connected, logged in with the SYN audit, started, done; an ended subscription hears no more."""
    events: list[ServerEvent] = []
    unsubscribe = bench.server.events(events.append)
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    with bench.login(ticket) as client:
        bench.fetch(client)
    bench.final(ticket)
    bench.heard(events, EventKind.DONE)
    kinds = [event.kind for event in events if event.kind in set(EventKind) - {EventKind.PROGRESS, EventKind.NOTICE}]
    assert kinds == [EventKind.CONNECTED, EventKind.LOGIN, EventKind.START, EventKind.DONE]
    assert "MSS" in events[1].text
    sequences = [event.progress.sequence for event in events if event.progress]
    assert sequences == sorted(set(sequences))
    unsubscribe()
    heard = len(events)
    bench.server.revoke(bench.ticket().ticket_id)
    assert len(events) == heard


@pytest.mark.parametrize(
    "bench", [{"stream_samples": True, "profile": {"cap_bytes_per_s": 400_000, "mss_bytes": 1400}}], indirect=True
)
def test_readings_are_streamed_as_json_lines(bench: "Bench") -> None:
    """Where asked for, each progress event carries the reading behind it, and becomes a line of JSON."""
    events: list[ServerEvent] = []
    bench.server.events(events.append)
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        bench.fetch(client)
    bench.final(ticket)
    bench.heard(events, EventKind.DONE)
    samples = [event.sample for event in events if event.sample is not None]
    assert samples
    assert [sample.at_s for sample in samples] == sorted(sample.at_s for sample in samples)
    lines = [json.loads(json.dumps(event.to_json())) for event in events]
    assert {line["kind"] for line in lines} >= {"login", "start", "progress", "done"}
    assert any(line["sample"] and line["sample"]["snd_mss_bytes"] <= 1400 for line in lines)


def test_a_record_stays_until_the_next_transfer(bench: "Bench") -> None:
    """What happens to a ticket after its transfer does not take the record away; a new transfer does."""
    ticket = bench.ticket(tries=2)
    with contextlib.closing(bench.login(ticket)) as client:
        with bench.slow_data_connection(client) as data:
            client.sendcmd(f"RETR {bench.image_name}")
            data.recv(100)
            client.putcmd("ABOR")
            assert [client.getmultiline()[:3] for _ in range(2)] == ["426", "226"]
        first = bench.final(ticket).record
        assert first is not None
        with contextlib.closing(bench.connect()) as other, pytest.raises(ftplib.error_perm):
            other.login(ticket.username, "wrong")
        assert bench.until(ticket, lambda progress: "refused" in progress.last_error).record == first
        assert bench.fetch(client) == bench.content
    second = bench.delivered(ticket).record
    assert second is not None
    assert (first.outcome, second.outcome) == ("aborted by the client (ABOR)", "delivered")


def test_a_failing_watcher_harms_nobody(bench: "Bench", caplog: pytest.LogCaptureFixture) -> None:
    """A callback that raises is logged; telemetry goes on."""

    def fail(event: ServerEvent) -> None:
        raise RuntimeError("watcher broke")

    bench.server.events(fail)
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        bench.fetch(client)
    assert bench.final(ticket).state is TransferState.DELIVERED
    assert "a callback for server events failed" in caplog.text


def test_a_port_in_use_is_one_clear_sentence(bench: "Bench") -> None:
    """Starting on a taken port fails before anything runs, naming port and way out."""
    taken = ftp_listener(listen_address="127.0.0.1", port=bench.server.port)
    settings = ServerSettings(image_paths=(bench.directory,), listeners=(taken,))
    with pytest.raises(ServerStartFailed, match=f"port {bench.server.port}: Address already in use. Stop its owner"):
        FileServer(settings).__enter__()


def test_an_address_of_another_host_is_refused(bench: "Bench") -> None:
    """Listening on an address that is not ours fails with what to give instead."""
    settings = ServerSettings(image_paths=(bench.directory,), listeners=(ftp_listener(listen_address="192.0.2.1"),))
    with pytest.raises(ServerStartFailed, match="Give an address of this host"):
        FileServer(settings).__enter__()


def test_what_was_never_issued_is_unknown(bench: "Bench") -> None:
    """Unknown tickets and images are named in the error."""
    with pytest.raises(TicketUnknown, match="'nope': not issued"):
        bench.server.progress("nope")
    with pytest.raises(ImageUnknown, match=r"'nope.bin': not in the catalogue, which has csr1000v"):
        bench.ticket("nope.bin")


def test_a_server_that_was_not_started_says_so(bench: "Bench") -> None:
    """Using it outside its context is an error with the way out."""
    with pytest.raises(ServerGone, match="use it as a context manager"):
        _ = FileServer(ServerSettings(image_paths=(bench.directory,), listeners=(ftp_listener(),))).port


def test_many_threads_may_ask_at_once(bench: "Bench") -> None:
    """Tickets issued and fetched from ten threads at a time all come out whole."""
    outcomes: list[bool] = []

    def fetch() -> None:
        ticket = bench.ticket()
        with bench.login(ticket) as client:
            whole = bench.fetch(client) == bench.content
        outcomes.append(whole and bench.final(ticket).state is TransferState.DELIVERED)

    threads = [threading.Thread(target=fetch) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert outcomes == [True] * 10


def test_the_kernel_s_grants_are_reported(bench: "Bench") -> None:
    """The default congestion control and each wanted one, granted or with the reason why not."""
    capabilities = bench.server.capabilities
    assert capabilities.default_congestion_control
    assert {grant.name for grant in capabilities.congestion_controls} == {"bbr", "cubic", "reno"}
    assert all(grant.granted or grant.reason for grant in capabilities.congestion_controls)
    assert capabilities.allows("reno")
    assert capabilities.open_files > 0


def test_a_stopped_reader_costs_the_server_no_transfer(bench: "Bench") -> None:
    """While the parent is busy in a callback, clients are served all the same."""
    hold, release = threading.Event(), threading.Event()

    def block(event: ServerEvent) -> None:
        hold.set()
        release.wait(PATIENCE_S)

    first, second = bench.ticket(), bench.ticket()
    bench.server.events(block)
    with bench.login(first) as client:
        assert hold.wait(PATIENCE_S)
        assert bench.fetch(client) == bench.content
    with contextlib.closing(bench.login(second)) as client, pytest.raises(ftplib.error_perm, match="550"):
        bench.fetch(client, bench.other_name)
    release.set()
    assert bench.final(first).state is TransferState.DELIVERED


def test_too_few_open_files_are_one_clear_sentence(bench: "Bench") -> None:
    """Under a hard limit that does not carry the sessions asked for nothing starts, and the sentence says so."""
    script = (
        "import resource, sys; from pathlib import Path; from flashferry.fileserver import *\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))\n"
        "from ftpserver import ftp_listener\n"
        "limits = Limits(sessions=int(sys.argv[2]))\n"
        "settings = ServerSettings(image_paths=(Path(sys.argv[1]),), listeners=(ftp_listener(),), limits=limits)\n"
        "try:\n    with FileServer(settings) as server: print(server.capabilities.open_files)\n"
        "except FileServerError as error: print(type(error).__name__, error)\n"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", script, str(bench.directory), sessions], capture_output=True, text=True, check=True
        ).stdout
        for sessions in ("500", "40")
    ]
    assert done[0].startswith("ServerStartFailed open files: 500 sessions take 2032 descriptors, the hard limit is 200")
    assert done[1] == "200\n"


def test_no_secret_is_in_the_servers_environment(tmp_path: Path) -> None:
    """Passwords of devices, tokens and whatever else the operator has set stay with the parent; locale and path go."""
    (tmp_path / "a.bin").write_bytes(b"image")
    given = {
        "FLASHFERRY_PASSWORD": "device-word",
        "FLASHFERRY_ENABLE_SECRET": "enable-word",
        "FLASHFERRY_SERVE_PASSWORD": "serve-word",
        "NB_TOKEN": "token-word",
        "SOME_OTHER_THING": "any-word",
        "LC_TIME": "C.UTF-8",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(_ENVIRONED), str(tmp_path / "a.bin")],
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(one.partition("=")[::2] for one in done.stdout.strip().split("\0") if one)
    assert "word" not in done.stdout
    assert found["LC_TIME"] == "C.UTF-8"
    assert found["PATH"] == os.environ["PATH"]
    assert not [name for name in found if name.startswith("FLASHFERRY_")]

"""`flashferry status`: what the journal knows, read without changing it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, Restored, RunState, State
from flashferry.store.database import make_private
from flashferry.store.journal import Journal
from flashferry.store.status import last_as_is, last_hash_speeds, read_status
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TcpLines

SNAPSHOT = Snapshot(
    running=TcpLines(lines=()),
    startup=TcpLines(lines=()),
    running_fingerprint=Fingerprint(whole="w", lines=()),
    salt="s",
)
CHANGE = Change(keyword="window-size", before=None, ours="ip tcp window-size 1250000")


def begin(journal: Journal, *hosts: str) -> str:
    run_id = journal.begin_run("stage")
    for number, host in enumerate(hosts):
        journal.add_device(run_id, host=host, address=f"192.0.2.{number}", port=22, platform="ios")
    return run_id


def touch(journal: Journal, run_id: str, host: str) -> None:
    journal.acquire_lease(run_id, host, identity=host, snapshot=SNAPSHOT, changes=(CHANGE,), target="flash:x")


def test_asking_makes_no_journal(tmp_path):
    """Where nothing was ever staged there is nothing to tell, and afterwards there still is no file."""
    folder = tmp_path / "state"
    assert not read_status(folder).has_journal
    assert not folder.exists()


def test_a_run_alive_holds_its_devices(tmp_path):
    """While the process lives its devices are in hand and need no recovery."""
    with Journal(tmp_path) as journal:
        touch(journal, begin(journal, "r1", "r2"), "r1")
        found = read_status(tmp_path)
    (run,) = found.runs
    assert run.state is RunState.ALIVE
    assert [(one.host, one.state, one.is_held) for one in run.devices] == [
        ("r1", "journaled", True),
        ("r2", "planned", False),
    ]
    assert found.to_recover == ()


def test_what_a_dead_run_left_is_to_be_recovered(tmp_path):
    """A run whose lock is free and whose lease is not has left a device tuned."""
    with Journal(tmp_path) as journal:
        run_id = begin(journal, "r1", "r2")
        touch(journal, run_id, "r1")
    found = read_status(tmp_path)
    assert found.runs[0].state is RunState.DIED
    assert [(run.run_id, device.host, device.address) for run, device in found.to_recover] == [
        (run_id, "r1", "192.0.2.0")
    ]


def test_the_applet_of_a_device_in_hand_is_named(tmp_path):
    """A killed run may have left it there; once the lease has ended it is gone, and so is its name."""
    applet = Change(keyword="FLASHFERRY-3F2A", before=None, ours="event manager applet FLASHFERRY-3F2A")
    with Journal(tmp_path) as journal:
        run_id = begin(journal, "r1", "r2")
        given = {"snapshot": SNAPSHOT, "target": "flash:x"}
        journal.acquire_lease(run_id, "r1", identity="r1", changes=(applet, CHANGE), **given)
        journal.acquire_lease(run_id, "r2", identity="r2", changes=(CHANGE,), **given)
        assert [one.applet for one in read_status(tmp_path).runs[0].devices] == ["FLASHFERRY-3F2A", None]
        journal.release(run_id, "r1", DeviceRecord(host="r1", seconds_by_step={}))
        assert [one.applet for one in read_status(tmp_path).runs[0].devices] == [None, None]


def test_the_last_results_are_told(tmp_path):
    """Outcome, restoration and reason come from the record; a damaged record tells nothing and hides nothing."""
    failure = Failure(step="check", reason="no room", hint=None, kind="PolicyViolation")
    record = DeviceRecord(
        host="r1",
        state=State.DONE,
        outcome=Outcome.REFUSED,
        restored=Restored.UNTOUCHED,
        failure=failure,
        seconds_by_step={},
    )
    with Journal(tmp_path) as journal:
        run_id = begin(journal, "r1", "r2")
        journal.record(run_id, "r1", record)
        journal.finish_run(run_id)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        database.execute("UPDATE devices SET record = '[1' WHERE host = 'r2'")
    database.close()
    (run,) = read_status(tmp_path).runs
    assert run.state is RunState.FINISHED
    told, damaged = run.devices
    assert (told.outcome, told.restored, told.reason) == ("refused", "untouched", "no room")
    assert (damaged.outcome, damaged.reason) == (None, None)


def test_an_old_run_that_left_something_is_never_out_of_sight(tmp_path):
    """However many runs came since, what is to be recovered is told."""
    with Journal(tmp_path) as journal:
        touch(journal, begin(journal, "r1"), "r1")
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        database.execute("UPDATE runs SET started_at = '2001-01-01T00:00:00.000+00:00'")
    database.close()
    with Journal(tmp_path) as journal:
        for _ in range(3):
            journal.finish_run(begin(journal, "r9"))
    found = read_status(tmp_path, latest=2)
    assert len(found.runs) == 3
    assert [device.host for _, device in found.to_recover] == ["r1"]


def test_asking_changes_nothing(tmp_path):
    """The database's bytes are the same after."""
    with Journal(tmp_path) as journal:
        begin(journal, "r1")
    path = tmp_path / "journal.sqlite3"
    before = path.read_bytes()
    read_status(tmp_path)
    assert path.read_bytes() == before


def test_a_journal_that_is_just_being_made_is_none(tmp_path):
    """Two runs begin at once: one has made the file, not its tables yet, and the other looks for what is in hand."""
    make_private(tmp_path / "journal.sqlite3")
    assert not read_status(tmp_path).runs
    assert read_status(tmp_path).to_recover == ()
    with Journal(tmp_path) as journal:
        begin(journal, "r1")
    assert len(read_status(tmp_path).runs) == 1


def test_a_journal_that_cannot_be_read_is_told(tmp_path):
    """Which folder, and what to check; no traceback."""
    (tmp_path / "journal.sqlite3").write_bytes(b"no database, certainly not one of SQLite's" * 100)
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        read_status(tmp_path)


def test_the_speed_before_tuning_is_that_of_the_last_probe(tmp_path):
    """The newest measurement wins; a record without one is passed over, and so is a copy that was too short."""
    with Journal(tmp_path) as journal:
        for host, speed in (("r1", 100_000.0), ("r1", 157_000.0), ("r2", None), ("r1", 13_000.0)):
            run_id = journal.begin_run("probe")
            journal.add_device(run_id, host=host, address="192.0.2.1", port=22, platform="ios")
            arm = {"steady_bytes_per_s": speed, "too_short": "only 66 kB went over" if speed == 13_000.0 else ""}
            journal.record(run_id, host, {"transport": "ftp", "probe": {"as_is": arm} if speed else None})
            journal.finish_run(run_id)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        # They may have begun within the same millisecond.
        database.execute("UPDATE runs SET started_at = '2026-01-0' || rowid")
    database.close()
    assert last_as_is(tmp_path) == {"r1": 157_000.0}
    assert last_as_is(tmp_path / "nowhere") == {}


def test_the_speed_of_a_hash_is_learned_from_any_run(tmp_path):
    """A record that is damaged, or too short to tell, says nothing."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for host, speed in (("r1", 11e6), ("r2", None), ("r3", 5e6)):
            journal.add_device(run_id, host=host, address="192.0.2.1", port=22, platform="ios")
            journal.record(run_id, host, {"verify": {"hash_bytes_per_s": speed}})
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        database.execute("UPDATE devices SET record = '{damaged' WHERE host = 'r3'")
    assert last_hash_speeds(tmp_path) == {"r1": 11e6}
    assert last_hash_speeds(tmp_path / "nowhere") == {}


def test_a_speed_before_tuning_is_told_of_one_transport(tmp_path):
    """A speed test by another one is newer, and says nothing of this."""
    with Journal(tmp_path) as journal:
        for record in ({"transport": "ftp"}, {"transport": "http"}):
            run_id = journal.begin_run("probe")
            journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios")
            speed = 3e6 if record["transport"] == "http" else 1e6
            journal.record(run_id, "r1", {"probe": {"as_is": {"steady_bytes_per_s": speed, "too_short": ""}}} | record)
            journal.finish_run(run_id)
    found = {name: last_as_is(tmp_path, name) for name in ("ftp", "http", "scp")}
    assert found == {"ftp": {"r1": 1e6}, "http": {"r1": 3e6}, "scp": {}}


def test_a_device_says_by_which_transport(tmp_path):
    """Of a record that names none the oldest; of a run that has not told, none."""
    with Journal(tmp_path) as journal:
        run_id = begin(journal, "r1", "r2", "r3")
        journal.record(run_id, "r1", {"transport": "scp"})
        journal.record(run_id, "r2", {"outcome": "done"})
        (run,) = read_status(tmp_path).runs
    assert [one.transport for one in run.devices] == ["scp", "ftp", None]


def test_where_transports_were_compared_the_figures_are_those_of_the_one_named(tmp_path):
    """They were those of the last copy, beside the name of the fastest."""
    rows = [
        {"transport": "ftp", "is_best": True, "arm": {"server_bytes_per_s": 5e6, "verdict": {"kind": "cap"}}},
        {"transport": "sftp", "arm": {"server_bytes_per_s": 3e5, "verdict": {"kind": "slow receiver"}}},
    ]
    last = {"rate_bytes_per_s": 3e5, "verdict": {"kind": "slow receiver"}}
    with Journal(tmp_path) as journal:
        run_id = begin(journal, "r1")
        journal.record(run_id, "r1", {"transport": "ftp", "probe": {"by_transport": rows}, "transfer": last})
        (run,) = read_status(tmp_path).runs
    (told,) = run.devices
    assert (told.transport, told.rate_bytes_per_s, told.verdict) == ("ftp", 5e6, "cap")

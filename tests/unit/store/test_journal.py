"""The journal: on disk before anything changes, readable after any death, one run per device."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from pathlib import Path
from threading import Barrier

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused
from flashferry.model.states import NEXT, State, is_allowed
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from flashferry.store.upkeep import copy_database
from inventory.host_key_rules import state_directory
from tasks.read_config import fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TcpLines
from tests.patience import PATIENCE_S, killed_at_end

CHANGES = (Change(keyword="window-size", before="ip tcp window-size 65535", ours="ip tcp window-size 1250000"),)
SECRET_CONFIG = "hostname r1\nusername admin secret 9 $9$verysecret\nend\n"
BEFORE = Snapshot(
    running=TcpLines(lines=("ip tcp window-size 65535",)),
    startup=TcpLines(lines=()),
    running_fingerprint=fingerprint(SECRET_CONFIG, salt="00ff"),
    salt="00ff",
)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "state") as opened:
        yield opened


def touched(journal: Journal, host: str = "r1", address: str = "192.0.2.1") -> str:
    run_id = journal.begin_run("stage")
    journal.add_device(run_id, host=host, address=address, port=22, platform="ios")
    journal.acquire_lease(run_id, host, identity="SN1/r1", snapshot=BEFORE, changes=CHANGES, target="flash:x.bin")
    return run_id


def test_what_was_written_is_read_back_by_another_process(journal):
    """Snapshot and changes come back equal through a second connection, as after a crash."""
    run_id = touched(journal)
    with Journal(journal.directory) as other:
        (found,) = other.leased_devices()
    assert (found.run_id, found.host, found.address, found.port) == (run_id, "r1", "192.0.2.1", 22)
    assert (replace(found.snapshot, generation=""), found.changes) == (BEFORE, CHANGES)
    assert found.target == "flash:x.bin"


def test_a_copied_folder_and_a_database_put_back_are_known_as_such(journal, tmp_path):
    """The run may be alive where the folder was copied from, and over since the backup was made."""
    run_id = touched(journal)
    (held,) = journal.leased_devices()
    assert journal.is_original(held)
    shutil.copytree(journal.directory, tmp_path / "copied")
    with Journal(tmp_path / "copied") as copied:
        (found,) = copied.leased_devices()
        assert not copied.is_original(found)
    (tmp_path / "back").mkdir(mode=0o700)
    copy_database(journal.directory / "journal.sqlite3", tmp_path / "back" / "journal.sqlite3")
    with Journal(tmp_path / "back") as back:
        (found,) = back.leased_devices()
        assert not back.is_original(found)
    journal.replan(run_id, "r1", ())
    (held,) = journal.leased_devices()
    assert journal.is_original(held), "a lease that was written again is still the run's own"
    assert journal.is_original(replace(held, snapshot=BEFORE)), "of an earlier release it is not known"


def test_a_released_device_is_nobodys(journal):
    """After the release nothing is left to recover."""
    journal.release(touched(journal), "r1")
    assert journal.leased_devices() == ()


def test_runs_that_make_a_journal_at_once_all_begin(tmp_path):
    """The first runs of a state folder, begun at once: each waits for who makes the tables, or reads none."""

    def begun(directory: Path, starts: Barrier) -> str:
        starts.wait(PATIENCE_S)
        read_status(directory)
        with Journal(directory) as opened:
            return opened.begin_run("stage")

    with ThreadPoolExecutor(6) as pool:
        for number in range(12):
            directory, starts = tmp_path / f"s{number}", Barrier(6)
            runs = [one.result() for one in [pool.submit(begun, directory, starts) for _ in range(6)]]
            assert {run.run_id for run in read_status(directory).runs} == set(runs)


def test_two_runs_of_a_second_have_names_of_their_own(journal, monkeypatch):
    """Where the same digits are drawn again, others are; the first run is not touched."""
    drawn = iter(["aaaa", "aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("flashferry.store.journal.secrets.token_hex", lambda count: next(drawn))
    monkeypatch.setattr("flashferry.store.journal.datetime", _NoonClock)
    first, second = journal.begin_run("stage"), journal.begin_run("probe")
    assert (first[-4:], second[-4:]) == ("aaaa", "bbbb")
    assert [read_run(journal.directory, run).verb for run in (first, second)] == ["stage", "probe"]


class _NoonClock(datetime):
    """It is always noon."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 23, 12, tzinfo=tz)


def test_two_runs_cannot_tune_the_same_device(journal):
    """The second run is refused with a way out, also under another inventory name and address."""
    touched(journal)
    with pytest.raises(DeviceRefused, match="flashferry recover"):
        touched(journal, host="other-name", address="192.0.2.99")


def test_a_released_device_can_be_tuned_again(journal):
    """A lease ends with the restore."""
    journal.release(touched(journal), "r1")
    touched(journal)


def test_a_run_lives_as_long_as_its_process(journal):
    """The lock of a killed process is free, whatever killed it."""
    code = (
        "import os, signal, sys; from pathlib import Path; from flashferry.store.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1])); print(journal.begin_run('stage'), flush=True); sys.stdin.read()"
    )
    with killed_at_end(
        subprocess.Popen(
            [sys.executable, "-c", code, journal.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    ) as child:
        run_id = child.stdout.readline().strip()
        assert journal.is_alive(run_id)
        child.kill()
        child.wait()
    assert not journal.is_alive(run_id)


def test_an_own_run_lives_until_it_is_finished(journal):
    """Our own run is alive to ourselves too, and unknown runs are dead."""
    run_id = journal.begin_run("stage")
    assert journal.is_alive(run_id)
    journal.finish_run(run_id)
    assert not journal.is_alive(run_id)
    assert not journal.is_alive("20200101-000000-abcd")


def test_no_line_of_the_configuration_but_ours_is_on_disk(journal):
    """Digests only: neither the file nor its write-ahead log holds a secret of the configuration."""
    touched(journal)
    stored = b"".join(path.read_bytes() for path in journal.directory.iterdir() if path.is_file())
    assert b"window-size 65535" in stored
    assert b"verysecret" not in stored


def test_only_the_owner_may_read_the_journal(journal):
    """Addresses and configuration lines are nobody else's business."""
    assert (journal.directory / "journal.sqlite3").stat().st_mode & 0o077 == 0


def test_a_step_that_the_table_does_not_allow_is_refused(journal):
    """From planned straight to verified is no step of a run."""
    run_id = journal.begin_run("stage")
    journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios")
    with pytest.raises(ValueError, match="planned to verified"):
        journal.move(run_id, "r1", State.VERIFIED)


def test_a_state_directory_that_cannot_be_used_is_a_clear_error(tmp_path):
    """A file in the way is told with the option that helps."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid, match="--state-dir"):
        Journal(tmp_path / "file")


def test_a_journal_of_another_schema_is_refused(tmp_path):
    """A schema that we don't know is not touched."""
    Journal(tmp_path).__exit__(None, None, None)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ConfigInvalid, match="written by another flashferry: expected schema 1, found schema 99"):
        Journal(tmp_path)


@pytest.mark.parametrize("damage", [b"not a database at all, but long enough to look", b"\0" * 200])
def test_a_damaged_journal_is_told_and_left_as_it_is(tmp_path, damage):
    """The sentence says what is at stake and what to do; not a byte of the file is changed."""
    Journal(tmp_path).__exit__(None, None, None)
    path = tmp_path / "journal.sqlite3"
    path.write_bytes(damage + path.read_bytes()[len(damage) :])
    before = path.read_bytes()
    with pytest.raises(ConfigInvalid, match="is damaged") as caught:
        Journal(tmp_path)
    assert "no device was touched" in caught.value.message
    assert "show running-config | include" in str(caught.value.hint)
    assert path.read_bytes() == before


def test_a_smaller_window_replaces_the_one_that_was_refused(journal):
    """What recovery undoes is what was sent last, not what was refused."""
    run_id = touched(journal)
    smaller = (Change(keyword="window-size", before="ip tcp window-size 65535", ours="ip tcp window-size 625000"),)
    journal.replan(run_id, "r1", smaller)
    with Journal(journal.directory) as other:
        assert other.leased_devices()[0].changes == smaller


def test_the_record_is_kept_with_the_end_of_the_lease(journal):
    """Whoever dies behind the release has named what restoring found; recovery adds its own account."""
    run_id = touched(journal)
    journal.release(run_id, "r1", {"restored": "restored but for somebody else's change"})
    assert stored_record(journal) == {"restored": "restored but for somebody else's change"}
    journal.recovered(run_id, "r1", {"failure": None})
    assert stored_record(journal)["recovery"] == {"failure": None}
    assert "restored" in stored_record(journal)


def stored_record(journal: Journal) -> dict[str, object]:
    with closing(sqlite3.connect(journal.directory / "journal.sqlite3")) as database:
        return json.loads(database.execute("SELECT record FROM devices").fetchone()[0])


def test_the_state_directory_follows_the_usual_rules(tmp_path, monkeypatch):
    """The option wins, then our variable, then XDG's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("FLASHFERRY_STATE_DIR", raising=False)
    assert state_directory() == tmp_path / "xdg" / "flashferry"
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "own"))
    assert state_directory() == tmp_path / "own"
    assert state_directory(tmp_path / "given") == tmp_path / "given"


def test_every_way_leads_through_restored_once_tuned():
    """From tuned on, a device cannot be done without having been restored."""
    reachable, seen = {State.TUNED}, set()
    while reachable:
        state = reachable.pop()
        seen.add(state)
        if state is not State.RESTORED:
            assert not is_allowed(state, State.DONE)
            reachable |= NEXT[state] - seen
    assert State.RESTORED in seen


def test_devices_are_entered_together_or_not_at_all(tmp_path) -> None:
    """A run is never known with a part of its devices: one that cannot be entered leaves none."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        one, two = (NewDevice(host=name, address="192.0.2.1", port=22, platform="ios") for name in ("r1", "r2"))
        with pytest.raises(Exception, match=r"UNIQUE"):
            journal.add_devices(run_id, (one, two, one))
        assert read_run(tmp_path, run_id).devices == ()
        journal.add_devices(run_id, (one, two))
        assert [device.host for device in read_run(tmp_path, run_id).devices] == ["r1", "r2"]


def test_records_of_many_devices_are_one_write(journal, enter):
    """Two thousand devices that a stop left out wait for the disk once; all others stay as they are."""
    run_id, other = journal.begin_run("stage"), journal.begin_run("stage")
    for each in (run_id, other):
        enter(journal, each, "r1", "r2", "r3")
    before = journal._read(lambda database: database.total_changes)
    journal.record_all(run_id, {"r1": {"outcome": "not begun"}, "r3": {"outcome": "not begun"}})
    # Each row and its seal.
    assert journal._read(lambda database: database.total_changes) - before == 6
    query = "SELECT run_id, host FROM devices WHERE record IS NOT NULL ORDER BY host"
    assert journal._read(lambda database: database.execute(query).fetchall()) == [(run_id, "r1"), (run_id, "r3")]

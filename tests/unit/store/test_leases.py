"""A journal that is damaged, lost, replaced or tampered with is never believed blindly."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.model.lease import JournalUnusable
from flashferry.store.journal import Journal
from flashferry.store.lease_files import LeaseFiles
from flashferry.store.leases import lease_by_name, leases
from flashferry.store.reader import lock_of
from flashferry.store.status import read_status

FILE = "journal.sqlite3"


def died(directory, enter, touch, *hosts):
    """Have a run die with devices in its hands."""
    with Journal(directory) as dying:
        run_id = dying.begin_run("stage")
        enter(dying, run_id, *hosts)
        for host in hosts:
            touch(dying, run_id, host)
    return run_id


def raw(directory, statement, *values):
    """Write into the database as somebody else would."""
    with closing(sqlite3.connect(directory / FILE)) as database:
        database.execute(statement, values)
        database.commit()


def remove_database(directory):
    for path in directory.glob(f"{FILE}*"):
        path.unlink()


def left(directory):
    """Return the devices that a recovery would restore, and those that it would tell as damaged."""
    with Journal(directory) as journal:
        return (
            [(one.host, one.changes[0].before) for one in journal.leased_devices()],
            [one.host for one in journal.damaged_entries()],
        )


WAS = "ip tcp window-size 65535"


def test_a_removed_journal_is_made_up_for_by_the_files(tmp_path, enter, touch):
    """What was in hand stands beside it, with all that putting it back takes."""
    run_id = died(tmp_path, enter, touch, "r1", "r2")
    remove_database(tmp_path)
    assert [one.host for one in read_status(tmp_path).lost] == ["r1", "r2"]
    assert left(tmp_path) == ([("r1", WAS), ("r2", WAS)], [])
    with Journal(tmp_path) as journal:
        journal.recovered(run_id, "r1")
        journal.recovered(run_id, "r2")
        assert journal.leased_devices() == ()


def test_a_journal_of_yesterday_does_not_hide_todays_leases(tmp_path, enter, touch):
    """As after a lost write-ahead log, or a back-up that was put in its place."""
    with Journal(tmp_path):
        pass
    shutil.copy(tmp_path / FILE, tmp_path / "yesterday")
    died(tmp_path, enter, touch, "r1")
    remove_database(tmp_path)
    shutil.copy(tmp_path / "yesterday", tmp_path / FILE)
    assert left(tmp_path) == ([("r1", WAS)], [])


def test_a_row_of_before_the_lease_does_not_end_it(tmp_path, enter, touch):
    """The journal knows the device as planned: what came behind that was lost."""
    run_id = died(tmp_path, enter, touch, "r1")
    raw(tmp_path, "UPDATE devices SET touched = 0, state = 'planned', seal = NULL WHERE run_id = ?", run_id)
    assert left(tmp_path) == ([("r1", WAS)], [])


def test_a_file_that_a_death_left_behind_is_no_lease(tmp_path, enter, touch):
    """The row says that it ended, and is sound: the file goes."""
    run_id = died(tmp_path, enter, touch, "r1")
    (file,) = (tmp_path / "leases").iterdir()
    kept = file.read_bytes()
    with Journal(tmp_path) as journal:
        journal.recovered(run_id, "r1")
    assert not file.exists()
    file.write_bytes(kept)
    assert left(tmp_path) == ([], [])
    assert not file.exists()


@pytest.mark.parametrize("column", ["snapshot", "changes", "identity", "address", "target", "state"])
def test_a_changed_row_is_not_believed(tmp_path, enter, touch, column):
    """The file beside it is; without one the device is told as damaged, never passed over."""
    died(tmp_path, enter, touch, "r1")
    raw(tmp_path, f"UPDATE devices SET {column} = 'x' || {column}")
    assert left(tmp_path) == ([("r1", WAS)], [])
    for file in (tmp_path / "leases").iterdir():
        file.unlink()
    assert left(tmp_path) == ([], ["r1"])


def test_a_flag_that_flipped_does_not_end_a_lease(tmp_path, enter, touch):
    """Neither with the file beside it nor without."""
    died(tmp_path, enter, touch, "r1")
    raw(tmp_path, "UPDATE devices SET touched = 0")
    assert left(tmp_path) == ([("r1", WAS)], [])
    for file in (tmp_path / "leases").iterdir():
        file.unlink()
    assert left(tmp_path) == ([], ["r1"])


@pytest.mark.parametrize(
    "before",
    ["username eve privilege 15 secret x", "reload", "ip tcp window-size 9\nreload", "snmp-server community x"],
)
def test_a_line_that_we_never_type_is_not_typed(tmp_path, enter, touch, before):
    """Whoever can write into the journal can seal it, too: what it says is held against what we can have written."""
    died(tmp_path, enter, touch, "r1")
    for file in (tmp_path / "leases").iterdir():
        file.unlink()
    changes = [{"keyword": "window-size", "before": before, "ours": "ip tcp window-size 1250000"}]
    raw(tmp_path, "UPDATE devices SET changes = ?, seal = NULL", json.dumps(changes))
    assert left(tmp_path) == ([], ["r1"])


def test_a_lease_file_that_was_changed_is_told(tmp_path, enter, touch):
    """With the row gone as well, its name is all that is known."""
    died(tmp_path, enter, touch, "r1")
    (file,) = (tmp_path / "leases").iterdir()
    file.write_text(file.read_text().replace("65535", "99999"))
    remove_database(tmp_path)
    assert left(tmp_path) == ([], ["r1"])


def test_files_that_are_as_they_were_are_not_read_again(tmp_path, enter, touch):
    """Who looks every second reads what is new, written anew or changed behind our back, and forgets what is gone."""
    run_id = died(tmp_path, enter, touch, "r1", "r2")
    files = LeaseFiles(tmp_path)
    first = files.read()
    assert [one is other for one, other in zip(first, files.read(), strict=True)] == [True, True]
    with Journal(tmp_path) as journal:
        enter(journal, run := journal.begin_run("stage"), "r3")
        touch(journal, run, "r3")
    path = next(tmp_path.glob("leases/*r1.json"))
    path.write_text(path.read_text().replace("192.0.2.", "192.0.3."))
    files.remove(run_id, "r2")
    found = files.read()
    assert {one.entry.host for one in found} == {"r1", "r3"}
    assert next(one for one in found if one.entry.host == "r1").entry.address == "?"


def test_a_lock_without_a_run_is_told(tmp_path):
    """The journal was lost with its leases: status says so, and so does recovery."""
    with Journal(tmp_path):
        lock_of(tmp_path, "20261122-1").touch()
    assert [one.host for one in read_status(tmp_path).lost] == ["20261122-1"]
    assert left(tmp_path) == ([], ["20261122-1"])


@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_vanishes_is_noticed(tmp_path, enter, touch, replaced):
    """Nothing new is begun: what SQLite goes on writing there is lost."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        enter(journal, run_id, "r1")
        (tmp_path / FILE).unlink()
        if replaced:
            (tmp_path / FILE).touch()
        with pytest.raises(JournalUnusable, match="was removed or replaced while it was in use"):
            touch(journal, run_id, "r1")


def test_what_a_stack_is_made_of_is_kept(tmp_path, enter):
    """Another member may be active when it is to be known again."""
    from tests.unit.conftest import CHANGES, SNAPSHOT

    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        enter(journal, run_id, "r1")
        journal.acquire_lease(
            run_id, "r1", identity="A/r1", snapshot=SNAPSHOT, changes=CHANGES, target="x", members=frozenset({"A", "B"})
        )
    with Journal(tmp_path) as journal:
        assert journal.leased_devices()[0].members == {"A", "B"}
    remove_database(tmp_path)
    with Journal(tmp_path) as journal:
        assert journal.leased_devices()[0].members == {"A", "B"}


def test_leases_are_known_without_the_journal(tmp_path, enter, touch):
    """Every verb asks them first; a run does not stand in its own way."""
    run_id = died(tmp_path, enter, touch, "r1")
    for _ in range(2):
        (lease,) = leases(tmp_path)
        assert (lease.run_id, lease.host, lease.is_alive) == (run_id, "r1", False)
        assert "died while it held this device" in lease.refusal("r1").message
        assert leases(tmp_path, besides=run_id) == ()
        remove_database(tmp_path)
    assert leases(tmp_path / "none") == ()


def test_the_files_of_the_run_that_asks_are_not_read(tmp_path, enter, touch):
    """It has one per device that it holds, and each of its devices asks: with hundreds that is most of a check."""
    run_id = died(tmp_path, enter, touch, "r1", "r2")
    with Journal(tmp_path) as journal:
        enter(journal, other := journal.begin_run("stage"), "r3")
        touch(journal, other, "r3")
    for file in tmp_path.glob(f"leases/{run_id}*"):
        file.write_text("damaged")
    assert [one.entry.host for one in LeaseFiles(tmp_path).read(besides=run_id)] == ["r3"]
    assert [(one.run_id, one.host) for one in leases(tmp_path, besides=run_id)] == [(other, "r3")]


@pytest.mark.parametrize("name", [FILE, "recover.lock", "runs/x.lock"])
def test_a_link_in_the_place_of_a_file_of_ours_is_not_followed(tmp_path, name):
    """What it leads to stays as it is."""
    target = tmp_path / "somebody-elses"
    target.write_text("precious")
    state = tmp_path / "state"
    (state / "runs").mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    (state / name).symlink_to(target)
    with pytest.raises(ConfigInvalid, match="expected a file of our own, found a link"):
        _use(state)
    assert target.read_text() == "precious"


def _use(state):
    with Journal(state) as journal, journal.recovery_lock():
        journal.is_alive("x")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702])
def test_a_folder_that_others_may_write_in_is_refused(tmp_path, mode):
    """They could have anything typed into the devices."""
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)
    with pytest.raises(ConfigInvalid, match="expected one that its owner alone may write") as caught, Journal(state):
        pass
    assert f"chmod go-w {state}" in str(caught.value.hint)


def test_lease_by_name_or_address(tmp_path, enter, touch):
    """Before anybody has logged in, the same name or the same address is enough to ask first."""
    from types import SimpleNamespace

    died(tmp_path, enter, touch, "r1")
    found = leases(tmp_path)
    for name, address, is_held in (("r1", "192.0.2.77", True), ("r9", "192.0.2.0", True), ("r9", "192.0.2.77", False)):
        device = SimpleNamespace(name=name, address=address, port=22)
        assert (lease_by_name(found, device) is not None) is is_held

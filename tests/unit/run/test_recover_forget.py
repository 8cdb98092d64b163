"""Letting go of devices that no recovery will set right: only those named, nothing called restored, nothing lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid
from flashferry.model.states import Restored
from flashferry.run.recover import forget, pending
from flashferry.store.journal import Journal
from flashferry.store.status import read_status


def left(journal, enter, touch_as, host, identity):
    """Have a run die with a device in its hands."""
    with Journal(journal.directory) as dying:
        run_id = dying.begin_run("stage")
        enter(dying, run_id, host)
        touch_as(dying, run_id, host, identity)
    return run_id


def test_the_lease_ends_and_what_was_set_is_told(journal, enter, touch_as):
    """Of the one named alone; it does not count as restored, and the same router may be staged again."""
    run_id = left(journal, enter, touch_as, "r1", "SN1/r1")
    left(journal, enter, touch_as, "r2", "SN2/r2")
    (record,) = forget(journal, ["r1", "r1"])
    assert (record.host, record.run_id, record.restored) == ("r1", run_id, Restored.INCOMPLETE)
    assert record.failure.reason.endswith(
        "the run may have set 'ip tcp window-size 1250000' where there was 'ip tcp window-size 65535'"
    )
    assert [device.host for device in pending(journal)] == ["r2"]
    (kept,) = next(run for run in read_status(journal.directory).runs if run.run_id == run_id).devices
    assert (kept.is_held, kept.state, kept.restored) == (False, "failed", "incomplete")
    again = journal.begin_run("stage")
    enter(journal, again, "r1")
    touch_as(journal, again, "r1", "SN1/r1")


def test_of_several_one_must_be_said(journal, enter, touch_as):
    """The entry of the router that is there now is not ended with that of the one it replaced."""
    old, new = (left(journal, enter, touch_as, "r1", identity) for identity in ("SN1/r1", "SN7/r1"))
    with pytest.raises(ConfigInvalid, match="2 runs left a device of that name") as caught:
        forget(journal, ["r1"])
    assert caught.value.hint == f"Say which: {old}/r1 or {new}/r1"
    forget(journal, [f"{old}/r1"])
    assert [device.run_id for device in pending(journal)] == [new]


def test_nothing_ends_where_one_name_is_wrong(journal, enter, touch_as):
    """All names are looked at before the first lease ends."""
    left(journal, enter, touch_as, "r1", "SN1/r1")
    with pytest.raises(ConfigInvalid, match="--forget r9: expected a device that a dead run still holds"):
        forget(journal, ["r1", "r9"])
    assert len(pending(journal)) == 1


def test_a_living_run_keeps_what_it_has(journal, enter, touch):
    """Its own restoring is still to come."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    touch(journal, run_id, "r1")
    with pytest.raises(ConfigInvalid, match=f"run {run_id} is alive"):
        forget(journal, ["r1"])


def test_a_damaged_entry_can_be_let_go(journal, enter, touch_as):
    """Nothing else would ever end it: recovery cannot read what was there."""
    left(journal, enter, touch_as, "r1", "SN1/r1")
    with closing(sqlite3.connect(journal.directory / "journal.sqlite3")) as database:
        database.execute("UPDATE devices SET snapshot = '{'")
        database.commit()
    for file in (journal.directory / "leases").iterdir():
        file.unlink()
    (record,) = forget(journal, ["r1"])
    assert "the journal's entry is damaged" in record.failure.reason
    assert journal.damaged_entries() == ()


def test_at_the_command_line(journal, enter, touch_as):
    """No inventory, no login and no device is needed; what was let go of is told."""
    left(journal, enter, touch_as, "r1", "SN1/r1")
    words = ["recover", "--forget", "r1", "--json", "--state-dir", str(journal.directory)]
    done = CliRunner().invoke(build(), words)
    assert (done.exit_code, [one["host"] for one in json.loads(done.stdout)["devices"]]) == (0, ["r1"])
    assert pending(journal) == ()

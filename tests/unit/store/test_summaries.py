"""The small rows beside the records: the same answer as from the records, without reading them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, Restored, State
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.status import read_status
from flashferry.store.upkeep import old_runs, remove_runs
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines

FAILURE = Failure(step="pull", reason="no progress for 60 s", hint=None, kind="TransferStalled")
DONE = DeviceRecord(
    host="r1", state=State.DONE, outcome=Outcome.DONE, restored=Restored.RESTORED, transport="https", seconds_by_step={}
)
FAILED = replace(DONE, state=State.FAILED, outcome=Outcome.FAILED, failure=FAILURE)
SNAPSHOT = Snapshot(
    running=TcpLines(lines=()),
    startup=TcpLines(lines=()),
    running_fingerprint=Fingerprint(whole="w", lines=()),
    salt="s",
)


def change(directory: Path, *statements: str) -> None:
    """Write into a journal as another program does."""
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as database, database:
        for statement in statements:
            database.execute(statement)


def begin(journal: Journal) -> str:
    run_id = journal.begin_run("stage")
    journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios")
    return run_id


def lease(journal: Journal, run_id: str) -> None:
    journal.acquire_lease(run_id, "r1", identity="r1", snapshot=SNAPSHOT, changes=(), target="flash:x")


def recorded(journal: Journal) -> None:
    journal.record(begin(journal), "r1", DONE)


def recorded_in_one_write(journal: Journal) -> None:
    journal.record_all(begin(journal), {"r1": FAILED})


def excluded(journal: Journal) -> None:
    new = NewDevice(host="r1", address="192.0.2.1", port=22, platform="ios")
    journal.exclude(journal.begin_run("stage"), [(new, FAILED)])


def moved_after_its_record(journal: Journal) -> None:
    run_id = begin(journal)
    journal.record(run_id, "r1", FAILED)
    journal.move(run_id, "r1", State.CHECKED)


def released(journal: Journal) -> None:
    run_id = begin(journal)
    lease(journal, run_id)
    journal.release(run_id, "r1", FAILED)


def recovered(journal: Journal) -> None:
    run_id = begin(journal)
    lease(journal, run_id)
    journal.record(run_id, "r1", replace(FAILED, restored=Restored.INCOMPLETE))
    journal.recovered(run_id, "r1", {"restored": "restored"})


def accepted(journal: Journal) -> None:
    run_id = begin(journal)
    lease(journal, run_id)
    journal.forgotten(run_id, "r1", {"restored": "incomplete", "is_accepted": True})


def in_a_second_attempt(journal: Journal) -> None:
    run_id = begin(journal)
    journal.record(run_id, "r1", FAILED)
    journal.again(run_id, "r1")


def after_a_second_attempt(journal: Journal) -> None:
    run_id = begin(journal)
    journal.record(run_id, "r1", FAILED)
    journal.again(run_id, "r1")
    journal.record(run_id, "r1", replace(DONE, restored=Restored.UNTOUCHED))


def compared(journal: Journal) -> None:
    arm = {"server_bytes_per_s": 5e6, "verdict": {"kind": "cap"}}
    rows = [{"is_best": False, "arm": {}}, {"is_best": True, "arm": arm}]
    journal.record(begin(journal), "r1", {"outcome": "done", "probe": {"by_transport": rows}})


CASES = (
    begin,
    recorded,
    recorded_in_one_write,
    excluded,
    moved_after_its_record,
    released,
    recovered,
    accepted,
    in_a_second_attempt,
    after_a_second_attempt,
    compared,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_summaries_say_what_the_records_say(tmp_path, case: Callable[[Journal], None]):
    """Whatever was written, by whichever way; a journal without the table is read as well, from its records."""
    with Journal(tmp_path) as journal:
        case(journal)
    by_summaries = read_status(tmp_path)
    change(tmp_path, "DROP TABLE summaries")
    assert read_status(tmp_path) == by_summaries
    if case is not begin:
        (device,) = by_summaries.runs[0].devices
        assert device.outcome is not None or device.restored is not None


def test_a_record_is_not_read_where_there_is_a_summary(tmp_path):
    """Parsing the records of large runs is what made `status` slow."""
    with Journal(tmp_path) as journal:
        recorded(journal)
    change(tmp_path, "UPDATE devices SET record = '[1'")
    ((device,),) = (run.devices for run in read_status(tmp_path).runs)
    assert (device.outcome, device.transport, device.restored) == ("done", "https", "restored")


@pytest.mark.parametrize(
    "written",
    [
        """UPDATE devices SET record = '{"outcome": "failed"}', updated_at = '2027'""",
        """UPDATE summaries SET summary = '{"outcome": "done"}'""",
        "UPDATE summaries SET summary = 'x'",
    ],
    ids=["by an earlier flashferry", "with other fields", "damaged"],
)
def test_a_summary_that_is_not_of_its_record_is_not_believed(tmp_path, written):
    """The record decides: of a journal that another flashferry wrote into, or of a row that is damaged."""
    with Journal(tmp_path) as journal:
        recorded_in_one_write(journal)
    change(tmp_path, written)
    ((device,),) = (run.devices for run in read_status(tmp_path).runs)
    assert device.outcome == "failed"


def test_a_journal_without_summaries_gets_them_from_its_next_run_on(tmp_path):
    """The runs before are read from their records; nothing is converted."""
    with Journal(tmp_path) as journal:
        recorded(journal)
    change(tmp_path, "DROP TABLE summaries")
    with Journal(tmp_path) as journal:
        recorded_in_one_write(journal)
    assert {run.devices[0].outcome for run in read_status(tmp_path).runs} == {"failed", "done"}
    change(tmp_path, "UPDATE devices SET record = '[1'")
    assert {run.devices[0].outcome for run in read_status(tmp_path).runs} == {"failed", None}


def test_removed_runs_leave_no_summary(tmp_path):
    """Nothing is left of a run that was pruned."""
    with Journal(tmp_path) as journal:
        run_id = begin(journal)
        journal.record(run_id, "r1", DONE)
        journal.finish_run(run_id)
    remove_runs(tmp_path, old_runs(tmp_path, "9999"))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        assert database.execute("SELECT count(*) FROM summaries").fetchone() == (0,)

"""What became of a device's configuration in a run of several attempts."""

from __future__ import annotations

import pytest

from flashferry.model.record import DeviceRecord
from flashferry.model.states import Outcome, Restored
from flashferry.run.resume import with_earlier
from flashferry.store.journal import Journal
from flashferry.store.status import read_status
from flashferry.store.summaries import restore_source

NOTHING_DONE = {"outcome": "already there", "restored": "untouched"}
RECOVERED = {"recovery": {"restored": "restored", "restore": {}, "failure": None}}


@pytest.mark.parametrize(
    ("record", "attempts", "restored", "ago", "by_recovery"),
    [
        pytest.param(NOTHING_DONE, [], "untouched", 0, False, id="never-changed"),
        pytest.param(NOTHING_DONE, [NOTHING_DONE], "untouched", 0, False, id="never-changed-in-two"),
        pytest.param(NOTHING_DONE, [RECOVERED], "restored", 1, True, id="killed-recovered-and-found-there"),
        pytest.param({}, [RECOVERED], "restored", 1, True, id="recovered-and-not-begun-again"),
        pytest.param(
            {"restored": "incomplete"}, [RECOVERED], "incomplete", 0, False, id="what-the-last-one-changed-counts"
        ),
        pytest.param(
            NOTHING_DONE, [{"restored": "restored"}, NOTHING_DONE], "restored", 2, False, id="changed-by-the-first"
        ),
        pytest.param(NOTHING_DONE, [{"restored": "incomplete"} | RECOVERED], "restored", 1, True, id="recovery-last"),
        pytest.param({}, [], None, 0, False, id="nobody-told"),
    ],
)
def test_the_last_attempt_that_changed_it_counts(record, attempts, restored, ago, by_recovery):
    """One that found nothing to do does not make a device that was tuned before it one that never was."""
    found = restore_source(record, attempts)
    assert (found.restored, found.ago, found.by_recovery) == (restored, ago, by_recovery)


@pytest.fixture
def gone_on(tmp_path):
    """Return a journal and its run, in which `tuned` was recovered and `fresh` was not touched; both at attempt 2."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for host, first in (("tuned", RECOVERED), ("fresh", NOTHING_DONE)):
            journal.add_device(run_id, host=host, address="x", port=22, platform="ios")
            journal.record(run_id, host, first)
            journal.again(run_id, host)
            journal.record(run_id, host, NOTHING_DONE)
        yield journal, run_id


def test_status_tells_what_recovery_restored(gone_on):
    """A device that the dead run had tuned is no untouched one."""
    journal, _ = gone_on
    (run,) = read_status(journal.directory).runs
    assert {one.host: one.restored for one in run.devices} == {"tuned": "restored", "fresh": "untouched"}


def test_the_result_of_a_run_tells_it_too(gone_on):
    """With a note on who changed it and who restored it; one that was really not touched stays so."""
    journal, run_id = gone_on
    records = {
        host: DeviceRecord(host=host, outcome=Outcome.ALREADY_THERE, attempt=2, seconds_by_step={})
        for host in ("tuned", "fresh")
    }
    found = with_earlier(journal, run_id, records)
    assert {host: one.restored for host, one in found.items()} == {
        "tuned": Restored.RESTORED,
        "fresh": Restored.UNTOUCHED,
    }
    (note,) = found["tuned"].notes
    assert note == "an earlier attempt of this run changed the configuration; recovery restored it, proven"
    assert found["fresh"].notes == ()

"""What is left of a run: proven done is never done again, and nothing else counts as done."""

from __future__ import annotations

import pytest

from inventory.errors import ConfigInvalid
from staging.journal import Journal
from staging.store.resumption import resumption


@pytest.fixture
def dead(tmp_path, enter, touch):
    """Return what makes a dead run of devices with these records; those that begin with `held` are in its hands."""

    def make(records, verb="stage", request=None):
        with Journal(tmp_path) as journal:
            run_id = journal.begin_run(verb, {"images": ["x.bin"]} if request is None else request)
            enter(journal, run_id, *records)
            for host, record in records.items():
                if host.startswith("held"):
                    touch(journal, run_id, host)
                if record is not None:
                    journal.record(run_id, host, record)
        return run_id

    return make


def told(outcome, restored="restored"):
    return {"outcome": outcome, "restored": restored}


def test_who_is_done_and_who_is_not(dead, tmp_path):
    """Done by image and configuration both; refused and unreached devices are asked again; held ones are named."""
    run_id = dead(
        {
            "done": told("done"),
            "there": told("already there", "untouched"),
            "foreign": told("done", "restored but for somebody else's change"),
            "unrestored": told("done", "incomplete"),
            "refused": told("refused", "untouched"),
            "failed": told("failed"),
            "never": None,
            "held": told("done"),
        }
    )
    found = resumption(tmp_path, run_id)
    assert found.done == ("done", "there", "foreign")
    assert found.to_do == ("unrestored", "refused", "failed", "never", "held")
    assert found.held == ("held",)
    assert (found.run_id, found.request) == (run_id, {"images": ["x.bin"]})


def test_a_damaged_record_is_not_done(dead, tmp_path):
    """It is found out on the device, which costs a hash at most."""
    run_id = dead({"r1": told("done")})
    with Journal(tmp_path) as journal:
        journal._write("UPDATE devices SET record = '{'", ())
    assert resumption(tmp_path, run_id).to_do == ("r1",)


def test_the_latest_is_the_latest_that_staged(dead, tmp_path):
    """A speed test in between does not count; short names do."""
    run_id = dead({"r1": None})
    dead({"r1": None}, verb="probe")
    assert resumption(tmp_path, "latest").run_id == run_id
    assert resumption(tmp_path, run_id[-4:]).run_id == run_id


def test_a_run_that_lives_is_not_resumed(journal):
    """It needs nobody."""
    run_id = journal.begin_run("stage", {"a": 1})
    with pytest.raises(ConfigInvalid, match=f"run {run_id} is alive"):
        resumption(journal.directory, run_id)


def test_a_run_without_a_request_is_not_resumed(dead, tmp_path):
    """What it wanted nobody knows; the way out is told."""
    with pytest.raises(ConfigInvalid, match=r"has not kept what it was asked for.*Stage anew"):
        resumption(tmp_path, dead({"r1": None}, request={}))


@pytest.mark.parametrize("given", ["20200101-000000-abcd", "latest"])
def test_an_unknown_run_is_told(tmp_path, given):
    """One sentence, and no journal is made."""
    with pytest.raises(ConfigInvalid, match="the journal has no stage run yet"):
        resumption(tmp_path, given)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_run_is_told_with_the_newest(dead, tmp_path):
    """Of those that staged."""
    run_id = dead({"r1": None})
    with pytest.raises(ConfigInvalid, match=f"unknown stage run 'x': the newest is {run_id}"):
        resumption(tmp_path, "x")

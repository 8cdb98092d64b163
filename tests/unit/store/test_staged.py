"""How a device was when it was staged: an activation behind it says nothing of that."""

from __future__ import annotations

import pytest

from flashferry.store.journal import Journal
from flashferry.store.staged import last_staged, undelivered_copy

STAGED = {"outcome": "done", "check": {"version": {"members": [{"number": 1}, {"number": 2}, {"number": 3}]}}}


def test_an_activation_does_not_stand_for_the_staging(tmp_path):
    """A device that ran its image already has a record that never looked at members; the staging's counts on."""
    with Journal(tmp_path) as journal:
        for verb, record in (("stage", STAGED), ("activate", {"outcome": "already there", "check": None})):
            run_id = journal.begin_run(verb)
            journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios-xe", image="cat9k.bin")
            journal.record(run_id, "r1", record)
    assert last_staged(tmp_path, {"r1"})["r1", "cat9k.bin"].members == (1, 2, 3)


UNDELIVERED = {"outcome": "failed", "failure": {"kind": "NotDelivered"}}
REFUSED = {"outcome": "refused", "failure": {"kind": "PolicyViolation"}}
DELIVERED = {"outcome": "done"}


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ((), None),
        ((DELIVERED,), None),
        ((UNDELIVERED,), 0),
        ((DELIVERED, UNDELIVERED), 1),
        ((UNDELIVERED, REFUSED), 0),
        ((UNDELIVERED, DELIVERED), None),
    ],
)
def test_a_false_report_of_a_copy_is_remembered_until_a_copy_was_delivered(tmp_path, records, found):
    """Of that device and image alone; a refusal in between changes nothing."""
    runs = []
    with Journal(tmp_path) as journal:
        for record in records:
            runs.append(journal.begin_run("stage"))
            for host, image in (("r1", "cat9k.bin"), ("r2", "other.bin")):
                journal.add_device(runs[-1], host=host, address="192.0.2.1", port=22, platform="ios-xe", image=image)
            journal.record(runs[-1], "r1", record)
    assert undelivered_copy(tmp_path, "r1", "cat9k.bin") == (runs[found] if found is not None else None)
    assert undelivered_copy(tmp_path, "r1", "other.bin") is None
    assert undelivered_copy(tmp_path, "r2", "other.bin") is None


def test_a_false_report_in_a_former_attempt_of_the_run_counts(tmp_path):
    """A run that is gone on with keeps it beside the next attempt."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios-xe", image="cat9k.bin")
        journal.record(run_id, "r1", UNDELIVERED)
        journal.again(run_id, "r1")
    assert undelivered_copy(tmp_path, "r1", "cat9k.bin") == run_id

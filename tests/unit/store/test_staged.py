"""How a device was when it was staged: an activation behind it says nothing of that."""

from __future__ import annotations

from flashferry.store.journal import Journal
from flashferry.store.staged import last_staged

STAGED = {"outcome": "done", "check": {"version": {"members": [{"number": 1}, {"number": 2}, {"number": 3}]}}}


def test_an_activation_does_not_stand_for_the_staging(tmp_path):
    """A device that ran its image already has a record that never looked at members; the staging's counts on."""
    with Journal(tmp_path) as journal:
        for verb, record in (("stage", STAGED), ("activate", {"outcome": "already there", "check": None})):
            run_id = journal.begin_run(verb)
            journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios-xe", image="cat9k.bin")
            journal.record(run_id, "r1", record)
    assert last_staged(tmp_path, {"r1"})["r1", "cat9k.bin"].members == (1, 2, 3)

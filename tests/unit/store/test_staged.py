"""How a device was when it was staged: an activation behind it says nothing of that."""

from __future__ import annotations

import pytest

from flashferry.model.doubts import Doubts, doubts_about
from flashferry.store.journal import Journal
from flashferry.store.staged import doubts, last_staged
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines

STAGED = {"outcome": "done", "check": {"version": {"members": [{"number": 1}, {"number": 2}, {"number": 3}]}}}


def test_an_activation_does_not_stand_for_the_staging(tmp_path):
    """A device that ran its image already has a record that never looked at members; the staging's counts on."""
    with Journal(tmp_path) as journal:
        for verb, record in (("stage", STAGED), ("activate", {"outcome": "already there", "check": None})):
            run_id = journal.begin_run(verb)
            journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios-xe", image="cat9k.bin")
            journal.record(run_id, "r1", record)
    assert last_staged(tmp_path, {"r1"})["r1", "cat9k.bin"].members == (1, 2, 3)


SNAPSHOT = Snapshot(
    running=TcpLines(lines=()),
    startup=TcpLines(lines=()),
    running_fingerprint=Fingerprint(whole="w", lines=()),
    salt="s",
)
UNDELIVERED = {"outcome": "failed", "failure": {"kind": "NotDelivered"}}
REFUSED = {"outcome": "refused", "failure": {"kind": "PolicyViolation"}}
DELIVERED = {"outcome": "done"}
CORRUPT = {"outcome": "failed", "pull": {"target": "flash:cat9k.bin"}, "failure": {"kind": "ImageCorrupt"}}
TIMED = {"outcome": "failed", "pull": {"target": "null:"}, "failure": {"kind": "CopyFailed"}}
ADD_FAILED = {"outcome": "failed", "pull": {"target": "flash:cat9k.bin"}, "failure": {"kind": "InstallFailed"}}
ADDED = {"outcome": "already there", "added": {"outcome": "added"}}
LISTED = {"outcome": "already there", "added": {"outcome": "already added"}}
RUNS_IT = {"outcome": "already there", "added": {"outcome": "runs it already"}}


def kept(folder, *records, host="r1", identity="9X/edge-1", image="cat9k.bin", members=frozenset()):
    """Return the runs of which each left a record of one device, and an untouched one of another."""
    runs = []
    with Journal(folder) as journal:
        for record in records:
            runs.append(journal.begin_run("stage"))
            for name, what in ((host, image), ("r2", "other.bin")):
                journal.add_device(runs[-1], host=name, address="192.0.2.1", port=22, platform="ios-xe", image=what)
            journal.acquire_lease(
                runs[-1],
                host,
                identity=identity,
                members=members,
                snapshot=SNAPSHOT,
                changes=(),
                target=f"flash:{image}",
            )
            journal.release(runs[-1], host, record)
    return runs


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ((), None),
        ((DELIVERED,), None),
        ((UNDELIVERED,), 0),
        ((DELIVERED, UNDELIVERED), 1),
        ((UNDELIVERED, REFUSED), 0),
        ((UNDELIVERED, TIMED), 0),
        ((UNDELIVERED, DELIVERED), None),
        ((UNDELIVERED, CORRUPT), None),
        ((UNDELIVERED, ADD_FAILED), None),
    ],
)
def test_a_false_report_of_a_copy_is_remembered_until_a_copy_was_delivered(tmp_path, records, found):
    """Of that device and image alone; a refusal or a speed test in between changes nothing."""
    runs = kept(tmp_path, *records)
    known = doubts(tmp_path)
    expected = None if found is None else runs[found]
    for host, identity in (("r1", "9X/edge-1"), ("r7", "9X/edge-1"), ("r1", "9X/renamed"), ("r1", "unknown/edge-1")):
        assert doubts_about(known, host, identity, "cat9k.bin").false_copy == expected
    assert doubts_about(known, "r2", "9Z/edge-2", "other.bin") == Doubts()


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ((LISTED,), None),
        ((ADD_FAILED,), 0),
        ((ADDED, ADD_FAILED), 1),
        ((ADD_FAILED, LISTED), 0),
        ((ADD_FAILED, DELIVERED), 0),
        ((ADD_FAILED, ADDED), None),
        ((ADD_FAILED, RUNS_IT), None),
    ],
)
def test_an_add_that_failed_is_remembered_until_one_was_reported_done(tmp_path, records, found):
    """That the image is listed as added later is no proof: so is one whose add failed."""
    runs = kept(tmp_path, *records)
    known = doubts_about(doubts(tmp_path, "r1"), "r1", "9X/edge-1", "cat9k.bin").failed_add
    assert known == (None if found is None else runs[found])


def test_what_is_remembered_of_a_device_goes_with_it_to_another_name(tmp_path):
    """By its serial number and host name; a copy that was delivered there counts as one under its former name."""
    (run_id,) = kept(tmp_path, UNDELIVERED, host="r1", identity="9X/edge-1")
    assert doubts_about(doubts(tmp_path, "r7", "9X/edge-1"), "r7", "9X/edge-1", "cat9k.bin").false_copy == run_id
    kept(tmp_path, DELIVERED, host="r7", identity="9X/edge-1")
    for host in ("r1", "r7"):
        assert doubts_about(doubts(tmp_path), host, "9X/edge-1", "cat9k.bin").false_copy is None
        assert doubts_about(doubts(tmp_path, host, "9X/edge-1"), host, "9X/edge-1", "cat9k.bin").false_copy is None


def test_another_chassis_of_that_name_is_not_held_to_its_predecessors_word(tmp_path):
    """It is believed as any device that no run has had, with a note; and a copy of its own does not clear the other."""
    (run_id,) = kept(tmp_path, UNDELIVERED, identity="9X/edge-1")
    known = doubts_about(doubts(tmp_path, "r1", "9Y/edge-1"), "r1", "9Y/edge-1", "cat9k.bin")
    assert (known.false_copy, known.failed_add, known.of_other_chassis) == (None, None, run_id)
    assert run_id in (known.of_name or "")
    assert known.of_file("flash:cat9k.bin") is None
    kept(tmp_path, DELIVERED, ADDED, identity="9Y/edge-1")
    assert doubts_about(doubts(tmp_path), "r1", "9X/edge-1", "cat9k.bin").false_copy == run_id


def test_a_device_that_lies_again_under_another_serial_number_is_known_by_that_too(tmp_path):
    """Each serial number that it claims is refused once a copy under it was false."""
    first, second = (kept(tmp_path, UNDELIVERED, identity=one)[0] for one in ("9X/edge-1", "9Y/edge-1"))
    known = doubts(tmp_path)
    assert doubts_about(known, "r1", "9X/edge-1", "cat9k.bin").false_copy == first
    assert doubts_about(known, "r1", "9Y/edge-1", "cat9k.bin").false_copy == second


@pytest.mark.parametrize(
    ("then", "now", "is_held"),
    [
        ("9X/edge-1", "9X/renamed", True),
        ("9X/edge-1", "/edge-1", True),
        ("9X/edge-1", "Unknown/edge-9", True),
        (None, "9Y/edge-1", True),
        ("None/edge-1", "9Y/edge-1", True),
        ("9X/edge-1", "9M/edge-1", True),
        ("9X/edge-1", "9Y/edge-1", False),
    ],
    ids=["renamed", "no serial", "unknown serial", "never known", "none then", "another member is active", "exchanged"],
)
def test_only_a_known_serial_number_that_differs_makes_another_chassis(tmp_path, then, now, is_held):
    """Where either is not known, and where a stack has another active member, it is the same device."""
    kept(tmp_path, UNDELIVERED, identity=then, members=frozenset({"9X", "9M"}))
    known = doubts_about(doubts(tmp_path, "r1", now), "r1", now, "cat9k.bin")
    assert (known.false_copy is not None) is is_held


def test_a_false_report_in_a_former_attempt_of_the_run_counts(tmp_path):
    """A run that is gone on with keeps it beside the next attempt."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios-xe", image="cat9k.bin")
        journal.record(run_id, "r1", UNDELIVERED)
        journal.again(run_id, "r1")
    assert doubts_about(doubts(tmp_path), "r1", "9X/edge-1", "cat9k.bin").false_copy == run_id


def test_there_is_nothing_against_a_device_without_a_journal(tmp_path):
    """A first check has no state folder yet."""
    assert doubts(tmp_path / "none") == {}

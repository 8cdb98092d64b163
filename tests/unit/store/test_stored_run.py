"""A run read from disk alone: one that ended, died, or is under way, with whatever of it can be read."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import as_dict
from flashferry.model.record import DeviceRecord
from flashferry.model.states import Outcome, Restored, RunState, State
from flashferry.store.control import ControlRequest, control_request, may_approve
from flashferry.store.journal import Journal
from flashferry.store.reader import chosen, find_run
from flashferry.store.stored_run import read_run
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED


def test_a_run_under_way_is_told(journal, enter, touch, kept):
    """All that was written so far is there, while the run lives and holds a device."""
    run_id = journal.begin_run("stage", {"images": ["x.bin"]})
    enter(journal, run_id, "r1", "r2", site="branch", wave=1, image="x.bin")
    touch(journal, run_id, "r1")
    journal.add_transfer(run_id, "r1", kept())
    run = read_run(journal.directory, "latest")
    assert (run.run_id, run.verb, run.state, run.request) == (run_id, "stage", RunState.ALIVE, {"images": ["x.bin"]})
    first, second = run.devices
    assert (first.site, first.wave, first.image, first.is_held, first.identity) == ("branch", 1, "x.bin", True, "SN/r1")
    assert (first.record, first.transfers[0].target, second.transfers) == ({}, "flash:x.bin", ())


def test_a_transfer_comes_back_with_its_samples(journal, enter, kept, transfer):
    """What was compressed is what was kept; the columns beside it say the same."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    journal.add_transfer(run_id, "r1", kept())
    ((one,),) = (device.transfers for device in read_run(journal.directory, run_id).devices)
    assert (one.kind, one.tuned, one.image, one.at) == ("stage", True, "x.bin", "2026-05-28T20:26:40.000+00:00")
    assert one.record["samples"] == [as_dict(sample) for sample in transfer.samples]
    assert one.record["verdict"]["kind"] == "bandwidth"


def test_a_record_is_written_without_the_samples_and_read_with_them(journal, enter, kept, transfer):
    """They are kept once; whoever reads the record finds them where they were."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    record = DeviceRecord(host="r1", state=State.DONE, outcome=Outcome.DONE, transfer=transfer, seconds_by_step={})
    journal.record(run_id, "r1", record)
    (before,) = journal._db.execute("SELECT record FROM devices").fetchone()
    assert "snd_cwnd_segments" in before
    journal.add_transfer(run_id, "r1", kept())
    journal.record(run_id, "r1", record)
    (after,) = journal._db.execute("SELECT record FROM devices").fetchone()
    assert "snd_cwnd_segments" not in after
    (device,) = read_run(journal.directory, run_id).devices
    assert len(device.record["transfer"]["samples"]) == 3


def test_a_run_can_be_read_without_its_transfers(journal, enter, kept):
    """Who asks how a run stands needs no samples."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    journal.add_transfer(run_id, "r1", kept())
    assert read_run(journal.directory, run_id, with_transfers=False).devices[0].transfers == ()


def test_the_same_transfer_again_replaces_what_was_kept(journal, enter, kept):
    """A broken copy's account may grow; a second try of its ticket is another one."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    journal.add_transfer(run_id, "r1", kept(outcome="reset", bytes_acked=1))
    journal.add_transfer(run_id, "r1", kept(outcome="reset", bytes_acked=2))
    journal.add_transfer(run_id, "r1", kept(started_at=1_780_000_100.0))
    (device,) = read_run(journal.directory, run_id).devices
    assert [one.record["bytes_acked"] for one in device.transfers] == [2, 20_000_000]


def test_transfers_of_a_speed_test_stand_in_their_order(journal, enter, kept):
    """As it is first, then tuned, whatever order they were written in."""
    run_id = journal.begin_run("probe")
    enter(journal, run_id, "r1")
    tuned = kept(PROBE_TUNED, target="null:", ticket_id="t2", started_at=1_780_000_100.0)
    for one in (tuned, kept(PROBE_AS_IS, tuned=False, target="null:")):
        journal.add_transfer(run_id, "r1", one)
    (device,) = read_run(journal.directory, run_id).devices
    assert [(one.kind, one.tuned) for one in device.transfers] == [(PROBE_AS_IS, False), (PROBE_TUNED, True)]


def test_attempts_stand_beside_the_present_one(journal, enter):
    """With their records, the first one first."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    for number in (1, 2):
        journal.record(run_id, "r1", {"number": number})
        journal.again(run_id, "r1")
    (device,) = read_run(journal.directory, run_id).devices
    assert (device.attempt, device.record, device.attempts) == (3, {}, ({"number": 1}, {"number": 2}))


def test_what_is_damaged_is_told_and_hides_nothing(journal, enter, kept):
    """A record, an attempt and a transfer that cannot be read are named; all others are there."""
    run_id = journal.begin_run("stage", {"a": 1})
    enter(journal, run_id, "r1", "r2")
    for host in ("r1", "r2"):
        journal.record(run_id, host, {"outcome": "failed"})
        journal.again(run_id, host)
        journal.record(run_id, host, {"outcome": "done"})
        journal.add_transfer(run_id, host, kept())
    for damage in (
        "UPDATE devices SET record = '[1' WHERE host = 'r2'",
        "UPDATE attempts SET record = 'x' WHERE host = 'r2'",
        "UPDATE transfers SET record = x'00' WHERE host = 'r2'",
        "UPDATE runs SET request = '{'",
    ):
        journal._write(damage, ())
    run = read_run(journal.directory, run_id)
    good, bad = run.devices
    assert (good.record, good.attempts, len(good.transfers)) == ({"outcome": "done"}, ({"outcome": "failed"},), 1)
    assert (bad.record, bad.attempts, bad.transfers) == ({}, ({},), ())
    assert len(run.damaged) == 4
    assert sum("r2" in text for text in run.damaged) == 3


def test_a_dead_run_is_told_as_dead(tmp_path, enter):
    """Its lock is free and it has not ended."""
    with Journal(tmp_path) as journal:
        enter(journal, journal.begin_run("stage"), "r1")
    assert read_run(tmp_path, "latest").state is RunState.DIED


def test_recovery_stands_in_the_record(journal, enter, touch):
    """What recovery found is beside what the run itself had told."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    touch(journal, run_id, "r1")
    journal.recovered(run_id, "r1", {"restored": Restored.RESTORED})
    (device,) = read_run(journal.directory, run_id).devices
    assert (device.record, device.is_held, device.state) == ({"recovery": {"restored": "restored"}}, False, "restored")


KNOWN = ("20261120-101500-aaaa", "20261121-101500-bbbb", "20261121-101500-cccc")


@pytest.mark.parametrize(
    ("given", "run_id"),
    [("latest", KNOWN[2]), (KNOWN[0], KNOWN[0]), ("20261120", KNOWN[0]), ("bbbb", KNOWN[1]), ("c", KNOWN[2])],
)
def test_a_run_may_be_given_short(given, run_id):
    """By its beginning or its end, where that is unique."""
    assert chosen(given, KNOWN) == run_id


@pytest.mark.parametrize(
    ("given", "known", "words"),
    [
        ("20261121", KNOWN, r"could be 2 runs: 20261121-101500-bbbb, 20261121-101500-cccc"),
        ("zzzz", KNOWN, r"unknown run 'zzzz': the newest is 20261121-101500-cccc.*flashferry run list"),
        ("", KNOWN, "unknown run ''"),
        ("latest", (), "the journal has no run yet"),
    ],
)
def test_a_run_that_is_not_one_is_told(given, known, words):
    """Which it could be, or which there is."""
    with pytest.raises(ConfigInvalid, match=words):
        chosen(given, known)


def test_the_latest_of_a_verb(journal):
    """A speed test that came later is passed over where only staging counts."""
    staged = journal.begin_run("stage")
    probed = journal.begin_run("probe")
    journal._write("UPDATE runs SET started_at = '2027' WHERE run_id = ?", (probed,))
    assert find_run(journal.directory, "latest") == probed
    assert find_run(journal.directory, "latest", verb="stage") == staged


def test_asking_for_a_run_makes_no_journal(tmp_path):
    """Neither the file nor the folder."""
    with pytest.raises(ConfigInvalid, match="no run yet"):
        read_run(tmp_path / "nowhere", "latest")
    assert not (tmp_path / "nowhere").exists()


def in_waves(journal, enter):
    run_id = journal.begin_run("stage")
    for wave in range(3):
        enter(journal, run_id, f"r{wave}", wave=wave)
    return run_id


def test_an_approval_means_the_wave_that_waits(journal, enter):
    """Where the run says which one waits, that; where it does not, the next that has not begun."""
    run_id = in_waves(journal, enter)
    run = read_run(journal.directory, run_id)
    assert may_approve(run, ControlRequest(), None) == 0
    assert may_approve(run, ControlRequest(approved_wave=0), None) == 1
    journal.move(run_id, "r1", State.CHECKED)
    assert may_approve(read_run(journal.directory, run_id), ControlRequest(), None) == 2
    journal.set_waiting_wave(run_id, 1)
    assert may_approve(run, control_request(journal.directory, run_id), None) == 1
    assert may_approve(run, ControlRequest(), 2) == 2


def test_a_wave_that_is_not_there_cannot_be_approved(journal, enter):
    """Which there are is told; so is that none is left."""
    run = read_run(journal.directory, in_waves(journal, enter))
    with pytest.raises(ConfigInvalid, match="no wave 7: it has waves 0 to 2"):
        may_approve(run, ControlRequest(), 7)
    with pytest.raises(ConfigInvalid, match="no wave is left to approve"):
        may_approve(run, ControlRequest(approved_wave=2), None)

"""Going on with a run: what is proven is left alone, what is not begins anew, and nothing is guessed."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import Image
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.limits import Limits, RetryPolicy
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.model.record import DeviceRecord, Failure, TransportTried
from flashferry.model.states import Outcome, Restored, State
from flashferry.model.waves import Wave, WavePolicy
from flashferry.run.recover import RecoveryRecord
from flashferry.run.request import SCHEMA, FleetRequest, RunOptions, from_stored, to_stored
from flashferry.run.resume import is_done, kept_request, resumed
from flashferry.store.journal import NewDevice
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from tests.some import some
from tests.unit.conftest import take


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"an image")
    return path


def offered(path):
    content = path.read_bytes()
    return Image(
        name=path.name,
        size_bytes=len(content),
        md5=hashlib.md5(content, usedforsecurity=False).hexdigest(),
        sha512=hashlib.sha512(content).hexdigest(),
    )


def stored(request, options=None):
    images = {host: offered(path) for host, path in request.images.items()}
    return to_stored(request, options or RunOptions(), images)


def request(image, *hosts, **values):
    return FleetRequest(images=dict.fromkeys(hosts, image), **values)


def test_a_request_comes_back_as_it_was(image):
    """All that decides about a run is kept: images, waves, limits, who is not tuned, the end, the options."""
    given = request(
        image,
        "r1",
        "r2",
        waves=(
            Wave(number=0, name="canary", hosts=("r1",), is_canary=True),
            Wave(number=1, name="site a", hosts=("r2",)),
        ),
        untuned={"r2": "its flash is slow"},
        expected_s={"r1": 60.0},
        identities={"r1": "SN/r1"},
        transports={"r1": "scp"},
        stored={"inventory": "/inv"},
    )
    options = RunOptions(
        policy=StagePolicy(
            limits=Limits(copies=7),
            policy=WavePolicy(max_failures=0.25, approve=True),
            retry=RetryPolicy(times=1),
            until=datetime(2026, 3, 1, 5, tzinfo=UTC),
            extras=("timestamps",),
            remove_partial=True,
            transport="auto",
            dead_man=False,
        ),
        server=ServerPlace(
            passive_ports=(2000, 2100),
            other_ports={"ssh": 2200},
            certificate=Path("/etc/ours.pem"),
            key=Path("/etc/ours.key"),
        ),
    )
    kept = from_stored("run", stored(given, options))
    assert kept.request == given
    assert (kept.policy, kept.server) == (options.policy, options.server)
    assert kept.more == {"inventory": "/inv"}


@pytest.mark.parametrize("kept", [{}, {"schema": "flashferry.request/9"}, {"schema": SCHEMA}])
def test_what_cannot_be_read_is_told(kept):
    """A run of an earlier release kept nothing: the sentence says what to do instead."""
    with pytest.raises(ConfigInvalid, match=r"run r: .*|run r cannot be resumed") as told:
        from_stored("r", kept)
    assert "recover" in told.value.hint


@pytest.fixture
def dead_run(journal, enter, image):
    """Return a run of three devices of which r1 is done, r2 failed, and r3 was never begun; its process is gone."""
    run_id = journal.begin_run("stage", stored(request(image, "r1", "r2", "r3")))
    enter(journal, run_id, "r1", "r2", "r3")
    for host, outcome in (("r1", Outcome.DONE), ("r2", Outcome.FAILED)):
        record = DeviceRecord(
            host=host,
            outcome=outcome,
            restored=Restored.RESTORED,
            partial_file="flash:x.bin, 3 bytes" if host == "r2" else None,
            seconds_by_step={},
        )
        take(journal, run_id, host, host)
        journal.release(run_id, host, record)
    journal.finish_run(run_id)
    return run_id


def test_what_is_done_is_left_alone(journal, dead_run):
    """Done: only reported. Failed: its second attempt, with what it left on flash. Not begun: its first."""
    going_on = resumed(journal, dead_run, kept_request(journal, dead_run)).request
    assert set(going_on.images) == {"r2", "r3"}
    assert {host: record["outcome"] for host, record in going_on.resumed.done.items()} == {"r1": "done"}
    assert going_on.resumed.before["r1"].outcome is Outcome.DONE
    assert going_on.resumed.attempts["r2"] == 2
    assert going_on.resumed.attempts["r3"] == 1
    assert going_on.resumed.leftovers == {"r2": "flash:x.bin, 3 bytes"}
    assert journal.is_alive(dead_run)


@pytest.mark.parametrize(
    ("outcome", "restored", "is_held", "done"),
    [
        ("done", "restored", False, True),
        ("done", "untouched", False, True),
        ("already there", "untouched", False, True),
        ("done", "restored but for somebody else's change", False, True),
        ("done", "incomplete", False, False),
        ("done", "restored", True, False),
        ("refused", "untouched", False, False),
        ("failed", "restored", False, False),
        ("interrupted", "restored", False, False),
        (None, None, False, False),
    ],
)
def test_who_is_done_and_who_is_not(journal, enter, outcome, restored, is_held, done):
    """Done by image and configuration both; refused and unreached devices are asked again, held ones never done."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    if is_held:
        take(journal, run_id, "r1", "r1")
    if outcome is not None:
        journal.record(run_id, "r1", {"outcome": outcome, "restored": restored})
    (device,) = read_run(journal.directory, run_id).devices
    assert is_done(device) is done


def test_a_damaged_record_is_not_done(journal, dead_run):
    """It is found out on the device, which costs a hash at most."""
    journal._write("UPDATE devices SET record = '{' WHERE host = 'r1'", ())
    assert not any(is_done(device) for device in some(read_run(journal.directory, dead_run).devices))


def test_somebody_elses_change_stays_in_the_report_and_no_second_try_is_made(journal, dead_run):
    """The image is proven and our lines are gone: nothing is left to do, but the exit code tells of the change."""
    changed = {"outcome": "done", "restored": Restored.FOREIGN_CHANGE.value}
    journal.record(dead_run, "r1", changed)
    going_on = resumed(journal, dead_run, kept_request(journal, dead_run)).request
    assert set(going_on.images) == {"r2", "r3"}
    before = going_on.resumed.before["r1"]
    assert (before.outcome, before.restored) == (Outcome.DONE, Restored.FOREIGN_CHANGE)
    assert exit_code([before.outcome], restored=[before.restored]) is ExitCode.RESTORE_INCOMPLETE


def test_a_device_that_could_not_be_restored_takes_no_part(journal, enter, image):
    """It is still in the dead run's hands: nothing is copied to it, and the report says why."""
    run_id = journal.begin_run("stage", stored(request(image, "r1", "r2")))
    enter(journal, run_id, "r1", "r2")
    take(journal, run_id, "r1", "r1")
    journal.finish_run(run_id)
    failure = Failure(step="connect", reason="no SSH session", hint=None, kind="DeviceUnreachable")
    recovered = RecoveryRecord(
        host="r1", run_id=run_id, restored=Restored.INCOMPLETE, restore=None, failure=failure, partial_file=None
    )
    going_on = resumed(journal, run_id, kept_request(journal, run_id), (recovered,)).request
    assert set(going_on.images) == {"r2"}
    record = going_on.resumed.before["r1"]
    assert (record.restored, record.restore_failure) == (Restored.INCOMPLETE, failure)


def test_an_image_that_changed_is_refused(journal, dead_run, image):
    """Both digests are named, and the run stays as it was."""
    image.write_bytes(b"AN IMAGE")
    with pytest.raises(ConfigInvalid, match=r"has changed since the run began: expected MD5 .* found "):
        kept_request(journal, dead_run)
    assert not journal.is_alive(dead_run)


def test_an_image_that_is_gone_is_told(journal, dead_run, image):
    """A sentence with the path."""
    image.unlink()
    with pytest.raises(ConfigInvalid, match=str(image)):
        kept_request(journal, dead_run)


def test_a_run_that_is_alive_is_not_gone_on_with(journal, image):
    """Two processes must not have the same run."""
    run_id = journal.begin_run("stage", stored(request(image, "r1")))
    with pytest.raises(ConfigInvalid, match="is alive"):
        kept_request(journal, run_id)


def test_what_a_copy_left_is_known_however_often_the_run_is_killed(journal, dead_run):
    """Killed again before r2 had its turn, and then before its check: the file is still this run's."""
    for state in (State.PLANNED, State.CHECKED):
        resumed(journal, dead_run, kept_request(journal, dead_run))
        if state is not State.PLANNED:
            journal.move(dead_run, "r2", state)
        journal.finish_run(dead_run)
    going_on = resumed(journal, dead_run, kept_request(journal, dead_run)).request
    assert going_on.resumed.leftovers == {"r2": "flash:x.bin, 3 bytes"}


def test_a_later_copy_decides_what_is_left(journal, dead_run):
    """An attempt that removed the file, and copied again, left what it says itself: nothing."""
    resumed(journal, dead_run, kept_request(journal, dead_run))
    record = DeviceRecord(host="r2", outcome=Outcome.FAILED, seconds_by_step={})
    journal.record(dead_run, "r2", {"outcome": "failed", "transfer": {"ticket_id": "t"}, "host": record.host})
    journal.move(dead_run, "r2", State.FAILED)
    journal.finish_run(dead_run)
    assert resumed(journal, dead_run, kept_request(journal, dead_run)).request.resumed.leftovers == {}


def test_a_device_that_moved_is_recovered_where_it_was_touched(journal, dead_run):
    """The inventory has another address now: the journal takes it, but not for a device that is in a run's hands."""
    moved = [NewDevice(host=host, address="198.51.100.7", port=2222, platform="ios") for host in ("r2", "r3")]
    take(journal, dead_run, "r3", "r3")
    journal.update_devices(dead_run, moved)
    take(journal, dead_run, "r2", "r2")
    found = {device.host: (device.address, device.port) for device in journal.leased_devices()}
    assert found == {"r2": ("198.51.100.7", 2222), "r3": ("192.0.2.2", 22)}


@pytest.mark.parametrize(
    ("record", "begins_with"),
    [
        ({"transport": "http", "transports_tried": [{"transport": "ftp"}]}, "http"),
        ({"transport": "scp", "transfer": {"bytes_acked": 5}}, "scp"),
        ({"transport": "ftp"}, "https"),
        ({}, "https"),
    ],
    ids=["fallen", "copied", "never began", "of an earlier release"],
)
def test_a_device_goes_on_by_what_its_last_copy_went(journal, enter, image, record, begins_with):
    """Where nothing was tried yet, by what was planned or measured."""
    run_id = journal.begin_run("stage", stored(request(image, "r1", transports={"r1": "https"})))
    enter(journal, run_id, "r1")
    take(journal, run_id, "r1", "r1")
    journal.release(run_id, "r1", {"outcome": "failed", "restored": "restored"} | record)
    journal.finish_run(run_id)
    assert resumed(journal, run_id, kept_request(journal, run_id)).request.transports == {"r1": begins_with}


def test_a_run_that_died_behind_a_fall_goes_on_by_what_it_fell_to(journal, enter, image):
    """Also where recovery came in between, and whatever was planned at first; a live run's state stays its own."""
    run_id = journal.begin_run("stage", stored(request(image, "r1", "r2", transports={"r1": "ftp", "r2": "ftp"})))
    enter(journal, run_id, "r1", "r2")
    take(journal, run_id, "r1", "r1")
    tried = TransportTried(transport="ftp", reason="nobody came", hint=None, kind="TransferStalled")
    journal.record(run_id, "r1", {"transport": "http", "transports_tried": (tried,)})
    (alive, _) = read_status(journal.directory).runs[0].devices
    assert (alive.outcome, alive.state, alive.transport) == (None, "journaled", "http")
    journal.recovered(run_id, "r1", {"restored": Restored.RESTORED})
    journal.finish_run(run_id)
    going_on = resumed(journal, run_id, kept_request(journal, run_id)).request
    assert going_on.transports == {"r1": "http", "r2": "ftp"}
    assert set(going_on.images) == {"r1", "r2"}

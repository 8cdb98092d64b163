"""What follows the restore: only on a device that has the image and is as it was, and never at its record's cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import CopyFailed, DeviceUnreachable
from flashferry.model.doubts import Remembered
from flashferry.model.record import failure_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.reports.facts import record_facts
from flashferry.run.device import check as device_check
from flashferry.run.device import finish as device_finish
from tasks.add import AddOutcome, AddReport
from tasks.distribute import DistributionReport, MemberCopy
from tasks.readiness.values import Asked, Condition, Met, Readiness, Verdict
from tasks.verify import VerifyReport
from tests.unit.run.device.scripted import Steps, checked, context

MEMBER = MemberCopy(place="2", path="flash-2:x.bin", digest="b" * 32)
OWN = VerifyReport(path="flash:x.bin", md5="a" * 32, duration_s=1.0, digest="a" * 32)


def readiness(verdict=Verdict.YES, *conditions):
    return Readiness(
        verdict=verdict, image="x.bin", version=None, running="17.3.1", mode="bundle", conditions=conditions
    )


class Staged:
    """A device after its restore: what its steps were given, and what they end with."""

    def __init__(self, monkeypatch, *, members=True, outcome=Outcome.DONE, interrupted=lambda: False, **options):
        self.given: dict[str, dict[str, object]] = {}
        self.ends: dict[str, object] = {
            "distribute": DistributionReport(mode="bundle", copies=(MEMBER,)),
            "add": AddReport(outcome=AddOutcome.ADDED, version="17.12.01"),
            "ready": readiness(),
        }
        self.members, self.events = members, []
        steps = Steps(**{word: self._step(word) for word in self.ends})
        given = replace(context(**options), interrupted=interrupted, emit=self.events.append)
        self.run = checked(steps, given)
        facts = SimpleNamespace(
            rtt_s=0.1,
            file_system="flash:",
            proof=None,
            version=SimpleNamespace(members=(SimpleNamespace(number=1),)),
            facts=SimpleNamespace(serial_number="9X", hostname="r1"),
        )
        self.run.update(outcome=outcome, state=State.DONE, check=facts, verify=OWN, restored=Restored.RESTORED)
        monkeypatch.setattr(device_finish, "has_members", self._has_members)

    def _step(self, word):
        def run(task, **given):
            self.given[word] = given
            end = self.ends[word]
            if isinstance(end, Exception):
                raise end
            return end

        return run

    def _has_members(self, session, path):
        if isinstance(self.members, Exception):
            raise self.members
        return self.members

    def finish(self):
        """Do what follows; return the device's record."""
        device_finish.finish(self.run)
        return self.run.record

    @property
    def done(self):
        return self.run.task.done


@pytest.fixture
def staged(monkeypatch):
    """Return what makes a staged device."""
    return lambda **more: Staged(monkeypatch, **more)


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.ALREADY_THERE])
def test_a_device_that_is_not_as_it_was_is_left_alone(staged, outcome):
    """The image is there and proven, and lines of ours are too, or may come back: nothing is handed on or added."""
    one = staged(outcome=outcome, add=True, ready=True)
    one.run.update(restore_failure=failure_of("restore", DeviceUnreachable("down")))
    one.finish()
    assert one.done == []


@pytest.mark.parametrize(
    ("outcome", "options"),
    [
        (Outcome.FAILED, {}),
        (Outcome.REFUSED, {}),
        (Outcome.INTERRUPTED, {}),
        (Outcome.DONE, {"to_null": True}),
    ],
)
def test_who_has_no_image_has_nothing_to_hand_on(staged, outcome, options):
    """A failed, refused or stopped device, and a speed test."""
    one = staged(outcome=outcome, add=True, ready=True, **options)
    one.finish()
    assert one.done == []


def test_a_failure_is_no_image_whatever_the_outcome(staged):
    """The first failure stays what it was; nothing is done on top of it."""
    one = staged(add=True, ready=True)
    one.run.update(failure=failure_of("verify", CopyFailed("other")))
    assert one.finish().failure.reason == "other"
    assert one.done == []


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.ALREADY_THERE])
def test_the_image_is_handed_on_then_added_then_looked_at(staged, outcome):
    """In that order, each with the path on the device, and each kept in the record."""
    one = staged(outcome=outcome, add=True, remove_partial=True)
    record = one.finish()
    assert one.done == ["distribute", "add", "ready"]
    assert (one.given["distribute"]["path"], one.given["add"]["path"]) == ("flash:x.bin", "flash:x.bin")
    assert one.given["distribute"]["remove_partial"] is True
    assert one.given["distribute"]["image"] == one.run.context.image.of_record()
    assert one.given["add"]["size_bytes"] == one.run.context.image.size_bytes
    assert (record.distribution, record.added, record.readiness) == tuple(one.ends.values())
    assert record.notes == ()
    assert [str(one) for one in record_facts(record)][:2] == [
        "other members: each copy proven there: flash-2:x.bin",
        "install add: added: 17.12.01",
    ]


@pytest.mark.parametrize(
    ("options", "done"),
    [({}, ["distribute"]), ({"ready": True}, ["distribute", "ready"]), ({"add": True}, ["distribute", "add", "ready"])],
)
def test_nothing_is_added_or_looked_at_that_was_not_asked_for(staged, options, done):
    """Handing on is part of staging; an add changes the device, so it is asked for, and is looked at afterwards."""
    one = staged(**options)
    one.finish()
    assert one.done == done


def test_a_device_that_is_alone_hands_nothing_on(staged):
    """Neither a step nor a note."""
    one = staged(members=False)
    record = one.finish()
    assert (one.done, record.distribution, record.notes) == ([], None, ())


@pytest.mark.parametrize("report", [None, DistributionReport(mode="install")])
def test_no_copy_is_named_where_the_device_made_none(staged, report):
    """It looked as if it had members, or hands on by itself when it is added."""
    one = staged()
    one.ends["distribute"] = report
    record = one.finish()
    assert (record.distribution, record.notes) == (report, ())


def test_a_look_for_members_that_fails_takes_nothing_from_what_was_done(staged):
    """It is noted, and the add that was asked for follows."""
    one = staged(members=DeviceUnreachable("reset"), add=True)
    record = one.finish()
    assert one.done == ["add", "ready"]
    assert (record.outcome, record.failure) == (Outcome.DONE, None)
    assert record.notes[0] == "whether other members lack the image could not be checked: reset"


@pytest.mark.parametrize("word", ["distribute", "add"])
def test_a_step_that_fails_is_the_device_s_failure_and_it_stays_restored(staged, word):
    """What would follow is not done, not even the look: there is no image to be ready for."""
    one = staged(add=True, ready=True)
    one.ends[word] = CopyFailed("no room")
    record = one.finish()
    assert one.done == ["distribute", "add"][: 1 if word == "distribute" else 2]
    assert (record.outcome, record.failure.reason, record.state) == (Outcome.FAILED, "no room", State.FAILED)
    assert record.restored is Restored.RESTORED


def test_a_look_that_fails_costs_a_note_alone(staged):
    """The image is there and the device restored, whatever comes of the look."""
    one = staged(ready=True)
    one.ends["ready"] = DeviceUnreachable("reset")
    record = one.finish()
    assert (record.outcome, record.failure, record.readiness) == (Outcome.DONE, None, None)
    assert record.notes[-1] == "whether it is ready to boot the image could not be checked: reset"


def test_a_run_that_is_to_stop_does_not_look(staged):
    """The stop comes while the image is handed on."""
    stopped = []
    one = staged(ready=True, interrupted=lambda: bool(stopped))
    one.members = False
    assert one.finish().readiness is not None
    stopped.append(True)
    one.run.task.done.clear()
    one.finish()
    assert one.done == []


def test_a_logged_out_device_is_logged_in_again(staged):
    """Before its members are looked for."""
    one = staged()
    one.run.is_logged_out = True
    one.finish()
    assert not one.run.is_logged_out


def test_the_look_is_given_what_the_run_proved(staged):
    """Own file and the members' copies by path, so that none is hashed twice."""
    one = staged(ready=True, verify_signature=True)
    one.finish()
    given = one.given["ready"]
    assert given["proven"] == {"flash:x.bin": "a" * 32, "flash-2:x.bin": "b" * 32}
    assert (given["signature"], given["expected_members"]) == (True, (1,))


@pytest.mark.parametrize("then", [{"host": "r1"}, {"host": "r7", "identity": "9X/r1"}])
def test_an_add_that_failed_in_an_earlier_run_is_known_to_the_next_one(staged, monkeypatch, then):
    """To its own add, and to a look alone, also where the device has another name in the inventory by now."""
    known = {"x.bin": (Remembered(run_id="RUN1", failed_add=True, **then),)}
    monkeypatch.setattr(device_check, "doubts", lambda directory, *names: known)
    one = staged(add=True)
    one.finish()
    assert "failed in run RUN1" in one.given["add"]["failed_before"]
    assert one.given["ready"]["failed_add"] is None
    alone = staged(ready=True)
    alone.finish()
    assert "failed in run RUN1" in alone.given["ready"]["failed_add"]


def test_what_the_check_proved_counts_where_nothing_was_copied(staged):
    """An image that was there already was hashed by the check."""
    one = staged(members=False, ready=True, outcome=Outcome.ALREADY_THERE)
    record = one.run.record
    one.run.update(verify=None, check=SimpleNamespace(**{**vars(record.check), "proof": OWN}))
    one.finish()
    assert one.given["ready"]["proven"] == {"flash:x.bin": "a" * 32}
    one.run.update(check=SimpleNamespace(**{**vars(record.check), "proof": None}))
    one.finish()
    assert one.given["ready"]["proven"] == {}


def condition(met, sentence):
    return Condition(name=next(iter(Asked)), met=met, sentence=sentence, command="show boot")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (readiness(Verdict.YES), "ready to boot the image"),
        (readiness(Verdict.RUNS_IT), "it runs the image already"),
        (
            readiness(
                Verdict.NO, condition(Met.UNKNOWN, "b"), condition(Met.NOT_MET, "a"), condition(Met.NOT_MET, "a")
            ),
            f"ready to boot the image: no; {next(iter(Asked))}: a; {next(iter(Asked))}: b",
        ),
    ],
)
def test_the_event_names_what_keeps_it_from_booting(staged, found, words):
    """Each reason once, those that are known first."""
    one = staged(ready=True)
    one.ends["ready"] = found
    one.finish()
    assert [event.text for event in one.events if (event.step, event.status) == ("ready", "note")] == [words]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (AddReport(outcome=AddOutcome.ADDED, version="17.12.01"), "added: 17.12.01"),
        (AddReport(outcome=AddOutcome.NOT_APPLICABLE), "not added: it boots from image files, not from packages"),
    ],
)
def test_an_add_is_reported_as_what_it_was(staged, report, words):
    """A device that boots from image files has nothing to add to."""
    one = staged(add=True)
    one.ends["add"] = report
    one.finish()
    assert [event.text for event in one.events if (event.step, event.status) == ("add", "note")] == [words]

"""A device's way: in which order its parts are asked, and that it is given back whatever failed in between."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from flashferry.core.errors import kind_of
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable
from flashferry.fileserver import FileServerError
from flashferry.model.states import Outcome
from flashferry.run.device.workflow import DeviceRun, parts_of
from tests.unit.run.device.scripted import Steps, context


class Part:
    """Stands for a part: notes what it is asked, and raises what it is told to."""

    def __init__(self, name, done, **raising) -> None:
        self.name, self.done, self.raising = name, done, raising

    def __getattr__(self, asked):
        def answer(*given):
            self.done.append(f"{self.name}.{asked}")
            if asked in self.raising:
                raise self.raising[asked]

        return answer


def way(*, fails=None, deliver=None, outcome=Outcome.ERROR):
    """Return a device's run of which one part may fail at something, what was done, and its record."""
    done, real = [], parts_of(Steps(), context())
    names = ("login", "check", "slot", "tickets", "restore", "leftover", "delivery")
    parts = {name: Part(name, done, **(fails or {}).get(name, {})) for name in names}
    real.keeper.update(outcome=outcome)
    scripted = SimpleNamespace(
        run=lambda step, task: done.append(step.word) or SimpleNamespace(running=None),
    )
    real.keeper.update(check=SimpleNamespace(running=None))
    plan = SimpleNamespace(target="flash:x.bin")
    parts["planner"] = SimpleNamespace(plan=lambda before: plan)
    parts["fall"] = SimpleNamespace(first_plan=lambda lines: plan)
    run = DeviceRun(replace(real, steps=scripted, **parts), deliver or (lambda plan, before: done.append("deliver")))
    run._take_in_hand = lambda plan, before: done.append("journal")
    return run, done


BEFORE = ["login.connect", "check.ask_lease", "check.check", "slot.take", "check.recheck", "snapshot", "journal"]
AFTER = ["slot.free", "tickets.revoke", "login.end"]


def test_the_journal_is_before_anything_is_set_and_restoring_behind_everything():
    """A slot is free before the device is restored: the next copy does not wait for that."""
    run, done = way()
    run.execute()
    assert done == [*BEFORE, "deliver", "slot.free", "restore.restore", *AFTER]


@pytest.mark.parametrize("error", [DeviceUnreachable("lost"), ZeroDivisionError(), KeyboardInterrupt()])
def test_a_device_is_restored_whatever_was_raised(error):
    """And what its copy left is seen to."""

    def deliver(plan, before):
        raise error

    run, done = way(deliver=deliver)
    record = run.execute()
    assert done == [*BEFORE, "slot.free", "restore.restore", "leftover.clean_up", *AFTER]
    assert record.failure.kind == kind_of(error)


@pytest.mark.parametrize(("part", "asked"), [("check", "ask_lease"), ("check", "check"), ("slot", "take")])
def test_who_fails_before_the_journal_is_not_restored(part, asked):
    """Nothing was set; it is logged out, and its ticket, if any, is worthless."""
    run, done = way(fails={part: {asked: DeviceRefused("no")}})
    assert run.execute().failure.kind == "DeviceRefused"
    assert "restore.restore" not in done
    assert done[-2:] == ["tickets.revoke", "login.end"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.ALREADY_THERE])
def test_who_is_not_to_be_staged_waits_for_no_slot(outcome):
    """Refused, or done already: its check was all."""
    run, done = way(outcome=outcome)
    run.execute()
    assert done == [*BEFORE[:3], "tickets.revoke", "login.end"]


def test_a_server_that_is_gone_costs_no_logout():
    """It honours no ticket any more."""
    run, done = way(fails={"tickets": {"revoke": FileServerError("gone")}})
    run.execute()
    assert done[-1] == "login.end"


def test_a_delivered_image_is_looked_at_once_more():
    """Behind the restore: somebody may have taken it meanwhile."""
    run, done = way(outcome=Outcome.DONE)
    run.execute()
    assert done[-5:] == ["restore.restore", "delivery.final_check", *AFTER]


@pytest.mark.parametrize(("outcome", "is_told"), [(Outcome.ERROR, True), (Outcome.REFUSED, False)])
def test_a_helper_whose_image_is_gone_says_so(outcome, is_told):
    """It was staged in an earlier wave, and somebody has removed it since."""
    run, done = way(outcome=outcome)
    run.parts = replace(run.parts, context=replace(run.parts.context, is_helper=True))
    record = run.execute()
    assert any("is not there any more" in note for note in record.notes) is is_told
    assert "deliver" not in done

"""The workflow of a device's run: the order of its steps, and that it is restored whatever failed in between."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.errors import kind_of
from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable
from flashferry.fileserver import FileServerError
from flashferry.model.states import Outcome
from flashferry.run.device import workflow
from flashferry.run.device.device_run import DeviceRun
from tests.unit.run.device.scripted import Steps, context

STEPS = (
    "check_lease",
    "check",
    "take_copy_slot",
    "recheck",
    "free_copy_slot",
    "restore",
    "clean_up",
    "revoke_ticket",
    "final_check",
)
PLAN = SimpleNamespace(target="flash:x.bin", tune=SimpleNamespace(changes=()), ceilings=(), window=None)


class Workflow:
    """A device's run whose steps only note that they were taken, or raise what they are given."""

    def __init__(self, monkeypatch, *, fails=None, deliver=None, outcome=Outcome.ERROR, **more) -> None:
        self.done, self._fails = [], fails or {}
        self._deliver = deliver or self.step("deliver")
        self.run = DeviceRun(Steps(snapshot=lambda task: self.note("snapshot")), replace(context(), **more))
        self.run.update(outcome=outcome)
        facts = SimpleNamespace(serial_number="9X", hostname="r1")
        self.run.update(check=SimpleNamespace(running=None, file_system="flash:", facts=facts))
        self.run.session = lambda: SimpleNamespace(show_version=lambda: "")
        self.run.connect, self.run.end_session = self.step("connect"), self.step("end_session")
        self.run.context.journal.acquire_lease = self.step("journal")
        for name in STEPS:
            monkeypatch.setattr(workflow, name, self.step(name))
        monkeypatch.setattr(workflow, "first_plan", lambda run, lines: PLAN)
        monkeypatch.setattr(workflow, "plan_now", lambda run, lines: PLAN)

    def note(self, name):
        self.done.append(name)
        if name in self._fails:
            raise self._fails[name]
        return SimpleNamespace(running=None)

    def step(self, name):
        return lambda *given, **named: self.note(name)

    def carry_out(self):
        return workflow.carry_out(self.run, self._deliver)


@pytest.fixture
def flow(monkeypatch):
    """Return what makes a device's run."""
    return lambda **more: Workflow(monkeypatch, **more)


BEFORE = ["connect", "check_lease", "check", "take_copy_slot", "recheck", "snapshot", "journal"]
AFTER = ["free_copy_slot", "revoke_ticket", "end_session"]


def test_the_journal_is_before_anything_is_set_and_restoring_after_everything(flow):
    """A slot is free before the device is restored: the next copy does not wait for that."""
    one = flow()
    one.carry_out()
    assert one.done == [*BEFORE, "deliver", "free_copy_slot", "restore", *AFTER]


@pytest.mark.parametrize("error", [DeviceUnreachable("lost"), ZeroDivisionError(), KeyboardInterrupt()])
def test_a_device_is_restored_whatever_was_raised(flow, error):
    """And the file that its copy left is cleaned up."""

    def deliver(run, plan, before):
        raise error

    one = flow(deliver=deliver)
    record = one.carry_out()
    assert one.done == [*BEFORE, "free_copy_slot", "restore", "clean_up", *AFTER]
    assert record.failure.kind == kind_of(error)


@pytest.mark.parametrize("step", ["check_lease", "check", "take_copy_slot"])
def test_a_device_that_fails_before_the_journal_is_not_restored(flow, step):
    """Nothing was set; it is logged out, and its ticket, if any, is revoked."""
    one = flow(fails={step: DeviceRefused("no")})
    assert one.carry_out().failure.kind == "DeviceRefused"
    assert "restore" not in one.done
    assert one.done[-2:] == ["revoke_ticket", "end_session"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.ALREADY_THERE])
def test_a_device_that_is_not_to_be_staged_waits_for_no_slot(flow, outcome):
    """Refused, or done already: its check was all."""
    one = flow(outcome=outcome)
    one.carry_out()
    assert one.done == [*BEFORE[:3], "revoke_ticket", "end_session"]


def test_a_server_that_is_gone_costs_no_logout(flow):
    """It honours no ticket any more."""
    one = flow(fails={"revoke_ticket": FileServerError("gone")})
    one.carry_out()
    assert one.done[-1] == "end_session"


def test_a_delivered_image_is_checked_once_more(flow):
    """After the restore: it may have been removed meanwhile."""
    one = flow(deliver=lambda run, plan, before: run.update(outcome=Outcome.DONE))
    one.carry_out()
    assert one.done[-5:] == ["restore", "final_check", *AFTER]


@pytest.mark.parametrize(("outcome", "is_noted"), [(Outcome.ERROR, True), (Outcome.REFUSED, False)])
def test_a_helper_whose_image_is_gone_has_a_note(flow, outcome, is_noted):
    """It was staged in an earlier wave, and its image was removed since."""
    one = flow(outcome=outcome, is_helper=True)
    record = one.carry_out()
    assert any("is not there any more" in note for note in record.notes) is is_noted
    assert "deliver" not in one.done

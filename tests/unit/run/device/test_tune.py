"""A device's lines at each of its copies: what is in force, what is on disk, and what is set again."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceOverloaded, DeviceRefused, DeviceUnreachable
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.model.lost_copy_rules import Decision
from flashferry.model.states import Restored
from flashferry.run.device.copy import copy
from flashferry.run.device.tune import apply_other_plan, step_down, tune
from flashferry.run.probe import SpeedTest, SpeedTestOptions
from flashferry.transports import USUAL
from tasks.dead_man import DeadManReport
from tasks.tcp_config import plan_tune, tcp_lines
from tasks.tune import apply_plan, reapply, without_scaling
from tests.unit.run.device.scripted import Router, Steps, checked, context, order

PATH = "ip ftp source-interface Loopback0"
SNAPSHOT = SimpleNamespace(startup=None, archives=())
WINDOW = "ip tcp window-size 2500000"
SACK = "ip tcp selective-ack"


def tuning(router):
    """Return the scripts of the steps that set lines, on this router."""

    def tune(task, **given):
        if task.__name__ == "tune":
            return apply_plan(router, given["plan"], before=given["before"], remember=given["remember"])
        if task.__name__ == "switch_transport_config":
            return apply_other_plan(router, **given)
        if task.__name__ == "set_again":
            return reapply(router, given["changes"])
        return without_scaling(router, given["changes"], remember=given["remember"])

    return tune


class FirstCopyFails:
    """Notes the router's lines and the journal's at each copy; the first one ends with an error."""

    def __init__(self, router, error) -> None:
        self.router, self.error, self.seen = router, error, []
        self.before = lambda: None

    def __call__(self, task, **given):
        self.before()
        self.seen.append(set(self.router.lines.values()))
        if len(self.seen) == 1:
            raise self.error
        return SimpleNamespace(device=SimpleNamespace(duration_s=1.0), wall_s=1.0)


def test_lines_that_were_never_sent_leave_a_device_untouched():
    """What they were to replace was changed a moment before: nothing of ours is there to be taken back."""

    def refuse(task, **given):
        given["remember"](())
        raise DeviceRefused("changed since the snapshot")

    run = checked(Steps(tune=refuse), context())
    run.update(restored=Restored.INCOMPLETE)
    plan = plan_tune(tcp_lines("", IOS_XE), platform=IOS_XE, transport=USUAL, window_bytes=2_500_000)
    with pytest.raises(DeviceRefused):
        tune(run, plan, SimpleNamespace())
    assert (run.record.restored, run.record.changes) == (Restored.UNTOUCHED, ())
    assert run.context.journal.changes == ()


def speed_test(error, found="copy again", **changes):
    """Return the run of a speed test of which the first copy, as it is, fails; its router, copies and plan."""
    router = Router()
    pull = FirstCopyFails(router, error)
    decision = SimpleNamespace(decision=Decision(found), reason="gone")
    steps = Steps(tune=tuning(router), pull=pull, reconcile=lambda task, lost: decision)
    plan = plan_tune(
        tcp_lines("", IOS_XE),
        platform=IOS_XE,
        transport=USUAL,
        window_bytes=2_500_000,
        source_interface="Loopback0",
        may_back_off=True,
    )
    return checked(steps, replace(context(to_null=True), **changes)), router, pull, plan


def run_arms(run, plan, probe=None):
    """Have each arm be one copy; return the journal's lines at each, as they are added."""
    on_disk, test = [], SpeedTest(run, probe or SpeedTestOptions(), files=SimpleNamespace())

    def arm(name, target, *, expected_bytes_per_s):
        on_disk.append(run.context.journal.changes)
        copy(run, order(run.context, target))
        return SimpleNamespace(steady_bytes_per_s=1.0, rtt_s=0.1, verdict=SimpleNamespace(kind=""))

    test.time_arm = arm
    test.forecast = lambda arm: 1.0
    test.decide = lambda *, has_tuning: None
    test.deliver(SimpleNamespace(tune=plan, target="null:"), SNAPSHOT)
    return on_disk


def test_a_lost_session_leaves_the_copy_as_it_is_untuned():
    """The arm "as it is" is repeated as it is: lines that were planned and not sent are none to set again."""
    run, _, pull, plan = speed_test(DeviceUnreachable("lost"))
    on_disk = run_arms(run, plan)
    assert pull.seen == [{PATH}, {PATH}, {PATH, WINDOW, SACK}]
    assert list(map(set, on_disk)) == [{PATH}, {WINDOW, SACK, PATH}]


def test_lines_of_an_arm_are_never_forgotten_for_what_comes_between_the_arms():
    """A colleague's window appears before the tuned arm: nothing more is typed, and the first arm's line is ours."""
    run, router, pull, plan = speed_test(DeviceUnreachable("lost"))

    def colleague():
        router.lines["window-size"] = "ip tcp window-size 8000"

    pull.before = colleague
    run.update(restored=Restored.INCOMPLETE)
    with pytest.raises(DeviceRefused, match="changed since the snapshot"):
        run_arms(run, plan)
    assert run.record.restored is Restored.INCOMPLETE
    assert run.context.journal.changes == (PATH,)
    assert set(router.lines.values()) == {PATH, "ip tcp window-size 8000"}


def test_an_overloaded_device_is_not_given_a_window_in_the_arm_as_it_is():
    """No window of ours is in force, so a smaller one cannot help: the failure is told, and nothing was tuned."""
    run, router, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    with pytest.raises(DeviceOverloaded):
        run_arms(run, plan)
    assert pull.seen == [{PATH}]
    assert set(router.lines.values()) == {PATH}
    assert run.context.journal.changes == (PATH,)


def test_what_is_in_force_is_on_disk_after_stepping_down():
    """The tuned arm fails with our window: the smaller one, and no other, is in force and on disk."""
    run, router, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    run_arms(run, plan, SpeedTestOptions(as_is=False))
    assert pull.seen == [{PATH, WINDOW, SACK}, {PATH, SACK, "ip tcp window-size 65535"}]
    assert set(run.context.journal.changes) == set(router.lines.values())


def test_a_device_that_fails_while_the_run_is_stopped_keeps_its_own_failure():
    """Nothing is repeated any more; that it failed with our window is what a reader must know."""
    stopped = []
    run, _, pull, plan = speed_test(DeviceOverloaded("I/O error"), interrupted=lambda: bool(stopped))
    pull.before = lambda: stopped.append(True)
    run.in_force = plan.changes
    with pytest.raises(DeviceOverloaded):
        copy(run, order(run.context, "null:"))


def test_an_applet_undoes_what_is_set_after_stepping_down():
    """The smaller window has another line: the device gets an applet for it, and the journal has every applet."""
    router, armed, on_disk = Router(), [], []

    def arm(task, *, change, undo, countdown_s, instead_of=None):
        on_disk.append(change.ours in run.context.journal.changes)
        armed.append((change, undo, instead_of))
        return DeadManReport(name=change.keyword, is_armed=True, countdown_s=countdown_s, undo=undo)

    run = checked(Steps(tune=tuning(router), **{"dead-man": arm}), context(dead_man=True))
    plan = plan_tune(
        tcp_lines("", IOS_XE),
        platform=IOS_XE,
        transport=USUAL,
        window_bytes=2_500_000,
        may_back_off=True,
    )
    tune(run, plan, SimpleNamespace())
    step_down(run)
    (first, undo, _), (second, smaller, instead_of) = armed
    assert on_disk == [True, True]
    assert (undo[0], smaller[0], instead_of) == (f"no {WINDOW}", "no ip tcp window-size 65535", first)
    assert second.ours in run.context.journal.changes
    assert first.ours not in run.context.journal.changes


@pytest.mark.parametrize(("is_typed", "restored"), [(False, Restored.UNTOUCHED), (True, Restored.INCOMPLETE)])
def test_a_device_that_was_sent_no_line_is_untouched(is_typed, restored):
    """It is not worth minutes of attempts to restore it; its journal has no line of ours any more."""

    def fail(task, plan, before, remember):
        if not is_typed:
            remember(())
        raise DeviceUnreachable("lost")

    run = checked(Steps(tune=fail), context())
    plan = plan_tune(tcp_lines("", IOS_XE), platform=IOS_XE, transport=USUAL, window_bytes=2_500_000)
    run.update(restored=Restored.INCOMPLETE, changes=plan.changes)
    with pytest.raises(DeviceUnreachable):
        tune(run, plan, SimpleNamespace())
    assert run.record.restored is restored
    assert bool(run.context.journal.changes) is is_typed

"""Our configuration lines on a device, and the dead-man applet that removes them: in the journal before they are sent.

`DeviceRun.in_force` has the lines that were sent, `DeviceRun.applets` the applets; the journal has both.
"""

from __future__ import annotations

from dataclasses import replace

from flashferry.model.states import Restored
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.switch_transport_config import switch_transport_config
from flashferry.transports import NEIGHBOUR
from tasks.applet import applet_line, new_name
from tasks.copy_watch import SLOWEST_BYTES_PER_S
from tasks.dead_man import DEAD_MAN, DeadManReport, countdown_s, dead_man, undo_lines
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TunePlan, marks_in
from tasks.tune import TUNE, TuneReport
from tasks.tune import set_again as set_again_task
from tasks.tune import step_down as step_down_task
from tasks.tune import tune as tune_task


def tune(run: DeviceRun, plan: TunePlan, before: Snapshot) -> None:
    """Set the plan's lines, or a smaller window where the device takes no other; the journal has them first.

    Lines of ours that are already in force, as those of a speed test's first copies, do not count as a change by
    others.
    """
    if run.in_force:
        switch_lines(run, plan, before)
        return
    arm_applet(run, (*plan.changes, *plan.channel))
    _set_in_force(run, plan.changes)
    run.context.guard.marks = marks_in(plan.changes)
    try:
        run.keep(
            TUNE,
            run.run_step(
                TUNE, tune_task, plan=plan, before=before, remember=lambda changes: _set_in_force(run, changes)
            ),
        )
    except BaseException:
        if not run.record.changes:
            # No line was sent: six attempts to restore the device would be too many.
            run.update(restored=Restored.UNTOUCHED)
        raise
    run.context.guard.marks = marks_in(run.in_force)
    arm_applet(run, run.in_force)
    _note_tuned(run)
    run.passed(TUNE)


def switch_lines(run: DeviceRun, plan: TunePlan, before: Snapshot, *, may_have_restarted: bool = False) -> None:
    """Set another transport's lines in place of those in force (`flashferry.run.device.switch_transport_config`).

    Args:
        run: The device's run.
        plan: What is to be in force.
        before: The device's configuration before anything was set.
        may_have_restarted: Whether the session was lost, so that an armed applet may be gone.
    """
    if not plan.changes and not run.in_force:
        return
    if plan.changes:
        run.update(restored=Restored.INCOMPLETE)
    run.context.guard.marks = marks_in((*run.in_force, *plan.changes))
    arm_applet(run, (*run.in_force, *plan.changes, *plan.channel), may_have_restarted=may_have_restarted)
    report = run.run_step(
        TUNE,
        switch_transport_config,
        held=run.in_force,
        plan=plan,
        remember=lambda changes: _set_in_force(run, changes),
        before=before,
    )
    run.keep(TUNE, report)
    arm_applet(run, run.in_force)
    _note_tuned(run)


def step_down(run: DeviceRun) -> None:
    """Set a window that needs no scaling, for a device that failed with a larger one."""
    report = run.run_step(
        TUNE, step_down_task, changes=run.in_force, remember=lambda changes: _set_in_force(run, changes)
    )
    run.keep(TUNE, report)
    arm_applet(run, run.in_force)


def set_again(run: DeviceRun) -> None:
    """Set our lines again where they are gone: a device that restarted has its old configuration."""
    if run.in_force:
        arm_applet(run, run.in_force, may_have_restarted=True)
        report = run.run_step(
            TUNE, set_again_task, changes=run.in_force, remember=lambda changes: _set_in_force(run, changes)
        )
        run.keep(TUNE, report)


def hold_lines(run: DeviceRun, changes: tuple[Change, ...]) -> None:
    """Add lines that another step is about to send to the applet and to the journal."""
    run.update(restored=Restored.INCOMPLETE)
    changes = (*run.in_force, *changes)
    run.context.guard.marks = marks_in(changes)
    arm_applet(run, changes)
    _set_in_force(run, changes)


def replace_lines(run: DeviceRun, changes: tuple[Change, ...], instead: tuple[Change, ...]) -> None:
    """Store lines as the device shows them in place of those planned; none where they are proven gone."""
    _set_in_force(run, (*(one for one in run.in_force if one not in changes), *instead))


def may_step_down(run: DeviceRun) -> bool:
    """Return whether a scaled window that we chose is in force, so that a smaller one may help."""
    plan = TunePlan(changes=run.in_force, may_back_off=run.context.policy.window_bytes is None)
    return plan.unscaled() is not None


def _set_in_force(run: DeviceRun, changes: tuple[Change, ...]) -> None:
    """Count lines as in force; they are in the journal when it returns."""
    run.in_force = changes
    _store(run)


def _store(run: DeviceRun) -> None:
    changes = (*run.applets, *run.in_force)
    run.context.journal.replan(run.context.run_id, run.record.host, changes)
    run.update(changes=changes)


def _note_tuned(run: DeviceRun) -> None:
    """Emit what differs from the lines that were sent."""
    report: TuneReport | None = run.record.tune
    assert report is not None
    notes = list(report.other_words)
    if not report.is_marked:
        notes.append("no mark could be left: another controller would not see that this run has the device")
    if report.channel_as_before and run.record.transport == NEIGHBOUR.name:
        notes.append("the device takes no larger blocks: a copy from a neighbour is slow in small ones")
    elif report.channel_as_before:
        notes.append(
            "the device takes no larger window for its SSH channel: the copy is no faster than the one that "
            f"it has ({'; '.join(report.refused)})"
        )
    for note in notes:
        run.note_event(TUNE.word, note)


def arm_applet(run: DeviceRun, changes: tuple[Change, ...], *, may_have_restarted: bool = False) -> None:
    """Arm a dead-man applet that undoes these lines, where one is asked for and the armed one does not undo them all.

    The journal has the applet before it is sent, and loses it once it is gone.

    Args:
        run: The device's run.
        changes: The lines that are in force, or about to be sent.
        may_have_restarted: Whether an armed applet may be gone.

    Raises:
        DeviceRefused: An applet could not be removed.
        DeviceUnreachable: The session was lost; an applet may be armed.
    """
    undo = undo_lines(changes)
    if not run.arms_applet or not undo or (set(undo) <= set(run.applet_undo) and not may_have_restarted):
        return
    earlier, name = run.applets, new_name(one.ours for one in run.applets)
    fresh = Change(keyword=name, before=None, ours=applet_line(name))
    run.applets = (*earlier, fresh)
    _store(run)
    report: DeadManReport = run.run_step(
        DEAD_MAN,
        dead_man,
        change=fresh,
        undo=undo,
        countdown_s=countdown_s(run.context.image.size_bytes, SLOWEST_BYTES_PER_S),
        instead_of=earlier[-1] if earlier else None,
    )
    if report.is_armed:
        run.applet_undo, run.applets = report.undo, (fresh,)
    else:
        run.arms_applet, run.applets = False, earlier
        report = replace(report, earlier=earlier[-1].keyword if earlier else "")
    run.keep(DEAD_MAN, report)
    run.note_fact(DEAD_MAN.word, "dead_man", report, prefix="note: ")
    _store(run)

"""Set, switch and remove our configuration lines and the dead-man applet of a device."""

from __future__ import annotations

import time

from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.session import DeviceSession
from flashferry.model.states import Restored
from flashferry.run.device.device_run import DeviceRun
from flashferry.transports import NEIGHBOUR
from tasks.applet import applet_line, new_name
from tasks.copy import SLOWEST_BYTES_PER_S
from tasks.dead_man import DEAD_MAN, DeadManReport, countdown_s, dead_man, undo_lines
from tasks.read_config import LATE_PAUSES_S, Configured, read_running
from tasks.restore_plan import LineState, line_state, plan_restore
from tasks.run_marker import in_other_hands, other_mark
from tasks.snapshot import Snapshot, kept_meanwhile
from tasks.tcp_config import Change, TunePlan, marks_in
from tasks.tune import STEP, TUNE, Remember, TuneReport, apply_plan, check_all_shown
from tasks.tune import set_again as set_again_task
from tasks.tune import step_down as step_down_task
from tasks.tune import tune as tune_task


def switch_transport_config(
    task: Task, held: tuple[Change, ...], plan: TunePlan, remember: Remember, before: Snapshot | None = None
) -> Result:
    """Nornir task: return a TuneReport. See `apply_other_plan`."""
    report = apply_other_plan(session_of(task), held, plan, remember=remember, before=before)
    return Result(host=task.host, result=report, changed=True)


def apply_other_plan(
    session: DeviceSession,
    held: tuple[Change, ...],
    plan: TunePlan,
    *,
    remember: Remember,
    before: Snapshot | None = None,
) -> TuneReport:
    """Remove our lines that another plan does not need, then set those that it misses.

    Args:
        session: An open session.
        held: Our lines in force; the journal has them.
        plan: The lines to have in force instead, planned from the configuration before any was set.
        remember: Receives the changes that hold from now on; they are on disk when it returns.
        before: The configuration before; see `tasks.tune.apply_plan`.

    Raises:
        DeviceRefused: A line could not be removed, was never shown, was saved by others meanwhile, or is refused; or
            another controller holds the device.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    check_all_shown(session, held)
    planned = {(change.keyword, change.ours) for change in plan.changes}
    gone = tuple(change for change in held if (change.keyword, change.ours) not in planned)
    seen = _without(session, gone)
    if (other := other_mark(seen.tcp.lines, marks_in(held))) is not None:
        raise in_other_hands(session.name, STEP, other)
    _check_not_kept(session, gone, seen, before)
    # A line that is gone, refused or lost in a restart, is set again.
    kept = tuple(change for change in held if change not in gone and not _is_as_before(change, seen))
    there = {(change.keyword, change.ours) for change in kept}
    missing = tuple(change for change in plan.changes if (change.keyword, change.ours) not in there)
    if not missing:
        remember(kept)
        return TuneReport(running=seen.tcp, not_shown=(), is_marked=any(change.is_mark for change in kept))
    # The mark is set together with other lines and checked after them, so it is sent again.
    marks = tuple(change for change in kept if change.is_mark)
    kept = tuple(change for change in kept if change not in marks)
    missing = (*marks, *missing)
    remember((*kept, *missing))

    def remember_all(changes: tuple[Change, ...]) -> None:
        # The mark is kept even if nothing was set again.
        known = {change.ours for change in changes}
        remember((*kept, *(mark for mark in marks if mark.ours not in known), *changes))

    return apply_plan(session, replace(plan, changes=missing), before=before, remember=remember_all)


def _is_as_before(change: Change, seen: Configured) -> bool:
    """Return whether a line of ours is not in force. If it is the default, the device shows the line as before."""
    stands = line_state(change, seen.tcp.of(change.keyword), frozenset(seen.lines))
    return stands is LineState.BEFORE and change.shown != ""


def _check_not_kept(
    session: DeviceSession, gone: tuple[Change, ...], seen: Configured, before: Snapshot | None
) -> None:
    """Raise if lines that leave the journal were saved or archived: a reload or rollback would restore them."""
    threat = kept_meanwhile(
        session,
        gone,
        seen,
        startup_before=before.startup if before is not None else None,
        archives_before=frozenset(before.archives) if before is not None else None,
    )
    if threat is not None:
        raise DeviceRefused(
            f"no other transport is tried: {threat.reason}", host=session.name, step=STEP, hint=threat.hint
        )


def _without(session: DeviceSession, gone: tuple[Change, ...]) -> Configured:
    """Remove lines and prove them gone, mark and applet last; return the configuration. Raises if one is left."""
    seen = _taken_back(session, tuple(change for change in gone if not change.is_mark and not change.is_applet))
    closing = tuple(change for change in gone if change.is_mark or change.is_applet)
    return _taken_back(session, closing, seen) if closing else seen


def _taken_back(session: DeviceSession, gone: tuple[Change, ...], seen: Configured | None = None) -> Configured:
    """Remove lines; see `_without`."""
    seen = read_running(session) if seen is None else seen
    plan = plan_restore(gone, seen.tcp, others=seen.lines)
    if sent := (*plan.commands, *plan.closing):
        session.configure(sent)
        seen = read_running(session)
    left = plan_restore(gone, seen.tcp, others=seen.lines, sent=sent)
    for pause_s in LATE_PAUSES_S:
        if not left.commands and not left.closing:
            break
        time.sleep(pause_s)
        seen = read_running(session)
        left = plan_restore(gone, seen.tcp, others=seen.lines, sent=sent)
    if needed := (*left.commands, *left.closing, *map(str, (*left.foreign, *left.uncertain))):
        line = needed[0]
        raise DeviceRefused(
            f"the lines for the transport before could not be taken back for those of the next one: {line}",
            host=session.name,
            step=STEP,
            hint="Look at the lines that the run's report names; name another transport first in the inventory's key "
            "'transports'",
        )
    return seen


def tune(run: DeviceRun, plan: TunePlan, before: Snapshot) -> None:
    """Set the plan's lines, or a smaller window if the device takes no other; the journal has them first.

    Our lines that are already in force, such as those of a speed test's first copies, do not count as a change by
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
            # No line was sent: one attempt to restore is enough.
            run.update(restored=Restored.UNTOUCHED)
        raise
    run.context.guard.marks = marks_in(run.in_force)
    arm_applet(run, run.in_force)
    _note_tuned(run)
    run.passed(TUNE)


def switch_lines(run: DeviceRun, plan: TunePlan, before: Snapshot, *, may_have_restarted: bool = False) -> None:
    """Set another transport's lines in place of those in force.

    After a lost session an armed applet may be gone (`may_have_restarted`).
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
    """Set a window that needs no scaling, on a device that failed with a larger one."""
    report = run.run_step(
        TUNE, step_down_task, changes=run.in_force, remember=lambda changes: _set_in_force(run, changes)
    )
    run.keep(TUNE, report)
    arm_applet(run, run.in_force)


def set_again(run: DeviceRun) -> None:
    """Set our lines again if they are gone: a device that restarted has its old configuration."""
    if run.in_force:
        arm_applet(run, run.in_force, may_have_restarted=True)
        report = run.run_step(
            TUNE, set_again_task, changes=run.in_force, remember=lambda changes: _set_in_force(run, changes)
        )
        run.keep(TUNE, report)


def hold_lines(run: DeviceRun, changes: tuple[Change, ...]) -> None:
    """Record lines that another step is about to send, in the applet and in the journal."""
    run.update(restored=Restored.INCOMPLETE)
    changes = (*run.in_force, *changes)
    run.context.guard.marks = marks_in(changes)
    arm_applet(run, changes)
    _set_in_force(run, changes)


def replace_lines(run: DeviceRun, changes: tuple[Change, ...], instead: tuple[Change, ...]) -> None:
    """Store lines as the device shows them in place of those planned; none if they are proven gone."""
    _set_in_force(run, (*(one for one in run.in_force if one not in changes), *instead))


def may_step_down(run: DeviceRun) -> bool:
    """Return whether a scaled window of our choice is in force, so that a smaller one may help."""
    plan = TunePlan(changes=run.in_force, may_back_off=run.context.policy.window_bytes is None)
    return plan.unscaled() is not None


def _set_in_force(run: DeviceRun, changes: tuple[Change, ...]) -> None:
    """Record lines as in force; they are in the journal when it returns."""
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
    """Arm a dead-man applet that undoes these lines, if one is asked for and the armed one does not cover them.

    The applet is in the journal before it is sent, and leaves it once it is gone. `changes` are the lines in force or
    about to be sent; with `may_have_restarted` an armed applet may be gone.

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

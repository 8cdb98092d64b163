"""Replace the lines of one transport by those of another, on a device whose lease is held.

Lines that both need stay. The others are removed first, and proven gone, while the journal still has them; then the
journal has those of the other transport, and only then are they sent: a crash at any moment leaves nothing that
recovery does not know. Lines that others saved or archived meanwhile may come back: then the journal keeps them, and
nothing else is set.
"""

from __future__ import annotations

import time
from dataclasses import replace

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.session import DeviceSession
from tasks.config_line_state import LineState, line_state
from tasks.read_config import Configured, read_running
from tasks.restore_plan import plan_restore
from tasks.rollback_risks import kept_meanwhile
from tasks.run_marker import in_other_hands, is_mark, other_mark
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TunePlan, marks_in
from tasks.tune import LATE_PAUSES_S, STEP, Remember, TuneReport, apply_plan, check_all_shown


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
    """Remove lines that are not needed any more, then set those that are missing.

    Args:
        session: An open session.
        held: The lines in force; the journal has them.
        plan: The lines to be in force instead, planned from the lines before anything was set.
        remember: Takes the changes that hold from now on; they are on disk when it returns.
        before: What the configuration was; see `tasks.tune.apply_plan`.

    Raises:
        DeviceRefused: A line could not be taken back, was never shown, or was saved by others meanwhile; the device
            does not take one of the others, or another controller holds it.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    check_all_shown(session, held)
    planned = {(change.keyword, change.ours) for change in plan.changes}
    gone = tuple(change for change in held if (change.keyword, change.ours) not in planned)
    seen = _without(session, gone)
    if (other := other_mark(seen.tcp.lines, marks_in(held))) is not None:
        raise in_other_hands(session.name, STEP, other)
    _check_not_kept(session, gone, seen, before)
    # A line that is gone, after a refusal or a restart of the device, is set again.
    kept = tuple(change for change in held if change not in gone and not _is_as_before(change, seen))
    there = {(change.keyword, change.ours) for change in kept}
    missing = tuple(change for change in plan.changes if (change.keyword, change.ours) not in there)
    if not missing:
        remember(kept)
        return TuneReport(running=seen.tcp, not_shown=(), is_marked=any(is_mark(change.ours) for change in kept))
    # The mark is set together with other lines and checked after them, so it is sent again.
    marks = tuple(change for change in kept if is_mark(change.ours))
    kept = tuple(change for change in kept if change not in marks)
    missing = (*marks, *missing)
    remember((*kept, *missing))

    def remember_all(changes: tuple[Change, ...]) -> None:
        # The mark is kept also where nothing was set again.
        known = {change.ours for change in changes}
        remember((*kept, *(mark for mark in marks if mark.ours not in known), *changes))

    return apply_plan(session, replace(plan, changes=missing), before=before, remember=remember_all)


def _is_as_before(change: Change, seen: Configured) -> bool:
    """Return whether a line of ours is not in force; one that is the default there is shown as it was before."""
    stands = line_state(change, seen.tcp.of(change.keyword), frozenset(seen.lines))
    return stands is LineState.BEFORE and change.shown != ""


def _check_not_kept(
    session: DeviceSession, gone: tuple[Change, ...], seen: Configured, before: Snapshot | None
) -> None:
    """Check that lines that leave the journal were not saved or archived meanwhile.

    Raises:
        DeviceRefused: They were, so that a reload or a rollback would bring them back.
    """
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
    """Remove lines and prove them gone, a mark or an applet last; return the configuration then.

    Raises:
        DeviceRefused: One is still there, or was changed by others meanwhile.
    """
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

"""Step `serve`: a device that has proven the image serves it to named addresses of its site.

The lines are like any other that a run sets: on disk before they are typed, read back, taken back by the restore and
proven gone with the whole configuration. A device that does not take them just serves no device.

The list of who may fetch comes first and permits no address; then the addresses, one line each; then the line that
serves the file. Further addresses are added while it serves. All of the list goes with the one line that takes it back:
so it is taken back only while it has no entry but those that the journal has as ours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.platforms.platform import NamedLine
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from tasks.read_config import Configured, read_running, read_startup
from tasks.restore_plan import undo_rank
from tasks.run_marker import MARK, MARK_COMMAND, first_mark, is_mark, is_shown_of, mark_of, owner_of
from tasks.snapshot import archives, kept_meanwhile, pending_change
from tasks.step import Step
from tasks.tcp_config import Change
from tasks.tune import LATE_PAUSES_S

STEP = "serve"
SERVE = Step(
    word=STEP, label="the device serves others of its site: which with `note`; why it serves no device, or no more"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What makes a device serve a file.

    Attributes:
        number: Number of the list of who may fetch.
        changes: What is to be set, a mark first where the device has none, a line for each that is let in: for the
            journal.
        reason: Why it cannot serve; empty where it can.
    """

    number: int = 0
    changes: tuple[Change, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReport:
    """What became of it.

    Attributes:
        changes: What was set, as the device shows it; none where all of it was taken back, or nothing new was let in.
        reason: Why it does not serve; empty where it does.
    """

    changes: tuple[Change, ...] = ()
    reason: str = ""


def plan_service(task: Task, path: str, mark: str, addresses: tuple[str, ...]) -> Result:
    """Nornir task: return a ServicePlan; nothing is changed. See `service_plan`."""
    session = session_of(task)
    plan = service_plan(session, read_running(session), read_startup(session), path, mark, addresses)
    return Result(host=task.host, result=plan)


def open_service(task: Task, plan: ServicePlan) -> Result:
    """Nornir task: return a ServiceReport. See `set_service`."""
    return Result(host=task.host, result=set_service(session_of(task), plan), changed=True)


def admit(task: Task, plan: ServicePlan, entries: tuple[Change, ...]) -> Result:
    """Nornir task: return a ServiceReport. See `let_in`."""
    return Result(host=task.host, result=let_in(session_of(task), plan, entries), changed=True)


def service_plan(
    session: DeviceSession,
    running: Configured,
    startup: Configured,
    path: str,
    mark: str,
    addresses: tuple[str, ...],
) -> ServicePlan:
    """Return what would make a device serve a file such as `bootflash:image.bin` to at least one address.

    What stands in the startup configuration is in force again after a restart, so both configurations count. The mark
    marks
    the device as staged by a run.
    """
    serving = session.platform.serving
    if serving is None:
        return ServicePlan(reason=f"{session.platform.name} has no lines for that")
    if theirs := serving.serves(path, (*running.lines, *startup.lines)):
        return ServicePlan(reason=f"it serves that file already ('{theirs[0]}'), which stays as it is")
    if (threat := pending_change(session, running)) is not None:
        return ServicePlan(reason=threat.reason)
    if reason := _in_other_hands(running, mark_of(mark)):
        return ServicePlan(reason=reason)
    number = serving.free_number(f"{running.text}\n{startup.text}")
    if number is None:
        return ServicePlan(reason="no number is left that its configuration names nowhere")
    listed = _change(serving.access_list, serving.list_line(number, mark_of(mark)))
    served = _change(serving.file, serving.file_line(path, number))
    marked = () if first_mark(running.lines) is not None else (Change(keyword=mark_of(mark), before=None, ours=mark),)
    entries = entries_for(session, number, addresses)
    return ServicePlan(number=number, changes=(*marked, listed, *entries, served))


def entries_for(session: DeviceSession, number: int, addresses: tuple[str, ...]) -> tuple[Change, ...]:
    """Return the entries that let some addresses in: for the journal, before they are typed."""
    serving = session.platform.serving
    assert serving is not None
    return tuple(_change(serving.access_list, serving.permit_line(number, one)) for one in addresses)


def _change(kind: NamedLine, line: str) -> Change:
    return Change(keyword=kind.name_of(line), before=None, ours=line)


def set_service(session: DeviceSession, plan: ServicePlan) -> ServiceReport:
    """Have a device serve a file to some addresses, and prove that it shows so; else take all of it back.

    The caller has the plan's changes on disk before it calls this.

    Raises:
        DeviceUnreachable: The session was lost; lines may be in force.
        OutputNotUnderstood: The configuration cannot be read; lines may be in force.
    """
    before = read_running(session)
    # Arming an applet takes seconds: a list that was typed meanwhile must not get our lines.
    if reason := _taken_meanwhile(plan, before):
        return ServiceReport(reason=reason)
    known = archives(session, before)
    permits = tuple(change.ours for change in plan.changes if change.is_entry)
    *first, last = (change.ours for change in plan.changes if not change.is_entry)
    # The owner of the list first, by itself: then no line of a list stands there that is not known as ours. And
    # the file last: a list that is not there yet would let everybody in.
    refused = _refused(session, tuple(first)) or _refused(session, (*permits, last))
    reason, seen = (refused, read_running(session)) if refused else _proven(session, plan.changes)
    if reason:
        return ServiceReport(changes=_taken_back(session, plan.changes, seen, known), reason=reason)
    return ServiceReport(changes=_as_shown(plan.changes, seen))


def let_in(session: DeviceSession, plan: ServicePlan, entries: tuple[Change, ...]) -> ServiceReport:
    """Let further addresses fetch; the caller has the entries on disk before it calls this.

    Raises:
        DeviceUnreachable: The session was lost; entries may be in force.
        OutputNotUnderstood: The configuration cannot be read; entries may be in force.
    """
    if _unproven(plan.changes, read_running(session)):
        # It restarted, or its applet's time was over: a list of one line would be all that is left.
        return ServiceReport(reason="its lines are gone meanwhile, or others are among them")
    if entries and (reason := _refused(session, tuple(change.ours for change in entries))):
        return ServiceReport(changes=entries, reason=reason)
    reason, seen = _proven(session, (*plan.changes, *entries))
    return ServiceReport(changes=_as_shown((*plan.changes, *entries), seen)[len(plan.changes) :], reason=reason)


def _proven(session: DeviceSession, changes: tuple[Change, ...]) -> tuple[str, Configured]:
    """Return what a device does not show of what was set, empty where it shows all, and the configuration."""
    seen = read_running(session)
    for pause_s in LATE_PAUSES_S:
        if not _unproven(changes, seen):
            break
        time.sleep(pause_s)
        seen = read_running(session)
    return _unproven(changes, seen), seen


def _refused(session: DeviceSession, lines: tuple[str, ...]) -> str:
    """Send lines; return which one the device does not take, and its words, or an empty text."""
    said = refusals(session.configure(lines), lines)
    return next((f"the device does not take '{line}': {words}" for line, words in said.items()), "")


def _unproven(changes: tuple[Change, ...], seen: Configured) -> str:
    """Return what the device does not show of what was set; empty where it shows all."""
    lacking = [change.ours for change in _as_shown(changes, seen) if change.shown is None]
    return f"the device does not show {lacking[0]!r}" if lacking else ""


def _as_shown(changes: tuple[Change, ...], seen: Configured) -> tuple[Change, ...]:
    """Return changes with how the device shows each; a list is shown as ours where all of it is."""
    return tuple(_one_as_shown(change, change.line_in(seen.tcp, seen.lines, beside=changes)) for change in changes)


def _one_as_shown(change: Change, shown: str | None) -> Change:
    is_ours = shown is not None and (change.serves is None or change.serves.stands_for(change.ours, shown))
    return replace(change, shown=shown if is_ours else None)


def _in_other_hands(running: Configured, name: str) -> str:
    """Return the other run that has the device, by its mark; empty where there is none."""
    theirs = next((line for line in running.lines if is_mark(line) and not _is_named(line, name)), None)
    return f"{owner_of(theirs)} has this device in its hands, too" if theirs is not None else ""


def _is_named(line: str, name: str) -> bool:
    """Return whether a mark has a name; a device may keep no more than its beginning."""
    return is_shown_of(line, f"{MARK_COMMAND} {name} {MARK.rest_of(line)}")


def _taken_meanwhile(plan: ServicePlan, seen: Configured) -> str:
    """Return what stands by now where lines of ours were to be; empty where nothing does."""
    (listed,) = (change for change in plan.changes if change.is_list and not change.is_entry)
    found = [line for change in plan.changes if (line := change.line_in(seen.tcp, seen.lines)) is not None]
    if found:
        return f"'{found[0]}' was set meanwhile and stays as it is"
    return _in_other_hands(seen, listed.ours.rpartition(" ")[2])


def _taken_back(
    session: DeviceSession, changes: tuple[Change, ...], seen: Configured, known: frozenset[str]
) -> tuple[Change, ...]:
    """Take lines back; return those that the restore has to check all the same.

    Nothing had their names right before they were typed. So whatever has now goes, in whatever words it is shown; a
    list
    with entries that cannot be ours is left for the restore, which reports it.
    """
    for part in (tuple(one for one in changes if not one.is_mark), tuple(one for one in changes if one.is_mark)):
        # A mark stays until the others are gone.
        for pause_s in LATE_PAUSES_S if part else ():
            session.configure(_undoing(part, seen))
            seen = read_running(session)
            if not _shown(part, seen):
                break
            time.sleep(pause_s)
        if _shown(part, seen):
            return changes
    kept = kept_meanwhile(session, changes, seen, archives_before=known)
    return () if kept is None else changes


def _shown(changes: tuple[Change, ...], seen: Configured) -> bool:
    """Return whether any of these lines is shown."""
    return any(change.line_in(seen.tcp, seen.lines, beside=changes) is not None for change in changes)


def _undoing(changes: tuple[Change, ...], seen: Configured) -> tuple[str, ...]:
    ordered = sorted((change for change in changes if not change.is_entry), key=undo_rank)
    return tuple(change.off for change in ordered if not _has_others(change, changes, seen))


def _has_others(change: Change, changes: tuple[Change, ...], seen: Configured) -> bool:
    """Return whether a list has entries that are not ours, so that what takes it back would take them."""
    line, kind = change.line_in(seen.tcp, seen.lines, beside=changes), change.serves
    if not change.is_list or line is None or kind is None:
        return False
    return not kind.stands_for(change.ours, line) and not kind.goes_with(line, [one.ours for one in changes])

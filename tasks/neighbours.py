"""A device with a proven file serves it to named addresses of its site (step `serve`), and others copy it from there.

The lines are treated like any other that a run sets: on disk before they are sent, read back, removed by the restore
and proven gone with the whole configuration. A device that refuses them does not serve.
The access list comes first and permits no address; then the addresses, one line each; then the line that serves the
file. Further addresses are added while it serves. Removing the list removes all its entries, so it is removed only
while it has no entries but those that the journal has as ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import TransferStalled
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.transport import Offer, ServerView, copy_command
from tasks.copy import STEP as PULL
from tasks.copy import CopyLimits, CopyReport, CopyWatch, checked_result
from tasks.read_config import LATE_PAUSES_S, Configured, read_running, read_startup
from tasks.restore_plan import undo_rank
from tasks.run_marker import MARK, MARK_COMMAND, first_mark, is_mark, is_shown_of, mark_of, owner_of
from tasks.snapshot import archives, kept_meanwhile, pending_change
from tasks.step import Step
from tasks.tcp_config import Change

LEAST_BYTES_A_MARK = 512
"""A mark stands for at least one block of the smallest size there is."""

PATIENCE_S = 20.0
"""Seconds that a copy may take beyond one over the WAN: for the dialogue, and for flash written late."""

_LOADING = "Loading "


def patience_s(wan_s: float | None) -> float:
    """Return how many seconds a copy from a neighbour may take, by the duration over the WAN; None: unknown."""
    return float("inf") if wan_s is None else PATIENCE_S + wan_s


def fetch(task: Task, **given: Any) -> Result:
    """Nornir task: return a CopyReport. See `fetch_image`."""
    return Result(host=task.host, result=fetch_image(session_of(task), **given), changed=True)


def fetch_image(
    session: DeviceSession,
    *,
    offer: Offer,
    target: str,
    size_bytes: int,
    limits: CopyLimits,
    longest_s: float,
    interrupted: Callable[[], bool] = lambda: False,
    seen: Callable[[int], None] = lambda _: None,
) -> CopyReport:
    """Have the device copy an image from a neighbour, and wait for its `bytes copied` line.

    After `longest_s` the copy is given up. Once a second `interrupted` is called, and `seen` with the number of marks.

    Raises:
        CopyFailed: The device gave up, or copied another number of bytes.
        TransferStalled: A limit was reached; the copy was interrupted.
        FileExists: The target exists already.
        DeviceRefused: The device refuses the command, or asks a question that we answer with no.
        OutputNotUnderstood: The device asked something unknown; the copy was interrupted.
        DeviceUnreachable: The session was lost; the copy may continue without it, or may be done.
    """
    dialogue = CopyDialogue(
        prompt_pattern=session.prompt_pattern, offer=offer, target=target, platform=session.platform
    )

    def witness() -> ServerView:
        if dialogue.elapsed_s > longest_s:
            raise TransferStalled(
                f"the neighbour is slower than the WAN: not through after {longest_s:.0f} s",
                host=session.name,
                step=PULL,
            )
        marks = marks_in(dialogue.text)
        seen(marks)
        at_least = min(size_bytes - 1, marks * LEAST_BYTES_A_MARK)
        return ServerView(client_seen=True, logged_in=True, acked_bytes=max(0, at_least))

    watch = CopyWatch(session.name, dialogue, size_bytes, limits, witness, interrupted)
    session.converse(copy_command(offer, target, session.platform), dialogue, watch.check)
    wall_s = dialogue.elapsed_s
    result = checked_result(session, dialogue, size_bytes, target, ServerView(client_seen=True, logged_in=True))
    return CopyReport(target=target, device=result, wall_s=wall_s, transcript=dialogue.transcript)


def marks_in(text: str) -> int:
    """Return the number of progress marks after the line that starts the transfer."""
    return text.rpartition(_LOADING)[2].count("!") if _LOADING in text else 0


STEP = "serve"
SERVE = Step(
    word=STEP, label="the device serves others of its site: which with `note`; why it serves no device, or no more"
)


class ServicePlan(Struct, frozen=True, kw_only=True):
    """The lines that make a device serve a file.

    Attributes:
        number: Number of the access list.
        changes: The lines to set, for the journal: a mark first if the device has none, and a line for each address.
        reason: Why it cannot serve; empty if it can.
    """

    number: int = 0
    changes: tuple[Change, ...] = ()
    reason: str = ""


class ServiceReport(Struct, frozen=True, kw_only=True):
    """The result of setting the lines.

    Attributes:
        changes: The lines set, as the device shows them; empty if all were removed, or no address was added.
        reason: Why it does not serve; empty if it does.
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
    """Nornir task: return a ServiceReport. See `permit`."""
    return Result(host=task.host, result=permit(session_of(task), plan, entries), changed=True)


def service_plan(
    session: DeviceSession,
    running: Configured,
    startup: Configured,
    path: str,
    mark: str,
    addresses: tuple[str, ...],
) -> ServicePlan:
    """Return the lines that make a device serve a file, such as `bootflash:image.bin`, to at least one address.

    The startup configuration counts too: its lines are in force again after a restart. `mark` marks the device as
    staged by a run.
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
    listed = _change(serving.access_list.name_of, serving.list_line(number, mark_of(mark)))
    served = _change(serving.file.name_of, serving.file_line(path, number))
    marked = () if first_mark(running.lines) is not None else (Change(keyword=mark_of(mark), before=None, ours=mark),)
    entries = entries_for(session, number, addresses)
    return ServicePlan(number=number, changes=(*marked, listed, *entries, served))


def entries_for(session: DeviceSession, number: int, addresses: tuple[str, ...]) -> tuple[Change, ...]:
    """Return the access list entries for some addresses: for the journal, before they are sent."""
    serving = session.platform.serving
    assert serving is not None
    return tuple(_change(serving.access_list.name_of, serving.permit_line(number, one)) for one in addresses)


def _change(name_of: Callable[[str], str], line: str) -> Change:
    return Change(keyword=name_of(line), before=None, ours=line)


def set_service(session: DeviceSession, plan: ServicePlan) -> ServiceReport:
    """Have a device serve a file to some addresses, and prove that it shows all lines; otherwise remove them all.

    The caller has the plan's changes on disk before.

    Raises:
        DeviceUnreachable: The session was lost; lines may be in force.
        OutputNotUnderstood: The configuration cannot be read; lines may be in force.
    """
    before = read_running(session)
    # Arming an applet takes seconds: an access list that was entered meanwhile must not get our lines.
    if reason := _taken_meanwhile(plan, before):
        return ServiceReport(reason=reason)
    known = archives(session, before)
    permits = tuple(change.ours for change in plan.changes if change.is_entry)
    *first, last = (change.ours for change in plan.changes if not change.is_entry)
    # The list's remark, which names the run, first and by itself: then every line of the list is known as ours. And
    # the file last: a list that does not exist yet would permit every address.
    refused = _refused(session, tuple(first)) or _refused(session, (*permits, last))
    reason, seen = (refused, read_running(session)) if refused else _proven(session, plan.changes)
    if reason:
        return ServiceReport(changes=_taken_back(session, plan.changes, seen, known), reason=reason)
    return ServiceReport(changes=_as_shown(plan.changes, seen))


def permit(session: DeviceSession, plan: ServicePlan, entries: tuple[Change, ...]) -> ServiceReport:
    """Permit further addresses; the caller has the entries on disk before.

    Raises:
        DeviceUnreachable: The session was lost; entries may be in force.
        OutputNotUnderstood: The configuration cannot be read; entries may be in force.
    """
    if _unproven(plan.changes, read_running(session)):
        # The device restarted, or its applet fired: our entries would form a list of their own.
        return ServiceReport(reason="its lines are gone meanwhile, or others are among them")
    if entries and (reason := _refused(session, tuple(change.ours for change in entries))):
        return ServiceReport(changes=entries, reason=reason)
    reason, seen = _proven(session, (*plan.changes, *entries))
    return ServiceReport(changes=_as_shown((*plan.changes, *entries), seen)[len(plan.changes) :], reason=reason)


def _proven(session: DeviceSession, changes: tuple[Change, ...]) -> tuple[str, Configured]:
    """Return which line the device does not show (empty if it shows all), and the configuration."""
    seen = read_running(session)
    for pause_s in LATE_PAUSES_S:
        if not _unproven(changes, seen):
            break
        time.sleep(pause_s)
        seen = read_running(session)
    return _unproven(changes, seen), seen


def _refused(session: DeviceSession, lines: tuple[str, ...]) -> str:
    """Send lines; return the refused one with the device's words, or an empty text."""
    said = refusals(session.configure(lines), lines)
    return next((f"the device does not take '{line}': {words}" for line, words in said.items()), "")


def _unproven(changes: tuple[Change, ...], seen: Configured) -> str:
    """Return which line the device does not show; empty if it shows all."""
    lacking = [change.ours for change in _as_shown(changes, seen) if change.shown is None]
    return f"the device does not show {lacking[0]!r}" if lacking else ""


def _as_shown(changes: tuple[Change, ...], seen: Configured) -> tuple[Change, ...]:
    """Return changes with how the device shows each; a list is shown as ours only if all of it is."""
    return tuple(_one_as_shown(change, change.line_in(seen.tcp, seen.lines, beside=changes)) for change in changes)


def _one_as_shown(change: Change, shown: str | None) -> Change:
    is_ours = shown is not None and (change.serves is None or change.serves.stands_for(change.ours, shown))
    return replace(change, shown=shown if is_ours else None)


def _in_other_hands(running: Configured, name: str) -> str:
    """Return the other run that holds the device, by its mark; empty if there is none."""
    theirs = next((line for line in running.lines if is_mark(line) and not _is_named(line, name)), None)
    return f"{owner_of(theirs)} holds this device, too" if theirs is not None else ""


def _is_named(line: str, name: str) -> bool:
    """Return whether a mark has a name, of which a device may keep only the beginning."""
    return is_shown_of(line, f"{MARK_COMMAND} {name} {MARK.rest_of(line)}")


def _taken_meanwhile(plan: ServicePlan, seen: Configured) -> str:
    """Return what is by now set in place of our lines; empty if nothing is."""
    (listed,) = (change for change in plan.changes if change.is_list and not change.is_entry)
    found = [line for change in plan.changes if (line := change.line_in(seen.tcp, seen.lines)) is not None]
    if found:
        return f"'{found[0]}' was set meanwhile and stays as it is"
    return _in_other_hands(seen, listed.ours.rpartition(" ")[2])


def _taken_back(
    session: DeviceSession, changes: tuple[Change, ...], seen: Configured, known: frozenset[str]
) -> tuple[Change, ...]:
    """Remove lines; return those that the restore has to check nevertheless.

    Nothing had their names right before they were sent, so whatever has now is removed, however it is shown. A list
    with entries that cannot be ours is left to the restore, which reports it.
    """
    for part in (tuple(one for one in changes if not one.is_mark), tuple(one for one in changes if one.is_mark)):
        # The mark stays until the other lines are gone.
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
    """Return whether a list has entries that are not ours, which would be removed with it."""
    line, kind = change.line_in(seen.tcp, seen.lines, beside=changes), change.serves
    if not change.is_list or line is None or kind is None:
        return False
    return not kind.stands_for(change.ours, line) and not kind.goes_with(line, [one.ours for one in changes])

"""Step `tune`: set the lines of a TunePlan and re-read what came of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nornir.core.task import Result, Task

from tasks.connection import session_of
from tasks.errors import DeviceRefused
from tasks.session import DeviceSession
from tasks.snapshot import read_running_lines
from tasks.tuning import EXTRAS, SOURCE_INTERFACE, WINDOW_SIZE, Change, TcpLines, TunePlan, plan_restore, shows
from templates.rows import Refusal, first

STEP = "tune"

Remember = Callable[[tuple[Change, ...]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """What the device's lines are after tuning, and what became of those of ours that are not among them.

    Attributes:
        running: The lines as re-read.
        not_shown: Lines of ours that were taken without complaint and are not printed: a default of that release, or
            ignored.
        refused: Lines that the device refused before it took a smaller window, each with the device's words.
    """

    running: TcpLines
    not_shown: tuple[str, ...]
    refused: tuple[str, ...] = ()


def tune(task: Task, plan: TunePlan, remember: Remember | None = None) -> Result:
    """Nornir task: return a TuneReport. See `apply_plan`."""
    report = apply_plan(session_of(task), plan, remember=remember)
    return Result(host=task.host, result=report, changed=bool(plan.changes))


def set_again(task: Task, changes: tuple[Change, ...]) -> Result:
    """Nornir task: return a TuneReport. See `reapply`."""
    report = reapply(session_of(task), changes)
    return Result(host=task.host, result=report, changed=True)


def reapply(session: DeviceSession, changes: tuple[Change, ...]) -> TuneReport:
    """Set those of our lines again that are as they were before us: the device restarted meanwhile.

    What somebody else set in between is left alone.

    Raises:
        DeviceRefused: The device did not take a line; others may be in force.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    running = read_running_lines(session)
    gone = tuple(
        change
        for change in changes
        if running.of(change.keyword) == change.before and not shows(change, running.of(change.keyword))
    )
    return apply_plan(session, TunePlan(changes=gone))


def step_down(task: Task, changes: tuple[Change, ...], remember: Remember) -> Result:
    """Nornir task: return a TuneReport. See `without_scaling`."""
    report = without_scaling(session_of(task), changes, remember=remember)
    return Result(host=task.host, result=report, changed=True)


def without_scaling(session: DeviceSession, changes: tuple[Change, ...], *, remember: Remember) -> TuneReport:
    """Take our window back, and set the largest without scaling instead: the device failed with ours.

    Our window is proven gone before the journal forgets it, so a crash at any moment leaves nothing behind.

    Args:
        session: An open session.
        changes: What is in force, among it a window of ours.
        remember: Takes the changes that hold instead, before they are sent.

    Raises:
        DeviceRefused: Our window could not be taken back, or no other is taken.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    window = tuple(change for change in changes if change.keyword == WINDOW_SIZE)
    undo = plan_restore(window, read_running_lines(session))
    if undo.commands:
        session.configure(undo.commands)
    left = plan_restore(window, read_running_lines(session))
    smaller = TunePlan(changes=changes, may_back_off=True).unscaled()
    if left.commands or left.foreign or smaller is None:
        raise DeviceRefused(
            f"{window[0].ours!r} could not be taken back for a smaller one" if window else "there is no window of ours",
            host=session.name,
            step=STEP,
        )
    remember(smaller.changes)
    return apply_plan(session, smaller)


def apply_plan(session: DeviceSession, plan: TunePlan, *, remember: Remember | None = None) -> TuneReport:
    """Send the plan's lines and re-read the configuration; step down to a smaller window where the plan allows it.

    The caller has the plan's changes on disk before it calls this, and undoes them whatever comes of it.

    Args:
        session: An open session.
        plan: What to set.
        remember: Takes the changes that hold instead, before a smaller window is sent: they must be on disk by then.

    Raises:
        DeviceRefused: The device did not take a line; others may be in force.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    if not plan.changes:
        return TuneReport(running=read_running_lines(session), not_shown=())
    sent, told = plan.commands, []
    while True:
        refused = refusals(session.configure(sent), sent)
        running = read_running_lines(session)
        smaller = _next_plan(session.name, plan, refused, running)
        told += [f"{line}: {words}" for line, words in refused.items()]
        if smaller is None:
            break
        if remember is not None:
            remember(smaller.changes)
        plan, sent = smaller, tuple(line for line in smaller.commands if line.startswith(f"ip tcp {WINDOW_SIZE} "))
        if not sent:
            break
    missing = tuple(change.ours for change in plan.changes if not shows(change, running.of(change.keyword)))
    return TuneReport(running=running, not_shown=missing, refused=tuple(told))


def refusals(transcript: str, lines: tuple[str, ...]) -> dict[str, str]:
    """Return which lines were refused, with the device's words: what stands between a line's echo and the next one's.

    A refusal that stands before any echo is put down to the first line: something was refused, and that is told.
    """
    found: dict[str, str] = {}
    places = [transcript.find(line) for line in lines]
    for index, line in enumerate(lines):
        begin = 0 if index == 0 else places[index]
        if begin < 0:
            continue
        following = [place for place in places[index + 1 :] if place > begin]
        if (refusal := first(Refusal, transcript[begin : min(following, default=len(transcript))])) is not None:
            found[line] = refusal.text
    return found


def _next_plan(host: str, plan: TunePlan, refused: dict[str, str], running: TcpLines) -> TunePlan | None:
    """Return the plan to go on with where the window was refused, None where nothing was.

    Raises:
        DeviceRefused: Something else was refused, or no smaller window is left.
    """
    absent = [change for change in plan.changes if not shows(change, running.of(change.keyword))]
    missed = [change for change in absent if change.ours in refused]
    if not missed and refused and absent:
        # Something was refused and something is not there: whatever the transcript says, these belong together.
        missed, refused = absent, dict.fromkeys((change.ours for change in absent), next(iter(refused.values())))
    if not missed:
        return None
    only_window = len(missed) == 1 and missed[0].keyword == WINDOW_SIZE
    # Neither ours nor as before: somebody else is at this line.
    untouched = running.of(missed[0].keyword) == missed[0].before
    smaller = plan.backed_off() if only_window and untouched else None
    if smaller is not None:
        return smaller
    other = next((change for change in missed if change.keyword != WINDOW_SIZE), missed[0])
    raise DeviceRefused(
        f"the device does not take {other.ours!r}: {refused[other.ours]}", host=host, step=STEP, hint=_hint(other)
    )


def _hint(change: Change) -> str:
    if change.keyword in EXTRAS.values():
        name = next(name for name, keyword in EXTRAS.items() if keyword == change.keyword)
        return f"Stage this device without --extra {name}"
    if change.keyword == SOURCE_INTERFACE:
        return "Correct 'source_interface' in the inventory"
    return "Stage this device with --no-tune, or give a smaller --window-bytes"

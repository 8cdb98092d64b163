"""Step `tune`: set the lines of a TunePlan and re-read what came of each."""

from __future__ import annotations

from dataclasses import dataclass

from nornir.core.task import Result, Task

from tasks.connection import session_of
from tasks.errors import DeviceRefused
from tasks.session import DeviceSession
from tasks.snapshot import read_running_lines
from tasks.tuning import Change, TcpLines, TunePlan
from templates.rows import Refusal, first

STEP = "tune"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """What the device's `ip tcp` lines are after tuning, and which of ours do not show.

    Attributes:
        running: The lines as re-read.
        not_shown: Lines of ours that were taken without complaint and are not printed: a default of that release.
    """

    running: TcpLines
    not_shown: tuple[str, ...]


def tune(task: Task, plan: TunePlan) -> Result:
    """Nornir task: return a TuneReport. See `apply_plan`."""
    return Result(host=task.host, result=apply_plan(session_of(task), plan), changed=bool(plan.changes))


def apply_plan(session: DeviceSession, plan: TunePlan) -> TuneReport:
    """Send the plan's lines and re-read the configuration.

    The caller has the plan's changes on disk before it calls this, and undoes them whatever comes of it.

    Raises:
        DeviceRefused: The device did not take a line; lines before it may be in force.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    if not plan.changes:
        return TuneReport(running=read_running_lines(session), not_shown=())
    transcript = session.configure(plan.commands)
    if (refusal := first(Refusal, transcript)) is not None:
        raise DeviceRefused(
            f"the device does not take {' or '.join(repr(line) for line in plan.commands)}: {refusal.text}",
            host=session.name,
            step=STEP,
            hint="Stage this device with --no-tune, or give a smaller --window-bytes",
        )
    running = read_running_lines(session)
    return TuneReport(
        running=running, not_shown=tuple(change.ours for change in plan.changes if not _shows(change, running))
    )


def _shows(change: Change, running: TcpLines) -> bool:
    return running.of(change.keyword) == change.ours

"""What follows the death of a run: its devices are restored, then it is resumed, each by a job. Pure.

It is evaluated again and again from the stored jobs, so it does not matter who was killed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from flashferry.store.service.database import moment_of
from flashferry.store.service.jobs import Job, JobKind, JobState

RECOVERY_PAUSES_S = (0.0, 10.0, 60.0, 300.0)
"""Pauses before each recovery: a device may be unreachable for a while. Then people are needed."""

CARED_FOR_S = 24 * 3600.0
"""How long after its death a job is followed up."""

RUNS = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE})
"""Kinds that change devices."""

_GOES_ON = frozenset({JobKind.STAGE, JobKind.RESUME})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRun:
    """The run of a dead job, by the journal.

    Attributes:
        is_alive: Another process resumed it.
        holds: Devices that it holds.
    """

    is_alive: bool
    is_finished: bool
    holds: int
    is_stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTry:
    """A job to be requested: `recover` or `resume`, and its number under the dead job, from 1."""

    kind: JobKind
    attempt: int


def next_try(dead: Job, tries: Sequence[Job], run: LeftRun, *, resumes: int, now: datetime) -> NextTry | None:
    """Return what follows now; None: nothing, or not yet.

    Args:
        dead: A dead job that a user requested.
        tries: The jobs under it, the oldest first.
        run: Its run, by the journal.
        resumes: Limit of resumes.
        now: The time.
    """
    last = tries[-1] if tries else dead
    if last.is_open or run.is_alive or last.ended_at is None:
        return None
    if now - moment_of(last.ended_at) > timedelta(seconds=CARED_FOR_S):
        return None
    if run.holds:
        return _recovery(last, sum(one.kind is JobKind.RECOVER for one in _since_the_last_run(tries)), tries, now)
    resumed = sum(one.kind is JobKind.RESUME for one in tries)
    is_over = run.is_finished or run.is_stopped or (last.kind is JobKind.RESUME and last.state is JobState.ENDED)
    if dead.kind not in _GOES_ON or is_over or resumed >= resumes:
        return None
    return NextTry(kind=JobKind.RESUME, attempt=resumed + 1)


def starts_again(dead: Job, *, deaths: int, resumes: int, now: datetime) -> bool:
    """Return whether a job is queued again whose process died before its run was in the journal.

    Such a run changed no device, so there is nothing to restore. `deaths` counts the earlier ones.
    """
    age = now - moment_of(dead.started_at or dead.created_at)
    is_young = age <= timedelta(seconds=CARED_FOR_S)
    return dead.kind in _GOES_ON and dead.run_id is None and deaths < resumes and is_young


def _recovery(last: Job, in_a_row: int, tries: Sequence[Job], now: datetime) -> NextTry | None:
    if in_a_row >= len(RECOVERY_PAUSES_S):
        return None
    assert last.ended_at is not None
    if now < moment_of(last.ended_at) + timedelta(seconds=RECOVERY_PAUSES_S[in_a_row]):
        return None
    return NextTry(kind=JobKind.RECOVER, attempt=sum(one.kind is JobKind.RECOVER for one in tries) + 1)


def _since_the_last_run(tries: Sequence[Job]) -> Sequence[Job]:
    """Return the jobs after the last resume: each death has recoveries of its own."""
    behind = next((number for number in range(len(tries), 0, -1) if tries[number - 1].kind in _GOES_ON), 0)
    return tries[behind:]

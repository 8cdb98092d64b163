"""The scheduler: each due time is claimed once, then started, refused or reported as missed.

Rules
-----
* A due time has a unique row: it is claimed once, whatever the clock does. Claim, job, audit and notice are one
  transaction.
* A missed due time is started late only within `GRACE_S`, and only if the rest of the window is long enough; never in
  daylight.
* It is started for the owner, while the owner is an operator at its sites and the plan can start. Else it is refused
  and announced; the schedule stays, unless its plan is over.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import counted
from flashferry.core.units import duration
from flashferry.model.plan_window import PlanWindow, WindowState, spoken
from flashferry.reports import words
from flashferry.service.auditing import note
from flashferry.service.background import PeriodicTask
from flashferry.service.errors import ServiceError
from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.eligibility import image_obstacle, resume_obstacle
from flashferry.service.principal import SYSTEM, Actor, Via
from flashferry.service.schedules.calendar import calendar_of, next_due, zone_of
from flashferry.service.schedules.making import night_file, object_of
from flashferry.service.schedules.telling import why_refused
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.jobs import JobKind
from flashferry.store.service.plans import StoredPlan, plan_of, window_of
from flashferry.store.service.schedules import (
    Occasion,
    Outcome,
    Schedule,
    ScheduleKind,
    ScheduleState,
    claim_occasion,
    due_schedules,
    end_occasion,
    schedule_of,
    set_schedule,
)

GRACE_S = 300.0
"""Latest late start: a restart of the service, not a night that it was down."""

_MOST_AT_ONCE = 500
"""Due times of a schedule handled in one pass: more than a year of nights."""

_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """Result of a due time.

    Attributes:
        job_id: Its job, or None.
        is_over: The schedule can start nothing any more.
    """

    outcome: Outcome
    sentence: str
    job_id: str | None = None
    is_over: bool = False


def run_once(service: Service) -> None:
    """Claim all that is due, and start what can start."""
    with service.database.reading() as database:
        due = due_schedules(database, moment(service.now()))
    for schedule in due:
        for _ in range(_MOST_AT_ONCE):
            if service.stopping.is_set() or not take(service, schedule.schedule_id):
                break


TASK = PeriodicTask(name="scheduler", every_s=_EVERY_S, run=run_once)


def take(service: Service, schedule_id: str) -> bool:
    """Claim and handle the next due time of a schedule; return whether there was one."""
    now = service.now()
    with service.database.reading() as database:
        seen = schedule_of(database, schedule_id)
    if seen is None or seen.next_at is None or moment_of(seen.next_at) > now:
        return False
    # Hashing takes seconds and would block other writers: so it is done before the transaction.
    images = ""
    if seen.kind is ScheduleKind.PLAN and (now - moment_of(seen.next_at)).total_seconds() <= GRACE_S:
        images = image_obstacle(service, seen.subject)
    with service.database.writing() as database:
        schedule = schedule_of(database, schedule_id)
        if schedule is None or schedule.state is not ScheduleState.ACTIVE or schedule.next_at != seen.next_at:
            return True
        _take(service, database, schedule, now, images)
    return True


def _take(service: Service, database: sqlite3.Connection, schedule: Schedule, now: datetime, images: str) -> None:
    assert schedule.next_at is not None
    occasion = Occasion(
        schedule_id=schedule.schedule_id,
        due_at=schedule.next_at,
        claimed_at=moment(now),
        claimed_by=f"{os.getpid()}@{socket.gethostname()}",
    )
    # It is there already where the clock was put back, and the schedule was let go on since.
    is_ours = claim_occasion(database, occasion)
    became = _started(service, database, schedule, now, images) if is_ours else None
    if became is not None:
        end_occasion(database, occasion, became.outcome, job_id=became.job_id, sentence=became.sentence)
        _report(service, database, schedule, became)
    following = next_due(calendar_of(schedule.calendar), zone_of(schedule.time_zone), moment_of(schedule.next_at))
    is_over = following is None or (became is not None and became.is_over)
    set_schedule(
        *(database, schedule.schedule_id),
        state=ScheduleState.ENDED if is_over else ScheduleState.ACTIVE,
        owner=schedule.owner,
        next_at=None if is_over or following is None else moment(following),
        sentence=schedule.sentence if became is None else f"{became.outcome}: {became.sentence}",
    )


def _started(service: Service, database: sqlite3.Connection, schedule: Schedule, now: datetime, images: str) -> Became:
    assert schedule.next_at is not None
    due = moment_of(schedule.next_at)
    plan = plan_of(database, schedule.subject) if schedule.kind is ScheduleKind.PLAN else None
    if why := _why_missed(schedule, due, now, plan):
        return Became(outcome=Outcome.MISSED, sentence=why)
    is_over = plan is not None and plan.state != "draft" and bool(resume_obstacle(plan, now))
    if why := why_refused(database, schedule, plan, now) or images:
        return Became(outcome=Outcome.REFUSED, sentence=why, is_over=is_over)
    window = PlanWindow() if plan is None else window_of(database, plan)
    ends = due + timedelta(seconds=schedule.window_s)
    if window.ends_at is not None:
        ends = min(ends, window.ends_at)
    # A schedule that was made for it starts within the window; a clock that was put back may have it due before.
    is_early = window.state(now) is WindowState.BEFORE
    if is_early and plan is not None and replace(window, ends_at=ends).left_s(now) < plan.duration_s:
        why = f"{window.why_closed(now)}; by {spoken(ends)}, its end here, {duration(plan.duration_s)} are not left"
        return Became(outcome=Outcome.REFUSED, sentence=why)
    owner = Actor(name=schedule.owner, via=Via.SYSTEM)
    try:
        job = request_job(service, database, owner, _spec(service, schedule, ends))
    except ServiceError as problem:
        return Became(outcome=Outcome.REFUSED, sentence=problem.sentence)
    except ConfigInvalid as error:
        return Became(outcome=Outcome.REFUSED, sentence=error.message)
    sentence = f"its job waits: {window.why_closed(now)}" if is_early else _how_late(now - due)
    return Became(outcome=Outcome.STARTED, sentence=sentence, job_id=job.job_id)


def _why_missed(schedule: Schedule, due: datetime, now: datetime, plan: StoredPlan | None) -> str:
    late_s = (now - due).total_seconds()
    if late_s > GRACE_S:
        return f"the service did not run at {words.moment(moment(due))}; it was noticed {duration(late_s)} later"
    left_s, needed_s = schedule.window_s - late_s, plan.duration_s if plan is not None else 0.0
    if left_s < needed_s:
        return f"{duration(left_s)} of its window were left, and it needs {duration(needed_s)}"
    return ""


def _spec(service: Service, schedule: Schedule, ends: datetime) -> JobSpec:
    """Return the job to be run. Raises `ConfigInvalid` if the description of a night is gone."""
    reason = f"schedule {schedule.schedule_id}: {schedule.title}"
    if schedule.kind is ScheduleKind.NIGHTLY:
        file = night_file(service.settings.runs.nights, schedule.subject)
        return JobSpec(kind=JobKind.NIGHTLY, file=file, reason=reason)
    return JobSpec(kind=JobKind.STAGE, digest=schedule.subject, until=ends, reason=reason)


def _how_late(late: timedelta) -> str:
    late_s = late.total_seconds()
    return "started on time" if late_s < 10 * _EVERY_S else f"started {counted(round(late_s), 'second')} late"


def _report(service: Service, database: sqlite3.Connection, schedule: Schedule, became: Became) -> None:
    details = {
        "due_at": schedule.next_at,
        "outcome": became.outcome.value,
        "job": became.job_id,
        "owner": schedule.owner,
    }
    note(
        *(service, database, SYSTEM, f"schedule.{became.outcome}", object_of(schedule.schedule_id)),
        outcome="done" if became.outcome is Outcome.STARTED else "refused",
        reason=became.sentence,
        after=details,
    )
    if became.outcome is not Outcome.STARTED:
        is_missed = became.outcome is Outcome.MISSED
        announce(
            *(service, database, NoticeKind.SCHEDULE_MISSED if is_missed else NoticeKind.SCHEDULE_REFUSED),
            object_of(schedule.schedule_id),
            f"schedule {schedule.title!r} was {became.outcome}: {became.sentence}",
            {"schedule": schedule.schedule_id, "title": schedule.title, "subject": schedule.subject, **details},
            path="/schedules",
            sites=schedule.sites,
        )

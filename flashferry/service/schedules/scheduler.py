"""Schedules: creation, changes, and the task that claims each due time once and starts, refuses or misses it."""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import check_regular, is_below
from flashferry.core.units import counted, duration
from flashferry.model.fleet_plan import PlanWindow, WindowState, spoken
from flashferry.reports import words
from flashferry.service.entered_text import checked_comment, checked_title, sites_text
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, invalid_from, listed
from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.eligibility import database_obstacle, image_obstacle, resume_obstacle
from flashferry.service.plans.eligibility import found as found_plan
from flashferry.service.principal import SYSTEM, Actor, Role, Via
from flashferry.service.schedules.calendar import calendar_of, dues, next_due, oddity, zone_of
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.jobs import (
    JobKind,
    Occasion,
    Outcome,
    Schedule,
    ScheduleKind,
    ScheduleState,
    add_schedule,
    claim_occasion,
    due_schedules,
    end_occasion,
    occasions_of,
    schedule_of,
    set_schedule,
)
from flashferry.store.service.people import roles_lost
from flashferry.store.service.plans import PlanState, StoredPlan, plan_of, window_of

LEAST_WINDOW_S = 60
MOST_WINDOW_S = 7 * 86400


class Step(StrEnum):
    """An action on a schedule."""

    OWN = "own"
    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"


class ScheduleSpec(Struct, frozen=True, kw_only=True):
    """A schedule to be created; see `Schedule`."""

    title: str
    kind: ScheduleKind
    subject: str
    calendar: str
    time_zone: str
    window_s: int


def object_of(schedule_id: str) -> str:
    """Return the audit object of a schedule."""
    return f"schedule:{schedule_id}"


def make_schedule(service: Service, actor: Actor, spec: ScheduleSpec) -> Schedule:
    """Create a schedule, owned by the caller, who operates each of its sites. Its plan may still be a draft.

    Raises:
        InvalidRequest: It is never due, its window is too short for the plan, or its subject is not valid.
        Forbidden, NotFound, Conflict: The caller may not, or the plan is missing, denied or withdrawn.
    """
    if not LEAST_WINDOW_S <= spec.window_s <= MOST_WINDOW_S:
        raise _invalid(
            f"window: expected {LEAST_WINDOW_S} seconds to {MOST_WINDOW_S:,}, found {spec.window_s:,}",
            "Say how long the run may last",
        )
    try:
        with service.database.writing() as database:
            made = _schedule(service, database, actor, spec)
            add_schedule(database, made)
            service.note(database, actor, "schedule.made", object_of(made.schedule_id), after=_details(made))
    except ServiceError as problem:
        if isinstance(problem, Forbidden):
            service.note_refusal(actor, "schedule.made", f"{spec.kind}:{spec.subject}", problem.sentence)
        raise
    return made


def step(service: Service, actor: Actor, schedule_id: str, what: Step, reason: str) -> Schedule:
    """Take over, hold, release or end a schedule; jobs that it started continue.

    Raises:
        NotFound, Forbidden: The caller may not see or change it.
        Conflict, InvalidRequest: Its state does not allow it, or there is no reason.
    """
    action = f"schedule.{what}"
    with service.deciding(actor, action, object_of(schedule_id), unnoted=(NotFound,)) as database:
        before = found(database, schedule_id, actor)
        if not actor.may({Role.OPERATOR}, before.sites):
            raise _forbidden(what.value, before.sites)
        after = _after(before, what, actor, checked_reason(reason), service.now())
        set_schedule(
            *(database, schedule_id),
            **{name: getattr(after, name) for name in ("state", "owner", "next_at", "sentence")},
        )
        service.note(
            *(database, actor, action, object_of(schedule_id)),
            reason=reason,
            before=_details(before),
            after=_details(after),
        )
    return after


def found(database: sqlite3.Connection, schedule_id: str, actor: Actor) -> Schedule:
    """Return a schedule that the caller may see. Raises `NotFound`."""
    schedule = schedule_of(database, schedule_id)
    if schedule is None or not actor.may(Role, schedule.sites):
        raise NotFound(f"schedule: expected one that you may see, found {schedule_id[:40]!r}", hint=listed("schedules"))
    return schedule


def night_file(folder: Path | None, subject: str) -> Path:
    """Return the path of a lab night's description below the configured folder (None: not configured).

    Raises:
        ConfigInvalid: There is no folder or no such file, or the path leads out of the folder.
    """
    if folder is None:
        raise ConfigInvalid(
            "night: expected the service to know a folder of descriptions, found that none is set",
            hint="Set nights in the section [runs] of service.toml",
        )
    parts = Path(subject).parts
    path = folder / subject
    is_named = bool(parts) and subject.isprintable() and not Path(subject).is_absolute() and ".." not in parts
    try:
        if is_named and is_below(path, (folder,)) and check_regular(path):
            return path
    except (OSError, ValueError):
        pass
    raise ConfigInvalid(
        f"night: expected the path of a description below the service's folder of such, found {subject[:100]!r}",
        hint="Put it there, and give its path below that folder: 'lab.yaml'",
    )


def checked_reason(reason: str) -> str:
    """Check a reason and return it stripped. Raises `InvalidRequest` if it is empty or too long."""
    if not reason.strip():
        raise _invalid("reason: expected a reason, found none", "Give a reason in a sentence; it is in the audit")
    return checked_comment(reason)


def _schedule(service: Service, database: sqlite3.Connection, actor: Actor, spec: ScheduleSpec) -> Schedule:
    sites: tuple[str, ...] = ()
    plan = None
    if spec.kind is ScheduleKind.PLAN:
        plan = found_plan(database, spec.subject, actor)
        sites = plan.sites
    if not actor.may({Role.OPERATOR}, sites):
        raise _forbidden("schedule", sites)
    now = service.now()
    try:
        calendar, zone = calendar_of(spec.calendar), zone_of(spec.time_zone)
        if plan is None:
            night_file(service.settings.runs.nights, spec.subject)
    except ConfigInvalid as error:
        raise invalid_from(error) from None
    due = next_due(calendar, zone, now)
    if due is None:
        raise _invalid(f"calendar: expected a time to come, found {calendar}", "Give a later one, or days of the week")
    if plan is not None:
        _check_plan(plan, window_of(database, plan), spec, due.astimezone(zone))
    return Schedule(
        schedule_id=f"s{now:%Y%m%d}-{secrets.token_hex(4)}",
        title=checked_title(spec.title) or (plan.title if plan is not None else spec.subject[:100]),
        kind=spec.kind,
        subject=spec.subject,
        calendar=str(calendar),
        time_zone=zone.key,
        window_s=spec.window_s,
        sites=sites,
        owner=actor.name,
        made_by=actor.name,
        made_at=moment(now),
        next_at=moment(due),
    )


def _check_plan(plan: StoredPlan, window: PlanWindow, spec: ScheduleSpec, due: datetime) -> None:
    if plan.state in {PlanState.DENIED, PlanState.WITHDRAWN}:
        raise Conflict(
            f"plan: expected a draft or an approved one, found that it was {plan.state}",
            hint="Create another plan",
        )
    _check_due(plan, window, due)
    if spec.window_s < plan.duration_s:
        raise _invalid(
            f"window: expected at least the {plan.duration_s:,.0f} s that the plan takes by its forecast, "
            f"found {spec.window_s:,}",
            "Give a longer window, or make a plan for fewer devices",
        )


def _check_due(plan: StoredPlan, window: PlanWindow, due: datetime) -> None:
    """Check that a plan can start and end in its window at its first due time."""
    if window.opens_at is not None and window.state(due) is WindowState.BEFORE:
        raise _invalid(
            f"calendar: expected a time from the opening of the plan's window on, {spoken(window.opens_at)}, found "
            f"{spoken(due)}",
            "Give a later time, or make a plan for an earlier window",
        )
    if window.ends_at is None:
        return
    if window.state(due) is WindowState.OVER:
        raise _invalid(
            f"calendar: expected a time before the plan's end, {spoken(window.ends_at)}, found {spoken(due)}",
            "Give an earlier time, or make a plan for a later window",
        )
    if window.left_s(due) < plan.duration_s:
        raise _invalid(
            f"calendar: expected a time at least {duration(plan.duration_s)} before the plan's end, "
            f"{spoken(window.ends_at)}, found {spoken(due)}: the plan takes so long by its forecast",
            "Give an earlier time, or make a plan for fewer devices",
        )


def _after(before: Schedule, what: Step, actor: Actor, reason: str, now: datetime) -> Schedule:
    requested = {Step.HOLD: {ScheduleState.ACTIVE}, Step.RELEASE: {ScheduleState.HELD}}
    may_be = requested.get(what, {ScheduleState.ACTIVE, ScheduleState.HELD})
    if before.state not in may_be:
        raise Conflict(
            f"schedule: expected it {' or '.join(sorted(may_be))} to {what} it, found it {before.state}",
            hint="See the list of schedules",
        )
    said = replace(before, sentence=f"{_PAST[what]} by {actor.name}: {reason}")
    if what is Step.OWN:
        return replace(said, owner=actor.name)
    if what is Step.RELEASE:
        due = next_due(calendar_of(before.calendar), zone_of(before.time_zone), now)
        state = ScheduleState.ACTIVE if due is not None else ScheduleState.ENDED
        return replace(said, state=state, next_at=None if due is None else moment(due))
    return replace(said, state=ScheduleState.HELD if what is Step.HOLD else ScheduleState.ENDED, next_at=None)


_PAST = {Step.OWN: "taken over", Step.HOLD: "held", Step.RELEASE: "released", Step.REMOVE: "removed"}


def _details(schedule: Schedule) -> dict[str, object]:
    names = ("title", "kind", "subject", "calendar", "time_zone", "window_s", "owner", "state", "next_at")
    return {name: getattr(schedule, name) for name in names}


def _invalid(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)


def _forbidden(what: str, sites: tuple[str, ...]) -> ServiceError:
    where = sites_text(sites) if sites else "all sites, because a night touches the sites of its description"
    return Forbidden(
        f"schedule: expected an operator at {where} to {what} it",
        hint="Ask an admin for the role, or a colleague who has it",
    )


_NEXT = 5
_OCCASIONS = 50


def schedule_json(database: sqlite3.Connection, schedule: Schedule, now: datetime) -> dict[str, object]:
    """Return a schedule as JSON types, and why it would be refused if due now; images are not checked."""
    plan = plan_of(database, schedule.subject) if schedule.kind is ScheduleKind.PLAN else None
    why = "" if schedule.state is ScheduleState.ENDED else why_refused(database, schedule, plan, now)
    return dict(to_json(schedule)) | {"why_not": why, "next_local": _local(schedule)}


def schedule_details_json(database: sqlite3.Connection, schedule: Schedule, now: datetime) -> dict[str, object]:
    """Return a schedule as JSON types, with its next due times and past outcomes."""
    occasions = [to_json(one) for one in occasions_of(database, schedule.schedule_id, most=_OCCASIONS)]
    return schedule_json(database, schedule, now) | {"next": _next(schedule), "occasions": occasions}


def why_refused(database: sqlite3.Connection, schedule: Schedule, plan: StoredPlan | None, now: datetime) -> str:
    """Return why a schedule cannot start now, because of its owner or its plan; empty if it can."""
    lost = roles_lost(database, schedule.owner, Role.OPERATOR.value, schedule.sites or ("",))
    if lost is None:
        return f"{schedule.owner}, who owns it, is disabled"
    if lost:
        return f"{schedule.owner}, who owns it, is no longer operator at {sites_text(lost)}"
    return "" if plan is None else database_obstacle(database, plan, now)


def _local(schedule: Schedule) -> str:
    if schedule.next_at is None:
        return ""
    try:
        return _wall(moment_of(schedule.next_at).astimezone(zone_of(schedule.time_zone)))
    except ConfigInvalid:  # tzdata was removed from this host
        return ""


def _next(schedule: Schedule) -> list[dict[str, str]]:
    """Return the next due times of an active schedule."""
    if schedule.next_at is None:
        return []
    first = moment_of(schedule.next_at)
    try:
        calendar, zone = calendar_of(schedule.calendar), zone_of(schedule.time_zone)
    except ConfigInvalid:
        return []
    return [
        {"at": moment(due), "local": _wall(due.astimezone(zone)), "oddity": oddity(calendar, zone, due)}
        for due in (first, *dues(calendar, zone, first, _NEXT - 1))
    ]


def _wall(local: datetime) -> str:
    return f"{local:%a %Y-%m-%d %H:%M %Z}"


GRACE_S = 300.0
"""Latest late start: a restart of the service, not a night that it was down."""
_MOST_AT_ONCE = 500
"""Due times of a schedule handled in one pass: more than a year of nights."""
EVERY_S = 2.0


class Became(Struct, frozen=True, kw_only=True):
    """Result of a due time.

    Attributes:
        job_id: Its job, or None.
        is_over: Whether the schedule can start nothing any more.
    """

    outcome: Outcome
    sentence: str
    job_id: str | None = None
    is_over: bool = False


def run_once(service: Service) -> None:
    """Claim all due times and start what can start."""
    with service.database.reading() as database:
        due = due_schedules(database, service.moment())
    for schedule in due:
        for _ in range(_MOST_AT_ONCE):
            if service.stopping.is_set() or not take(service, schedule.schedule_id):
                break


def take(service: Service, schedule_id: str) -> bool:
    """Claim and handle the next due time of a schedule; return False if there is none."""
    now = service.now()
    with service.database.reading() as database:
        seen = schedule_of(database, schedule_id)
    if seen is None or seen.next_at is None or moment_of(seen.next_at) > now:
        return False
    # Hash before the transaction: it takes seconds and would block other writers.
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
    # The row exists already if the clock was set back and the schedule was released since.
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
    # A due time is within the window when a schedule is created; after the clock was set back it can be before it.
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
    """Return the job specification. Raises `ConfigInvalid` if the description of a lab night is gone."""
    reason = f"schedule {schedule.schedule_id}: {schedule.title}"
    if schedule.kind is ScheduleKind.NIGHTLY:
        file = night_file(service.settings.runs.nights, schedule.subject)
        return JobSpec(kind=JobKind.NIGHTLY, file=file, reason=reason)
    return JobSpec(kind=JobKind.STAGE, digest=schedule.subject, until=ends, reason=reason)


def _how_late(late: timedelta) -> str:
    late_s = late.total_seconds()
    return "started on time" if late_s < 10 * EVERY_S else f"started {counted(round(late_s), 'second')} late"


def _report(service: Service, database: sqlite3.Connection, schedule: Schedule, became: Became) -> None:
    details = {
        "due_at": schedule.next_at,
        "outcome": became.outcome.value,
        "job": became.job_id,
        "owner": schedule.owner,
    }
    service.note(
        *(database, SYSTEM, f"schedule.{became.outcome}", object_of(schedule.schedule_id)),
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

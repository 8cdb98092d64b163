"""Schedules created, taken over, held, released and ended, by operators of their sites, each with a reason.

Plan and calendar of a schedule never change: another time is another schedule.
"""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import check_regular, is_below
from flashferry.core.units import duration
from flashferry.model.plan_window import PlanWindow, WindowState, spoken
from flashferry.service.auditing import deciding, note, note_refusal
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, invalid_from, listed
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.eligibility import found as found_plan
from flashferry.service.plans.offering import checked_title, sites_text
from flashferry.service.principal import Actor, Role
from flashferry.service.schedules.calendar import calendar_of, next_due, zone_of
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.plans import PlanState, StoredPlan, window_of
from flashferry.store.service.schedules import (
    Schedule,
    ScheduleKind,
    ScheduleState,
    add_schedule,
    schedule_of,
    set_schedule,
)

LEAST_WINDOW_S = 60
MOST_WINDOW_S = 7 * 86400


class Step(StrEnum):
    """An action on a schedule."""

    OWN = "own"
    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """A schedule to be created: see `Schedule`."""

    title: str
    kind: ScheduleKind
    subject: str
    calendar: str
    time_zone: str
    window_s: int


def object_of(schedule_id: str) -> str:
    """Return the object of audit entries."""
    return f"schedule:{schedule_id}"


def make_schedule(service: Service, actor: Actor, spec: ScheduleSpec) -> Schedule:
    """Create a schedule, owned by the caller: an operator at each of its sites. Its plan may be a draft yet.

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
            note(service, database, actor, "schedule.made", object_of(made.schedule_id), after=_details(made))
    except ServiceError as problem:
        if isinstance(problem, Forbidden):
            note_refusal(service, actor, "schedule.made", f"{spec.kind}:{spec.subject}", problem.sentence)
        raise
    return made


def step(service: Service, actor: Actor, schedule_id: str, what: Step, reason: str) -> Schedule:
    """Take over, hold, release or end a schedule; what it started continues.

    Raises:
        NotFound, Forbidden: The caller may not see or change it.
        Conflict, InvalidRequest: Its state does not allow it, or no reason.
    """
    action = f"schedule.{what}"
    with deciding(service, actor, action, object_of(schedule_id), unnoted=(NotFound,)) as database:
        before = found(database, schedule_id, actor)
        if not actor.may({Role.OPERATOR}, before.sites):
            raise _forbidden(what.value, before.sites)
        after = _after(before, what, actor, checked_reason(reason), service.now())
        set_schedule(
            *(database, schedule_id),
            **{name: getattr(after, name) for name in ("state", "owner", "next_at", "sentence")},
        )
        note(
            *(service, database, actor, action, object_of(schedule_id)),
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
    """Return the description of a night, a file below the configured folder (None: not configured).

    Raises:
        ConfigInvalid: There is no folder or no such file, or its path leads elsewhere.
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
    """Return a reason as it is stored. Raises `InvalidRequest` if it is empty or too long."""
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

"""Schedules as JSON types, with the next due times in local time."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.service.plans.eligibility import database_obstacle
from flashferry.service.plans.offering import sites_text
from flashferry.service.principal import Role
from flashferry.service.schedules.calendar import calendar_of, dues, oddity, zone_of
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.people import roles_lost
from flashferry.store.service.plans import StoredPlan, plan_of
from flashferry.store.service.schedules import Schedule, ScheduleKind, ScheduleState, occasions_of

_NEXT = 5
_OCCASIONS = 50


def schedule_json(database: sqlite3.Connection, schedule: Schedule, now: datetime) -> dict[str, object]:
    """Return a schedule, and why it would be refused if it were due now; images are not checked."""
    plan = plan_of(database, schedule.subject) if schedule.kind is ScheduleKind.PLAN else None
    why = "" if schedule.state is ScheduleState.ENDED else why_refused(database, schedule, plan, now)
    return dict(to_json(schedule)) | {"why_not": why, "next_local": _local(schedule)}


def schedule_details_json(database: sqlite3.Connection, schedule: Schedule, now: datetime) -> dict[str, object]:
    """Return a schedule with its next due times and past outcomes."""
    occasions = [to_json(one) for one in occasions_of(database, schedule.schedule_id, most=_OCCASIONS)]
    return schedule_json(database, schedule, now) | {"next": _next(schedule), "occasions": occasions}


def why_refused(database: sqlite3.Connection, schedule: Schedule, plan: StoredPlan | None, now: datetime) -> str:
    """Return why a schedule may not start now: its owner, or its plan; empty if it may."""
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
    except ConfigInvalid:  # the machine lost its zones
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

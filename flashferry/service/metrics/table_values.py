"""Metrics of the service's tables: jobs, plans, images, schedules, notices."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import timedelta

from flashferry.service.metrics.exposition import Sheet
from flashferry.store.service.database import ServiceDatabase, moment_of
from flashferry.store.service.figures import TableFigures, WaitingPlan, table_figures
from flashferry.store.service.images import ImageState
from flashferry.store.service.jobs import JobKind, Outcome, ScheduleState
from flashferry.store.service.plans import PlanState

_JOB_OPEN = ("queued", "starting", "running")
_JOB_ENDS = ("done", "failed", "cancelled", "dead")
_OUTCOMES = (Outcome.STARTED, Outcome.MISSED, Outcome.REFUSED)


def put_tables(sheet: Sheet, database: ServiceDatabase) -> None:
    """Set the metrics of the service's tables."""
    try:
        with database.reading() as reading:
            _put_figures(sheet, table_figures(reading))
    except sqlite3.Error:
        sheet.put("journal_readable", 0)


def _put_figures(sheet: Sheet, tables: TableFigures) -> None:
    # All states are exported, zeros too: a series that starts at one never shows an increase.
    for kind in JobKind:
        for state in _JOB_OPEN:
            sheet.put("jobs", tables.jobs.get((kind, state), 0), kind, state)
        for how in _JOB_ENDS:
            sheet.put("jobs_ended", tables.jobs_ended.get((kind, how), 0), kind, how)
    sheet.put_time("oldest_queued_job_timestamp_seconds", tables.oldest_queued_at)
    _put_states(sheet, "plans", PlanState, tables.plans)
    _put_states(sheet, "images", ImageState, tables.images)
    _put_states(sheet, "schedules", ScheduleState, tables.schedules)
    _put_states(sheet, "occasions", _OUTCOMES, tables.occasions)
    sheet.put("image_bytes", tables.image_bytes)
    sheet.put("audit_entries", tables.audit_entries)
    for hook in tables.hooks:
        sheet.put("notices_waiting", hook.waiting, hook.name)
        sheet.put("notices_given_up", hook.given_up, hook.name)
        sheet.put_time("oldest_waiting_notice_timestamp_seconds", hook.oldest_at, hook.name)


def put_plans(sheet: Sheet, plans: Iterable[WaitingPlan]) -> None:
    """Set the metrics of plans that wait for an approval."""
    waiting = tuple(plans)
    sheet.put("plans_waiting", len(waiting))
    if waiting:
        sheet.put_time("oldest_waiting_plan_timestamp_seconds", min(one.made_at for one in waiting))
    starts = [moment_of(one.ends_at) - timedelta(seconds=one.duration_s) for one in waiting if one.ends_at is not None]
    sheet.put_time("waiting_plan_latest_start_timestamp_seconds", min(starts, default=None))


def _put_states(sheet: Sheet, name: str, states: Iterable[str], found: Mapping[str, int]) -> None:
    for state in states:
        sheet.put(name, found.get(state, 0), state)

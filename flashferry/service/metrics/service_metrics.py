"""Metrics of the service itself: tables, disks, background tasks, the depot, the nights in the lab."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from flashferry.api.state import newest_backup
from flashferry.core.errors import FlashferryError
from flashferry.depot.messages import release
from flashferry.depot.status import DepotFound
from flashferry.service.background import TaskState
from flashferry.service.metrics.exposition import Sheet
from flashferry.store.nights import nights, series_nights
from flashferry.store.service.figures import TableFigures
from flashferry.store.service.images import ImageState
from flashferry.store.service.jobs import JobKind
from flashferry.store.service.plans import PlanState
from flashferry.store.service.schedules import Outcome, ScheduleState

_JOB_OPEN = ("queued", "starting", "running")
_JOB_ENDS = ("done", "failed", "cancelled", "dead")
_OUTCOMES = (Outcome.STARTED, Outcome.MISSED, Outcome.REFUSED)


def put_tables(sheet: Sheet, tables: TableFigures) -> None:
    """Set the metrics of the service's tables."""
    # All states are there, zeros too: a series that begins at one has never increased.
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


def put_disks(sheet: Sheet, folders: Mapping[str, Path]) -> None:
    """Set the space on the disks of some folders; a missing folder is left out."""
    for name, folder in folders.items():
        with suppress(OSError):
            found = shutil.disk_usage(folder)
            sheet.put("disk_free_bytes", found.free, name)
            sheet.put("disk_size_bytes", found.total, name)


def put_tasks(sheet: Sheet, states: Iterable[TaskState]) -> None:
    """Set the state of the background tasks."""
    for one in states:
        sheet.put_time("keeper_last_look_timestamp_seconds", one.looked_at, one.name)
        sheet.put("keeper_failures", one.failures, one.name)
        sheet.put("keeper_good", float(one.is_good), one.name)


def put_depot(sheet: Sheet, found: DepotFound | None) -> None:
    """Set the state of the depot; one that does not answer is not up."""
    view = None if found is None else found.view
    sheet.put("depot_up", float(view is not None))
    if view is None:
        return
    sheet.put_time("depot_start_timestamp_seconds", datetime.fromtimestamp(view.since, UTC))
    sheet.put("depot_runs", len(view.runs))
    for site in view.sites:
        sheet.put("depot_copies", site.copies, site.site)
        sheet.put("depot_copies_waiting", site.waiting, site.site)


def put_nights(sheet: Sheet, state: Path) -> None:
    """Set the results of the last night in the lab, if any."""
    # If the history of nights cannot be read, all other metrics still are.
    with suppress(FlashferryError):
        for night in nights(state, last=1):
            sheet.put_time("night_end_timestamp_seconds", night.ended_at)
            sheet.put("night_exit_code", night.exit_code)
        for colour, count in Counter(one.row.colour for one in series_nights(state, last=1)).items():
            sheet.put("night_series", count, colour)


def put_backup(sheet: Sheet, folder: Path | None) -> None:
    """Set the time of the newest backup, if there is one."""
    if folder is not None:
        sheet.put_time("state_backup_timestamp_seconds", newest_backup(folder))


def put_build(sheet: Sheet) -> None:
    """Set the release."""
    sheet.put("service_build_info", 1, release())


def _put_states(sheet: Sheet, name: str, states: Iterable[str], found: Mapping[str, int]) -> None:
    for state in states:
        sheet.put(name, found.get(state, 0), state)

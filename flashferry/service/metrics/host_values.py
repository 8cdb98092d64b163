"""Metrics of the service's host: disks, background tasks, depot, lab nights, backup, release."""

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


def put_disks(sheet: Sheet, folders: Mapping[str, Path]) -> None:
    """Set size and free space of the disks with these folders; a missing folder is left out."""
    for name, folder in folders.items():
        with suppress(OSError):
            found = shutil.disk_usage(folder)
            sheet.put("disk_free_bytes", found.free, name)
            sheet.put("disk_size_bytes", found.total, name)


def put_tasks(sheet: Sheet, states: Iterable[TaskState]) -> None:
    """Set the metrics of background tasks."""
    for one in states:
        sheet.put_time("keeper_last_look_timestamp_seconds", one.last_pass_at, one.name)
        sheet.put("keeper_failures", one.failures, one.name)
        sheet.put("keeper_good", float(one.is_good), one.name)


def put_depot(sheet: Sheet, found: DepotFound | None) -> None:
    """Set the metrics of the depot; one that does not answer is down."""
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
    """Set the results of the last lab night, if there is one."""
    # An unreadable history of nights must not suppress the other metrics.
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
    """Set the metric with the release."""
    sheet.put("service_build_info", 1, release())

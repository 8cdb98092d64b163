"""Answer to a Prometheus scrape: metrics of runs, of the service's tables and of its host."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flashferry.api.state import newest_backup
from flashferry.core.errors import FlashferryError
from flashferry.depot.handshake import release
from flashferry.depot.status import DepotFound
from flashferry.model.states import Phase, RunState, State
from flashferry.monitor.metrics import COPY_SECONDS_BUCKETS, DOING, STATES
from flashferry.service.background import TaskState
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.snapshot import DeviceNow, RunNow, sum_up
from flashferry.service.metrics.counting import COPY_RATE_BUCKETS, MOST_NAMED, Counted
from flashferry.service.metrics.exposition import Sheet
from flashferry.service.service import Service
from flashferry.store.nights import nights, series_nights
from flashferry.store.service.database import ServiceDatabase, moment_of
from flashferry.store.service.figures import TableFigures, WaitingPlan, table_figures
from flashferry.store.service.images import ImageState
from flashferry.store.service.jobs import JobKind, Outcome, ScheduleState
from flashferry.store.service.plans import PlanState

_HOLDS = ("paused", "waiting", "stopping")

_BY_JOURNAL: Mapping[str, str] = {
    State.PLANNED: "checking",
    State.CHECKED: "checking",
    State.JOURNALED: "tuning",
    State.TUNED: "tuning",
    State.COPYING: "copying",
    State.COPIED: "verifying",
    State.VERIFIED: "restoring",
    State.RESTORED: "restoring",
}
"""Activity by the journal's last state, for runs without events."""


def put_snapshot(sheet: Sheet, snapshot: Snapshot) -> None:
    """Set the metrics of runs and devices."""
    sheet.put("journal_readable", float(not snapshot.trouble))
    sheet.put_time("journal_read_timestamp_seconds", snapshot.read_at)
    newest = _newest(snapshot.runs)
    sites = {one.site for one in newest.values()}
    _put_devices(sheet, newest.values(), sites)
    _put_unrestored(sheet, snapshot, newest, sites)
    for state in RunState:
        sheet.put("runs", sum(one.state is state for one in snapshot.tonight), state)
    alive = [one for one in snapshot.runs if one.is_alive]
    for run in alive:
        _put_run(sheet, run)
    for site in sites:
        _put_site(sheet, site, alive, snapshot)


def put_counted(sheet: Sheet, counted: Counted) -> None:
    """Set the metrics of ended copies."""
    for (site, transport, is_tuned, outcome, verdict), one in counted.copies.items():
        sheet.add("transfers", one.number, site, outcome, verdict)
        sheet.add("transport_transfers", one.number, site, transport, outcome, str(is_tuned).lower())
        sheet.add("copied_bytes", one.acked_bytes, site, transport)
    for (site, transport), spread in counted.rates.items():
        sheet.put_spread("copy_rate_bytes_per_second", COPY_RATE_BUCKETS, spread, site, transport)
    for site, spread in counted.durations.items():
        sheet.put_spread("copy_seconds", COPY_SECONDS_BUCKETS, spread, site)


def state_of(device: DeviceNow) -> str:
    """Return a device's state as a label value; `retrying` of a run's own metrics counts as waiting here."""
    if device.phase is not Phase.IN_PROGRESS:
        return str(device.phase)
    if device.rate_bytes_per_s > 0:
        return "copying"
    if device.text:
        return "waiting"
    return DOING.get(device.step) or _BY_JOURNAL.get(device.step, "other")


def _newest(runs: Iterable[RunNow]) -> dict[str, DeviceNow]:
    """Return each device in the latest run that has it; live runs come first."""
    found: dict[str, DeviceNow] = {}
    for run in sorted(runs, key=lambda one: not one.is_alive):
        for device in run.devices:
            found.setdefault(device.host, device)
    return found


def _put_devices(sheet: Sheet, devices: Iterable[DeviceNow], sites: Iterable[str]) -> None:
    counts = Counter((one.site, state_of(one)) for one in devices)
    for site in sites:
        for state in STATES:
            sheet.add("devices", counts[site, state], site, state.replace(" ", "_"))


def _put_unrestored(sheet: Sheet, snapshot: Snapshot, newest: Mapping[str, DeviceNow], sites: Iterable[str]) -> None:
    """Set the numbers of unrestored devices, from the journal and the files beside it."""
    run_of: dict[str, str] = {}
    site_of = {host: one.site for host, one in newest.items()}
    for run in snapshot.runs:
        site_of |= {one.host: one.site for one in run.devices if one.host in run.unrestored}
        for host in run.unrestored:
            run_of.setdefault(host, run.run_id)
    for lost in snapshot.lost:
        run_of.setdefault(lost.host, lost.run_id)
    # Export zeros too: an alert needs its series before the first failure. An unknown site is empty.
    for site in {"", *sites}:
        sheet.put("unrestored_devices", 0, site)
    for host in run_of:
        sheet.add("unrestored_devices", 1, site_of.get(host, ""))
    for host, run_id in sorted(run_of.items())[:MOST_NAMED]:
        sheet.put("unrestored_device", 1, site_of.get(host, ""), host, run_id)


def _put_run(sheet: Sheet, run: RunNow) -> None:
    sheet.put("run_info", 1, run.run_id, run.verb)
    sheet.put_time("last_event_timestamp_seconds", run.last_event_at or None, run.run_id)
    sheet.put_time("run_window_end_timestamp_seconds", run.until, run.run_id)
    sheet.put_time("run_forecast_end_timestamp_seconds", run.ends_at, run.run_id)
    for reason in _HOLDS:
        is_held = run.hold == reason or (reason == "waiting" and run.waiting_wave is not None)
        sheet.put("run_held", float(is_held), run.run_id, reason)


def _put_site(sheet: Sheet, site: str, alive: Iterable[RunNow], snapshot: Snapshot) -> None:
    whole = sum_up([one.sites[site] for one in alive if site in one.sites], snapshot.at)
    sheet.add("copies_running", whole.copying, site)
    sheet.add("acknowledged_bytes_per_second", whole.rate_bytes_per_s, site)
    sheet.add("remaining_bytes", whole.left_bytes, site)
    if whole.cap_bytes_per_s is not None:
        sheet.put("site_cap_bytes_per_second", whole.cap_bytes_per_s, site)


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


def answer(
    service: Service, snapshot: Snapshot, counted: Counted, tasks: Sequence[TaskState], depot: DepotFound | None
) -> bytes:
    """Return all metrics in Prometheus' text format."""
    sheet = Sheet()
    put_snapshot(sheet, snapshot)
    put_plans(sheet, snapshot.plans)
    put_counted(sheet, counted)
    put_tables(sheet, service.database)
    put_disks(sheet, {"state": service.state, "images": service.images})
    put_tasks(sheet, tasks)
    put_depot(sheet, depot)
    put_nights(sheet, service.state)
    put_backup(sheet, service.settings.metrics.backups)
    put_build(sheet)
    return sheet.text()

"""Metrics of runs, devices and copies, from a snapshot of the live state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from flashferry.model.states import Phase, RunState, State
from flashferry.monitor.metrics import COPY_SECONDS_BUCKETS, DOING, STATES
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.snapshot import DeviceNow, RunNow, sum_up
from flashferry.service.metrics.counting import COPY_RATE_BUCKETS, MOST_NAMED, Counted
from flashferry.service.metrics.exposition import Sheet

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

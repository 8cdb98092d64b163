"""Where a run stands, read when it is scraped: between two scrapes it costs nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flashferry.model.states import Phase
from flashferry.monitor.progress import Device, Fleet, Tally
from tasks.steps import STEPS

DOING = {step.word: step.doing for step in STEPS if step.doing is not None}
"""What a device does at a step, by the step's word."""

STATES = (
    Phase.QUEUED.value,
    *dict.fromkeys(DOING.values()),
    "waiting",
    "retrying",
    "other",
    *(phase.value for phase in Phase if phase.is_over),
)


def state_of(device: Device) -> str:
    """Return a device's state as a label: one of `STATES`."""
    if device.is_over or device.phase is Phase.QUEUED:
        return device.phase.value
    if device.is_retrying:
        return "retrying"
    if device.waits:
        return "waiting"
    return "copying" if device.is_copying else DOING.get(device.step, "other")


class FleetCollector(Collector):
    """Turns what follows a run into metrics.

    Args:
        fleet: What follows the run.
        lock: Held while it takes an event in.
    """

    def __init__(self, fleet: Fleet, lock: threading.Lock) -> None:
        self._fleet, self._lock = fleet, lock

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        with self._lock:
            return iter([self._devices(), *self._sites(), *self._run()])

    def _devices(self) -> Metric:
        found = Counter((device.site, state_of(device)) for device in self._fleet.devices.values())
        family = GaugeMetricFamily("flashferry_devices", "Devices by site and state.", labels=["site", "state"])
        for site in self._fleet.sites:
            for state in STATES:
                family.add_metric([site, state.replace(" ", "_")], found[site, state])
        return family

    def _sites(self) -> list[Metric]:
        acked = CounterMetricFamily(
            "flashferry_acknowledged_bytes", "Bytes that devices acknowledged, repeated copies too.", labels=["site"]
        )
        gauges = {
            name: GaugeMetricFamily(f"flashferry_{name}", text, labels=["site"])
            for name, text in (
                ("copies_running", "Copies under way."),
                ("acknowledged_bytes_per_second", "Rate of all copies under way, smoothed over some seconds."),
                ("remaining_bytes", "Bytes that are still to be copied."),
                ("site_cap_bytes_per_second", "What all copies of a site may take together; missing without a cap."),
            )
        }
        for site, tally in self._fleet.sites.items():
            acked.add_metric([site], tally.received_bytes)
            for name, value in _gauges(tally).items():
                gauges[name].add_metric([site], value)
        return [acked, *gauges.values()]

    def _run(self) -> list[Metric]:
        held = GaugeMetricFamily("flashferry_run_held", "Whether the run is held up.", labels=["reason"])
        for reason in ("paused", "waiting", "stopping"):
            held.add_metric([reason], float(self._fleet.hold == reason))
        info = GaugeMetricFamily("flashferry_run_info", "Always 1; which run this is.", labels=["run_id"])
        info.add_metric([self._fleet.run_id], 1)
        return [held, info]


def _gauges(tally: Tally) -> dict[str, float]:
    found = {
        "copies_running": float(tally.copies),
        # What a sum of many small steps up and down leaves is no rate.
        "acknowledged_bytes_per_second": max(0.0, tally.rate_bytes_per_s) if tally.copies else 0.0,
        "remaining_bytes": float(max(0, tally.todo_bytes - tally.acked_bytes)),
    }
    if tally.cap_bytes_per_s is not None:
        found["site_cap_bytes_per_second"] = tally.cap_bytes_per_s
    return found

"""Metrics of a run, computed when they are scraped."""

from __future__ import annotations

import threading
import time
import collections
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flashferry.core.errors import Kind
from flashferry.model.states import Phase
from flashferry.monitor.events import Event
from flashferry.monitor.metrics.endpoint import endpoint
from flashferry.monitor.metrics.instruments import RunInstruments
from flashferry.monitor.progress import Device, Fleet, Roster, Tally
from tasks.steps import STEPS
from tasks.verify import VERIFY

DOING = {step.word: step.doing for step in STEPS if step.doing is not None}
"""State label of a device by its step."""

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
    """Converts the followed state of a run to metrics.

    Args:
        fleet: The followed run.
        lock: Held while it is updated.
    """

    def __init__(self, fleet: Fleet, lock: threading.Lock) -> None:
        self._fleet, self._lock = fleet, lock

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        with self._lock:
            return iter([self._devices(), *self._sites(), *self._run()])

    def _devices(self) -> Metric:
        found = collections.Counter((device.site, state_of(device)) for device in self._fleet.devices.values())
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
        # A remainder of rounding is no rate.
        "acknowledged_bytes_per_second": max(0.0, tally.rate_bytes_per_s) if tally.copies else 0.0,
        "remaining_bytes": float(max(0, tally.todo_bytes - tally.acked_bytes)),
    }
    if tally.cap_bytes_per_s is not None:
        found["site_cap_bytes_per_second"] = tally.cap_bytes_per_s
    return found


@contextmanager
def run_metrics(target: str, roster: Roster, last_step: str) -> Iterator[RunMetrics]:
    """Serve a run's metrics while the block runs; yield their event receiver.

    Args:
        target: `[ADDRESS:]PORT`.
        roster: The devices of the run.
        last_step: Last step of a device, if the run has no event for its end.

    Raises:
        ConfigInvalid: The port cannot be bound.
    """
    metrics = RunMetrics(roster, last_step)
    with endpoint(metrics.registry, target):
        yield metrics


class RunMetrics:
    """Updates metrics from events, in constant time per event."""

    def __init__(self, roster: Roster, last_step: str) -> None:
        self._fleet = Fleet(roster, last_step)
        self._lock = threading.Lock()
        self._instruments = RunInstruments()
        self._instruments.registry.register(FleetCollector(self._fleet, self._lock))
        for site in self._fleet.sites:
            # Start at zero: a series that starts at one has never increased.
            self._instruments.restores_incomplete.labels(site=site)
            self._instruments.retries.labels(site=site)
        self._hash_from: dict[str, float] = {}
        self._waits_from: dict[str, tuple[str, float]] = {}

    @property
    def registry(self) -> CollectorRegistry:
        """Return the registry."""
        return self._instruments.registry

    def __call__(self, event: Event) -> None:
        """Process an event; called from several threads."""
        with self._lock:
            self._fleet.take(event, time.monotonic())
            site = self._fleet.devices[event.host].site if event.host is not None else ""
        self._instruments.last_event.set_to_current_time()
        if event.host is not None and event.status != "progress":
            self._time(event, event.host)
            self._count(event, site)

    def _time(self, event: Event, host: str) -> None:
        """Measure the duration of hashes and of waiting."""
        if event.status == "queued":
            self._waits_from.setdefault(host, (event.step, event.at_s))
        elif (waited := self._waits_from.pop(host, None)) is not None:
            step, from_s = waited
            self._instruments.wait_seconds.labels(step=step).observe(max(0.0, event.at_s - from_s))
        if event.step == VERIFY.word and event.status == "started":
            self._hash_from[host] = event.at_s
        elif event.step == VERIFY.word and event.status == "done" and host in self._hash_from:
            self._instruments.hash_seconds.observe(max(0.0, event.at_s - self._hash_from.pop(host)))

    def _count(self, event: Event, site: str) -> None:
        found = self._instruments
        if event.transfer is not None:
            found.ended(
                site,
                transport=event.transfer.transport,
                is_delivered=event.transfer.is_delivered,
                verdict=event.transfer.verdict,
                duration_s=event.transfer.duration_s,
                retransmitted_bytes=event.transfer.retransmitted_bytes,
            )
        if event.status == "retry":
            found.retries.labels(site=site).inc()
        elif event.step == "device":
            if event.failure is not None:
                found.device_failures.labels(kind=event.failure).inc()
            if event.failure == Kind.LOGIN_REFUSED:
                found.login_failures.labels(side="device").inc()
            if event.restored == "incomplete":
                found.restores_incomplete.labels(site=site).inc()

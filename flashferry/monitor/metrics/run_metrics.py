"""Metrics of a run over a fleet, made of its events."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from flashferry.core.errors import Kind
from flashferry.monitor.events import Event
from flashferry.monitor.metrics.endpoint import endpoint
from flashferry.monitor.metrics.fleet_collector import FleetCollector
from flashferry.monitor.metrics.instruments import RunInstruments
from flashferry.monitor.progress import Fleet, Roster
from tasks.verify import VERIFY


@contextmanager
def run_metrics(target: str, roster: Roster, last_step: str) -> Iterator[RunMetrics]:
    """Serve a run's metrics for the time of a block; yield what takes its events.

    Args:
        target: `[ADDRESS:]PORT`.
        roster: Which devices the run has.
        last_step: The last step of a device, where the run has no event for its end.

    Raises:
        ConfigInvalid: The port cannot be listened on.
    """
    metrics = RunMetrics(roster, last_step)
    with endpoint(metrics.registry, target):
        yield metrics


class RunMetrics:
    """Takes events and keeps metrics of them; constant time per event."""

    def __init__(self, roster: Roster, last_step: str) -> None:
        self._fleet = Fleet(roster, last_step)
        self._lock = threading.Lock()
        self._instruments = RunInstruments()
        self._instruments.registry.register(FleetCollector(self._fleet, self._lock))
        for site in self._fleet.sites:
            # From zero on: a series that begins at one has never increased.
            self._instruments.restores_incomplete.labels(site=site)
            self._instruments.retries.labels(site=site)
        self._hash_from: dict[str, float] = {}
        self._waits_from: dict[str, tuple[str, float]] = {}

    @property
    def registry(self) -> CollectorRegistry:
        """Return where the metrics are."""
        return self._instruments.registry

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""
        with self._lock:
            self._fleet.take(event, time.monotonic())
            site = self._fleet.devices[event.host].site if event.host is not None else ""
        self._instruments.last_event.set_to_current_time()
        if event.host is not None and event.status != "progress":
            self._time(event, event.host)
            self._count(event, site)

    def _time(self, event: Event, host: str) -> None:
        """Time the hash, and what a device waited before it went on."""
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

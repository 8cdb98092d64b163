"""Prometheus metrics of a running `stage` or `serve`; importing this module takes a tenth of a second."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.metadata import version
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.fileserver import EventKind, ServerEvent, TransferState
from flashferry.model.states import Phase
from flashferry.monitor.events import Event
from flashferry.monitor.progress import Device, Fleet, Roster, Tally
from flashferry.transports import WAYS
from tasks.steps import STEPS
from tasks.verify import VERIFY

PREFIX = "flashferry_"

COPY_SECONDS_BUCKETS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400)


class MetricKind(StrEnum):
    """Prometheus type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class MetricName(Struct, frozen=True, kw_only=True):
    """A metric.

    Attributes:
        name: Without `flashferry_`, and for a counter without `_total`.
        says: Description.
        kind: Prometheus type.
    """

    name: str
    says: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE

    def split_by(self, *labels: str) -> MetricName:
        """Return the metric with further labels."""
        return replace(self, labels=(*self.labels, *labels))

    @property
    def shown(self) -> str:
        """Full name in rules and dashboards; of a histogram the stem."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is MetricKind.COUNTER else ''}"


TRANSFERS = MetricName(
    name="transfers",
    says="transfers that ended",
    labels=("site", "outcome", "verdict"),
    kind=MetricKind.COUNTER,
)

TRANSPORT_TRANSFERS = MetricName(
    name="transport_transfers",
    says="transfers that ended, by how they were fetched",
    labels=("site", "transport", "outcome"),
    kind=MetricKind.COUNTER,
)

COPY_SECONDS = MetricName(
    name="copy_seconds",
    says="duration of delivered transfers",
    labels=("site",),
    kind=MetricKind.HISTOGRAM,
)

_HASH_S = (5, 10, 20, 40, 60, 120, 180, 300, 600, 1200)

_WAIT_S = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400)

_TRANSPORTS = frozenset(one.name for one in WAYS)

_FROM_THE_START = (
    Kind.LOGIN_REFUSED,
    Kind.DEVICE_UNREACHABLE,
    Kind.TRANSFER_STALLED,
    Kind.RESTORE_INCOMPLETE,
    Kind.POLICY_VIOLATION,
)


class Instruments:
    """Metrics that are updated by events, in a registry of their own.

    Attributes:
        registry: One per run, so that two in one process do not mix.
        transfers: Ended transfers by site, outcome (`delivered`, `failed`) and verdict.
        by_transport: The same by site, transport and outcome; another label would change the series of `transfers`.
        retransmitted: Retransmitted bytes of ended transfers, by site.
        login_failures: Refused logins: by devices to us (`device`), by our FTP server to others (`ftp`).
        copy_seconds: First byte to last acknowledgement of delivered transfers, by site.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        build = Gauge(
            "flashferry_build_info", "Always 1; which flashferry this is.", ["version"], registry=self.registry
        )
        build.labels(version=version("flashferry")).set(1)
        self.transfers = self._counter(TRANSFERS.name, f"{TRANSFERS.says.capitalize()}.", *TRANSFERS.labels)
        self.by_transport = self._counter(
            TRANSPORT_TRANSFERS.name, f"{TRANSPORT_TRANSFERS.says.capitalize()}.", *TRANSPORT_TRANSFERS.labels
        )
        self.retransmitted = self._counter("retransmitted_bytes", "Bytes sent again in transfers that ended.", "site")
        self.login_failures = self._counter(
            "login_failures", "Logins refused, by devices or by our FTP server.", "side"
        )
        self.copy_seconds = self._histogram(
            COPY_SECONDS.name, f"{COPY_SECONDS.says.capitalize()}.", COPY_SECONDS_BUCKETS, *COPY_SECONDS.labels
        )

    def ended(
        self,
        site: str,
        *,
        transport: str,
        is_delivered: bool,
        verdict: str,
        duration_s: float,
        retransmitted_bytes: int | None,
    ) -> None:
        """Count an ended transfer."""
        outcome = "delivered" if is_delivered else "failed"
        self.transfers.labels(site=site, outcome=outcome, verdict=verdict).inc()
        self.by_transport.labels(
            site=site, transport=transport if transport in _TRANSPORTS else "other", outcome=outcome
        ).inc()
        self.retransmitted.labels(site=site).inc(retransmitted_bytes or 0)
        if is_delivered:
            self.copy_seconds.labels(site=site).observe(duration_s)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"{PREFIX}{name}", text, labels, buckets=buckets, registry=self.registry)


class RunInstruments(Instruments):
    """Additional metrics of a run.

    Attributes:
        device_failures: Failed attempts by type of the first failure.
        restores_incomplete: Devices that could not be restored, by site.
        retries: Retried devices, by site.
        hash_seconds: Duration of the hash on the device.
        wait_seconds: Waiting time for a slot, by the step after it.
        last_event: Time of the last event, seconds since 1970.
    """

    def __init__(self) -> None:
        super().__init__()
        self.device_failures = self._counter("device_failures", "Devices that came to a bad end, by kind.", "kind")
        self.restores_incomplete = self._counter(
            "restores_incomplete", "Devices that could not be restored as they were.", "site"
        )
        self.retries = self._counter("retries", "Devices started again after a failure.", "site")
        self.hash_seconds = self._histogram("hash_seconds", "Duration of the hash on the device.", _HASH_S)
        self.wait_seconds = self._histogram("wait_seconds", "Time that devices waited for a slot.", _WAIT_S, "step")
        self.last_event = Gauge(
            "flashferry_last_event_timestamp_seconds",
            "Time of the last event of the run.",
            registry=self.registry,
        )
        # A series that is missing until the first failure triggers no alert: its rate is unknown.
        self.login_failures.labels(side="device")
        for kind in _FROM_THE_START:
            self.device_failures.labels(kind=kind)


LOOPBACK = "127.0.0.1"


def parsed_address(text: str) -> tuple[str, int]:
    """Parse `[ADDRESS:]PORT`; an IPv6 address is in brackets.

    Raises:
        ConfigInvalid: It is invalid.
    """
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        ip_address(address)
        number = int(port) if port.isascii() and port.isdecimal() else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 65_535:
        raise ConfigInvalid(
            f"--metrics {text!r}: expected [ADDRESS:]PORT with a port from 1 to 65535",
            hint="For example --metrics 9912, or --metrics 192.0.2.1:9912 to be reached from other hosts",
        )
    return address, number


@contextmanager
def endpoint(registry: CollectorRegistry, target: str) -> Iterator[None]:
    """Serve metrics while the block runs.

    Args:
        registry: The metrics.
        target: `[ADDRESS:]PORT`.

    Raises:
        ConfigInvalid: The target is invalid, or cannot be bound.
    """
    address, port = parsed_address(target)
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise ConfigInvalid(
            f"--metrics {target}: cannot listen on {address} port {port}: {error.strerror}",
            hint="Choose another port; another run may hold this one",
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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


SITE = "serve"
"""Site label: without a run the server knows no sites, and client addresses would be unbounded labels."""

_RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)


@contextmanager
def serve_metrics(target: str, cap_bytes_per_s: float | None) -> Iterator[ServeMetrics]:
    """Serve a file server's metrics while the block runs; yield the object that receives the server's events.

    Args:
        target: `[ADDRESS:]PORT`.
        cap_bytes_per_s: Rate limit of all copies together; None for none.

    Raises:
        ConfigInvalid: The port cannot be bound.
    """
    metrics = ServeMetrics(cap_bytes_per_s)
    with endpoint(metrics.registry, target):
        yield metrics


class ServeMetrics(Collector):
    """Updates metrics from the server's events; remembers only active transfers."""

    def __init__(self, cap_bytes_per_s: float | None) -> None:
        self._cap_bytes_per_s = cap_bytes_per_s
        self._instruments = Instruments()
        self._instruments.registry.register(self)
        self._instruments.login_failures.labels(side="ftp")
        self._lock = threading.Lock()
        # By ticket: acknowledged bytes, rate, whether it stalls.
        self._running: dict[str, tuple[int, float, bool]] = {}
        self._acked_bytes = 0

    @property
    def registry(self) -> CollectorRegistry:
        """Return the registry."""
        return self._instruments.registry

    def __call__(self, event: ServerEvent) -> None:
        """Process an event of the server."""
        if event.kind is EventKind.LOGIN_FAILED:
            self._instruments.login_failures.labels(side="ftp").inc()
        seen = event.progress
        if seen is None:
            return
        with self._lock:
            before = self._running.pop(seen.ticket_id, None)
            is_stalled = seen.state is TransferState.STALLED
            if seen.state in _RUNNING:
                self._running[seen.ticket_id] = (seen.bytes_acked, seen.rate_bytes_per_s, is_stalled)
            if before is not None:
                self._acked_bytes += max(0, seen.bytes_acked - before[0])
        if seen.record is not None and event.kind in {EventKind.DONE, EventKind.FAILED}:
            self._instruments.ended(
                SITE,
                transport=seen.record.transport,
                is_delivered=seen.record.outcome == "delivered",
                verdict=seen.record.verdict.kind.value,
                duration_s=seen.record.duration_s,
                retransmitted_bytes=seen.record.retransmitted_bytes,
            )

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of active transfers."""
        with self._lock:
            running, acked_bytes = list(self._running.values()), self._acked_bytes
        acked = CounterMetricFamily(
            "flashferry_acknowledged_bytes", "Bytes that clients acknowledged.", labels=["site"]
        )
        acked.add_metric([SITE], acked_bytes)
        yield acked
        yield _gauge("copies_running", "Copies under way.", len(running))
        yield _gauge("copies_stalled", "Copies under way that stand still.", sum(one[2] for one in running))
        yield _gauge("acknowledged_bytes_per_second", "Rate of all copies under way.", sum(one[1] for one in running))
        if self._cap_bytes_per_s is not None:
            yield _gauge("site_cap_bytes_per_second", "What all copies may take together.", self._cap_bytes_per_s)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"flashferry_{name}", text, labels=["site"])
    family.add_metric([SITE], value)
    return family

"""Metrics that runs and the service both have, each defined once: name, labels, kind, and what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from flashferry.core.errors import Kind
from flashferry.transports import WAYS

PREFIX = "flashferry_"

COPY_SECONDS_BUCKETS = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400)


class MetricKind(StrEnum):
    """What a metric is to Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricName:
    """A metric.

    Attributes:
        name: Without `flashferry_`; that of a counter without `_total`, too.
        says: What it is, for the documentation and for Prometheus.
        labels: Its labels.
        kind: What it is to Prometheus.
    """

    name: str
    says: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE

    def split_by(self, *labels: str) -> MetricName:
        """Return the same metric with further labels, where more is known of what it counts."""
        return replace(self, labels=(*self.labels, *labels))

    @property
    def shown(self) -> str:
        """The name by which rules and dashboards ask for it; of a histogram the stem."""
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
    """The metrics that grow with events, in a registry of their own.

    Attributes:
        registry: Where they are; a run has its own, so that two in one process do not mix.
        transfers: Transfers that ended, by site, outcome (`delivered`, `failed`) and verdict.
        by_transport: The same by site, transport and outcome. A family of its own: one more label would make other
            series of `transfers`.
        retransmitted: Bytes sent again in transfers that ended, by site.
        login_failures: Logins refused: by devices to us (`device`), by our FTP server to others (`ftp`).
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
        """Count a transfer that ended."""
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
    """Those that only a run over a fleet has.

    Attributes:
        device_failures: Devices that came to a bad end, by the kind of the first failure; each attempt counts.
        restores_incomplete: Devices that could not be put back as they were, by site.
        retries: Devices started again after a failure, by site.
        hash_seconds: Duration of the hash on the device.
        wait_seconds: What devices waited for a slot, by the step that they waited before.
        last_event: Time of the last event, seconds since 1970.
    """

    def __init__(self) -> None:
        super().__init__()
        self.device_failures = self._counter("device_failures", "Devices that came to a bad end, by kind.", "kind")
        self.restores_incomplete = self._counter(
            "restores_incomplete", "Devices that could not be put back as they were.", "site"
        )
        self.retries = self._counter("retries", "Devices started again after a failure.", "site")
        self.hash_seconds = self._histogram("hash_seconds", "Duration of the hash on the device.", _HASH_S)
        self.wait_seconds = self._histogram("wait_seconds", "Time that devices waited for a slot.", _WAIT_S, "step")
        self.last_event = Gauge(
            "flashferry_last_event_timestamp_seconds",
            "Time of the last event of the run.",
            registry=self.registry,
        )
        # A series that is missing until the first trouble makes no alert: its rate is unknown, not above zero.
        self.login_failures.labels(side="device")
        for kind in _FROM_THE_START:
            self.device_failures.labels(kind=kind)

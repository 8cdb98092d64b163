"""Metrics of runs and of the service, each defined once: name, labels, type, description."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from flashferry.core.errors import Kind
from flashferry.core.values import replace
from flashferry.transports import WAYS

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
        # A series that is missing until the first failure triggers no alert: its rate is unknown.
        self.login_failures.labels(side="device")
        for kind in _FROM_THE_START:
            self.device_failures.labels(kind=kind)

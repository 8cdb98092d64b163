"""Metrics that runs and the service both have, each defined once: name, labels, kind, and what it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

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

"""Values of one Prometheus scrape, and their text format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from flashferry.core.redaction import sanitize
from flashferry.monitor.metrics import PREFIX, MetricKind
from flashferry.service.metrics.counting import METRICS, Spread
from flashferry.store.service.database import moment_of

_ABOVE = float("inf")

_MADE: dict[MetricKind, type[GaugeMetricFamily | CounterMetricFamily]] = {
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.COUNTER: CounterMetricFamily,
}


class Sheet(Collector):
    """Values of one scrape; a metric without values is exported too."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in METRICS}
        self._spreads: dict[str, dict[tuple[str, ...], tuple[Sequence[float], Spread]]] = {}

    def put(self, name: str, value: float, *labels: str) -> None:
        """Set the value of a metric with these labels."""
        self._values[name][_shown(labels)] = value

    def add(self, name: str, value: float, *labels: str) -> None:
        """Add to the value of a metric with these labels, from 0."""
        key = _shown(labels)
        self._values[name][key] = self._values[name].get(key, 0) + value

    def put_time(self, name: str, at: datetime | str | None, *labels: str) -> None:
        """Set a metric to a time in seconds since 1970; an unknown time is left out."""
        try:
            found = moment_of(at) if isinstance(at, str) else at
        except ValueError:
            return
        if found is not None:
            self.put(name, found.timestamp(), *labels)

    def put_spread(self, name: str, buckets: Sequence[float], spread: Spread, *labels: str) -> None:
        """Set a histogram."""
        self._spreads.setdefault(name, {})[_shown(labels)] = (buckets, spread)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, in the order of the table (interface of `prometheus_client`)."""
        for name, metric in METRICS.items():
            if metric.kind is MetricKind.HISTOGRAM:
                yield self._histogram(name)
                continue
            family = _MADE[metric.kind](PREFIX + name, metric.says, labels=metric.labels)
            for labels, value in self._values[name].items():
                family.add_metric(labels, value)
            yield family

    def _histogram(self, name: str) -> Metric:
        family = HistogramMetricFamily(PREFIX + name, METRICS[name].says, labels=METRICS[name].labels)
        for labels, (buckets, spread) in self._spreads.get(name, {}).items():
            family.add_metric(labels, _cumulated(buckets, spread), spread.total)
        return family

    def text(self) -> bytes:
        """Return the text format, including the metrics of this process."""
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return generate_latest(registry)


def _cumulated(buckets: Sequence[float], spread: Spread) -> list[tuple[str, float]]:
    found, sum_ = [], 0
    for bound, count in zip((*buckets, _ABOVE), spread.counts, strict=True):
        sum_ += count
        found.append(("+Inf" if bound == _ABOVE else f"{float(bound)}", float(sum_)))
    return found


def _shown(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(sanitize, labels))

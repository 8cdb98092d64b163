"""Metrics of the file server without a run, from its events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flashferry.fileserver import EventKind, ServerEvent, TransferState
from flashferry.monitor.metrics.endpoint import endpoint
from flashferry.monitor.metrics.instruments import Instruments

SITE = "serve"
"""Site label: without a run the server knows no sites, and client addresses would be unbounded labels."""

_RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)


@contextmanager
def serve_metrics(target: str, cap_bytes_per_s: float | None) -> Iterator[ServeMetrics]:
    """Serve a server's metrics while the block runs; yield their event receiver.

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

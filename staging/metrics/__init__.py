"""Metrics of a running `stage` or `serve` for Prometheus; importing this room takes a tenth of a second."""

from staging.metrics.endpoint import endpoint, parsed_address
from staging.metrics.run_metrics import RunMetrics, run_metrics
from staging.metrics.serve_metrics import ServeMetrics, serve_metrics

__all__ = ["RunMetrics", "ServeMetrics", "endpoint", "parsed_address", "run_metrics", "serve_metrics"]

"""Prometheus metrics of a running `stage` or `serve`; importing this package takes a tenth of a second."""

from flashferry.monitor.metrics.endpoint import endpoint, parsed_address
from flashferry.monitor.metrics.run_metrics import RunMetrics, run_metrics
from flashferry.monitor.metrics.serve_metrics import ServeMetrics, serve_metrics

__all__ = ["RunMetrics", "ServeMetrics", "endpoint", "parsed_address", "run_metrics", "serve_metrics"]

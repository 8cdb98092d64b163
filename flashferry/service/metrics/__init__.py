"""Metrics for Prometheus, from journal and tables, so that they outlive each run.

A run has metrics of its own while it lives (`flashferry.monitor.metrics`); a subject that both have goes by one name.
"""

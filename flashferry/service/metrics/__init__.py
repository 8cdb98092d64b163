"""Prometheus metrics of the service, from journal and tables, so that they outlive each run.

While a run lives it has metrics of its own (`flashferry.monitor.metrics`); what both report has the same name.
"""

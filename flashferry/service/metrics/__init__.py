"""Figures for Prometheus, of the journal and the service's tables, so that they outlive each run.

A run has figures of its own while it lives (`flashferry.monitor.metrics`); a subject that both have goes by one name.
"""

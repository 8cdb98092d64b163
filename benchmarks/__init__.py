"""Measurements of the FTP server beside its neighbours; see docs/benchmarks.md."""

"""Forecast a run: which device gets which image, when, how fast, and whether that fits its window.

Devices are checked read-only, rates are estimated from earlier copies, and the run is simulated by the rules that the
real run follows.
"""

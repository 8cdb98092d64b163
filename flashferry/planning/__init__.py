"""What would happen: which device gets what, when, how fast, and whether that fits.

Devices are looked at without changing anything, rates are estimated from what earlier copies showed, and the run is
played through on paper by the very rules that it will keep later.
"""

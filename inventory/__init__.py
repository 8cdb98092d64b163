"""The fleet as data, and the typed view on it.

Any Nornir inventory is taken, by folder or by plugin; what it says is checked with file, name and key before any device
is asked. Sites, time windows, image rules and the choice of devices are read here.
"""

"""A verb as a process of its own, which outlives whoever began it: its mark, its folder, and the first that it does.

A service and a site's agent begin runs so: whoever is killed at whatever moment, nothing is begun twice, and what a
process came to is found again by its files.
"""

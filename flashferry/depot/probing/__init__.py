"""Measure a path between a depot and its source: the ceilings of link and disks, and each method of copying.

`figures`, `findings` and `methods` are pure; `copying`, `far`, `web` and `path` start processes and connections. The
lab's experiments use the same parts.
"""

"""Events of a run, the progress that follows from them, and metrics.

An event is a word, a device and a few figures. Progress is derived from events alone, by the live view, by plain lines
and by metrics alike.
"""

"""How far a look at a fleet has come, on standard error: of many devices in numbers, for the plan has the reasons."""

from __future__ import annotations

import threading

from flashferry.output import EventLines, say
from inventory.described import counted
from staging.events import Event

EVERY_S = 2.0
FEW = 10
"""Up to so many devices each has its line."""


class PlanProgress:
    """Takes the events of a plan. Safe to use from all threads.

    Args:
        devices: How many devices are looked at.
    """

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._lines = EventLines()
        self._lock = threading.Lock()
        self._done = 0
        self._failed = 0
        self._told_s = 0.0

    def __call__(self, event: Event) -> None:
        """Print an event, or count it."""
        with self._lock:
            self._done += 1
            self._failed += event.status == "failed"
            is_due = event.at_s - self._told_s >= EVERY_S or self._done == self._devices
            if is_due:
                self._told_s = event.at_s
            done, failed = self._done, self._failed
        if self._devices <= FEW:
            self._lines(event)
        elif is_due:
            trouble = f", {failed} of them refused or out of reach" if failed else ""
            say(f"looked at {done} of {counted(self._devices, 'device')}{trouble}")

"""When a plan may be carried out: before its window, within it, after it. Pure; every surface asks here.

Moments are compared as moments, so midnight, a change of the clock and a window of another zone need no rule of their
own. They are printed in the zone in which the plan has them, with its offset from UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from flashferry.core.units import rough_duration

MOST_WAIT_S = 24 * 3600.0
"""A command waits so long for a window to open; an earlier start is refused before its run exists."""

_COUNTDOWN_S = (*(hours * 3600.0 for hours in range(24, 0, -1)), 1800.0, 600.0, 60.0)


class WindowState(StrEnum):
    """Where a moment lies."""

    BEFORE = "before"
    OPEN = "open"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWindow:
    """The time in which a plan may be carried out.

    Attributes:
        opens_at: The first moment, with a time zone; None: it is open from the start.
        ends_at: The moment from which on it is over, with a time zone; None: it has no end.
    """

    opens_at: datetime | None = None
    ends_at: datetime | None = None

    def state(self, now: datetime) -> WindowState:
        """Return where a moment, with a time zone, lies; one that ends before it opens is over."""
        if self.ends_at is not None and (now >= self.ends_at or self._never_opens):
            return WindowState.OVER
        return WindowState.BEFORE if self.opens_in_s(now) > 0 else WindowState.OPEN

    def opens_in_s(self, now: datetime) -> float:
        """Return the seconds until it opens; 0 where it has opened."""
        return 0.0 if self.opens_at is None else max((self.opens_at - now).total_seconds(), 0.0)

    def left_s(self, start: datetime) -> float:
        """Return the seconds from a start, or from the opening where that is later, to the end; infinite without."""
        if self.ends_at is None:
            return float("inf")
        first = start if self.opens_at is None else max(start, self.opens_at)
        return (self.ends_at - first).total_seconds()

    def why_closed(self, now: datetime) -> str:
        """Return why nothing may start at a moment, in a sentence with the times; empty where it is open."""
        state = self.state(now)
        if state is WindowState.OPEN:
            return ""
        if state is WindowState.BEFORE:
            assert self.opens_at is not None
            return f"its window opens {spoken(self.opens_at)}, in {rough_duration(self.opens_in_s(now))}"
        assert self.ends_at is not None
        if self._never_opens:
            assert self.opens_at is not None
            return f"its end, {spoken(self.ends_at)}, is before its window opens, {spoken(self.opens_at)}"
        return f"its window has passed: it was to end by {spoken(self.ends_at)}"

    @property
    def _never_opens(self) -> bool:
        return self.ends_at is not None and self.opens_at is not None and self.ends_at <= self.opens_at


def next_countdown_s(left_s: float) -> float:
    """Return how many seconds before the opening the next line of a countdown is due: by the hour, 30, 10, 1 min."""
    return next((mark for mark in _COUNTDOWN_S if mark < left_s), 0.0)


def spoken(moment: datetime) -> str:
    """Return a moment to the minute with its offset from UTC: `2026-11-30 22:00 UTC+01:00`."""
    seconds = f":{moment:%S}" if moment.second else ""
    offset = f"{moment:%z}"
    zone = "UTC" if not moment.utcoffset() else f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{moment:%Y-%m-%d %H:%M}{seconds} {zone}"

"""Whether a device still fits before the end of its time, and when what is under way must be ended. Pure but for `now`.

Two ends hold, the earlier one wins: that of the run (`--until`) and that of the site's window in the inventory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from flashferry.core.errors import Kind
from flashferry.model.plan_window import spoken
from flashferry.planning.device_queue import Hold
from inventory.time_window import TimeWindow, closes_at, next_opening
from inventory.view import HostView

MARGIN_S = 120.0
"""Kept free before the end: ending a copy, restoring and proving take seconds, a lost session or two a minute."""

WAIT_FOR_OPENING_S = 3600.0
"""A window that opens within so long is waited for; another one is another night's."""


def now_utc() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """The ends that a run has to keep.

    Attributes:
        until: When the run must have ended, with a time zone; None: no end of its own.
        windows: By device: when its site may be worked on; a device that is missing, or has none, at any time.
        expected_s: By device: seconds from its login to its last proof; one that is missing is taken for quick.
        margin_s: Seconds before the end at which what is under way is ended.
        now: Returns the present time, with a time zone.
    """

    until: datetime | None
    windows: Mapping[str, tuple[TimeWindow, ...]]
    expected_s: Mapping[str, float]
    margin_s: float = MARGIN_S
    now: Callable[[], datetime] = now_utc

    def over(self) -> Hold | None:
        """Return why no device may begin any more, or None: also a run that is paused, or not approved, has an end."""
        if self.until is None or (self.until - self.now()).total_seconds() > self.margin_s:
            return None
        text = f"the run's time ends {spoken(self.until)}, and {_minutes(self.margin_s)} are kept to restore"
        return Hold(kind=Kind.WINDOW_CLOSED, reason=text, for_good=True)

    def fit(self, host: str) -> Hold | None:
        """Return why a device may not begin now, or None where it may."""
        now, windows = self.now(), self.windows.get(host, ())
        if windows and _open_until(windows, now) is None:
            opens = _opens(windows, now.replace(microsecond=0))
            is_late = (opens - now).total_seconds() > WAIT_FOR_OPENING_S or (
                self.until is not None and opens >= self.until
            )
            return Hold(
                kind=Kind.WINDOW_CLOSED,
                reason=f"its time window is closed, and opens {spoken(opens)}",
                for_good=is_late,
            )
        end = self.ends_at(host)
        if end is None:
            return None
        left_s = (end - now).total_seconds() - self.margin_s
        needed_s = self.expected_s.get(host, 0.0)
        if left_s > needed_s:
            return None
        wants = f"it would take about {_minutes(needed_s)}" if needed_s else "nothing is begun so late"
        return Hold(
            kind=Kind.WINDOW_CLOSED,
            reason=f"does not fit any more: its time ends {spoken(end)}, in {_minutes(left_s + self.margin_s)}; "
            f"{wants}, and {_minutes(self.margin_s)} are kept to restore",
            for_good=True,
        )

    def ends_at(self, host: str) -> datetime | None:
        """Return when a device's present time ends, or None where it does not."""
        windows = self.windows.get(host, ())
        closing = _open_until(windows, self.now()) if windows else None
        ends = [end for end in (self.until, closing) if end is not None]
        return min(ends, default=None)

    def closing(self, host: str) -> Callable[[], str | None]:
        """Return a function that tells, once it is time, why a device that begins now is ended."""
        end = self.ends_at(host)
        if end is None:
            return lambda: None
        last = end - timedelta(seconds=self.margin_s)
        text = f"the time for this device ends {spoken(end)}; it was ended {_minutes(self.margin_s)} before"
        return lambda: text if self.now() >= last else None


def _open_until(windows: tuple[TimeWindow, ...], now: datetime) -> datetime | None:
    """Return when the present opening ends, or None; windows open and close by the minute."""
    return _closes(windows, now.replace(microsecond=0))


# A site's devices have the same windows, and all that wait for theirs are asked about again and again.
@lru_cache(maxsize=512)
def _closes(windows: tuple[TimeWindow, ...], second: datetime) -> datetime | None:
    return closes_at(windows, second)


@lru_cache(maxsize=512)
def _opens(windows: tuple[TimeWindow, ...], second: datetime) -> datetime:
    return next_opening(windows, second)[0]


def _minutes(seconds: float) -> str:
    return f"{max(seconds, 0.0):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


Tell = Callable[[str, str | None], None]
"""Takes what is waited for, with its time, and the site that is meant or None."""


class WindowNotice:
    """Asks a deadline whether devices fit, and tells what is waited for: once for a site and each opening.

    A run that begins tonight must not look as if it hung.

    Args:
        deadline: The ends to keep.
        views: The inventory's view on each device.
        tell: Takes what is new.
    """

    def __init__(self, deadline: Deadline, views: Mapping[str, HostView], tell: Tell) -> None:
        self._deadline, self._views, self._tell = deadline, views, tell
        self._told: set[tuple[str, str]] = set()

    def fit(self, host: str) -> Hold | None:
        """Return why a device may not begin now, or None where it may; called by one thread."""
        hold = self._deadline.fit(host)
        if hold is not None and not hold.for_good:
            site = self._views[host].site
            # Devices without a site have windows of their own.
            who = f"site {site}: " if site is not None else f"{host}: "
            if (who, hold.reason) not in self._told:
                self._told.add((who, hold.reason))
                self._tell(f"waits: {who}{hold.reason}", site)
        return hold

"""Whether a device still fits before the end of its time, and when what is under way must be ended. Pure but for `now`.

Two ends hold, the earlier one wins: that of the run (`--until`) and that of the site's window in the inventory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from flashferry.core.errors import Kind
from flashferry.core.units import rough_duration
from flashferry.core.value_description import counted
from flashferry.model.fleet_plan import MOST_WAIT_S, next_countdown_s, spoken
from flashferry.planning.device_queue import Hold
from inventory.host_view import HostView
from inventory.time_window import TimeWindow, closes_at, next_opening

MARGIN_S = 120.0
"""Kept free before the end: ending a copy, restoring and proving take seconds, a lost session or two a minute."""


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
        since: When the run started, with a time zone: a site is waited for once, and what is left when its window
            closes is for another run. None: no window has passed.
        margin_s: Seconds before the end at which what is under way is ended.
        now: Returns the present time, with a time zone.
    """

    until: datetime | None
    windows: Mapping[str, tuple[TimeWindow, ...]]
    expected_s: Mapping[str, float]
    since: datetime | None = None
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
            opens = _first(windows, now.replace(microsecond=0))[0]
            why_late = self._why_too_late(windows, opens, now)
            reason = f"its time window is closed, and opens {spoken(opens)}{why_late}"
            return Hold(kind=Kind.WINDOW_CLOSED, reason=reason, for_good=bool(why_late))
        end = self.ends_at(host)
        if end is None:
            return None
        left_s = (end - now).total_seconds() - self.margin_s
        needed_s = self.expected_s.get(host, 0.0)
        if left_s > needed_s:
            return None
        wants = f"it would take about {_minutes(needed_s)}" if needed_s else "nothing is started so late"
        return Hold(
            kind=Kind.WINDOW_CLOSED,
            reason=f"does not fit any more: its time ends {spoken(end)}, in {_minutes(left_s + self.margin_s)}; "
            f"{wants}, and {_minutes(self.margin_s)} are kept to restore",
            for_good=True,
        )

    def opens_in_s(self, host: str) -> float:
        """Return the seconds until a device's time window opens; 0 where it is open, or there is none."""
        now, windows = self.now(), self.windows.get(host, ())
        if not windows or _open_until(windows, now) is not None:
            return 0.0
        return (_first(windows, now.replace(microsecond=0))[0] - now).total_seconds()

    def _why_too_late(self, windows: tuple[TimeWindow, ...], opens: datetime, now: datetime) -> str:
        """Return why an opening is not waited for, as the end of a sentence; empty where it is."""
        if self.since is not None and (closed := _first(windows, self.since)[1]) <= now:
            return f", after the one of this run, which closed {spoken(closed)}"
        if self.until is not None and (self.until - opens).total_seconds() <= self.margin_s:
            return f", too late for the run, which ends {spoken(self.until)}"
        if (opens - now).total_seconds() > MOST_WAIT_S:
            return f", and a run waits no longer than {rough_duration(MOST_WAIT_S)}"
        return ""

    def ends_at(self, host: str) -> datetime | None:
        """Return when a device's present time ends, or None where it does not."""
        windows = self.windows.get(host, ())
        closing = _open_until(windows, self.now()) if windows else None
        ends = [end for end in (self.until, closing) if end is not None]
        return min(ends, default=None)

    def closing(self, host: str) -> Callable[[], str | None]:
        """Return a function that returns, once it is time, why a device that starts now is ended."""
        end = self.ends_at(host)
        if end is None:
            return lambda: None
        last = end - timedelta(seconds=self.margin_s)
        text = f"the time for this device ends {spoken(end)}; it was ended {_minutes(self.margin_s)} before"
        return lambda: text if self.now() >= last else None


def first_opening(views: Iterable[HostView], now: datetime) -> datetime:
    """Return now where any device may be worked on now, else when the first site opens."""
    windows = [one.windows for one in views]
    if any(not one or closes_at(one, now) is not None for one in windows):
        return now
    return min(next_opening(one, now)[0] for one in windows).astimezone(now.tzinfo)


def _open_until(windows: tuple[TimeWindow, ...], now: datetime) -> datetime | None:
    """Return when the present opening ends, or None; windows open and close by the minute."""
    return _closes(windows, now.replace(microsecond=0))


# A site's devices have the same windows, and all that wait for theirs are asked about again and again.
@lru_cache(maxsize=512)
def _closes(windows: tuple[TimeWindow, ...], second: datetime) -> datetime | None:
    return closes_at(windows, second)


@lru_cache(maxsize=512)
def _first(windows: tuple[TimeWindow, ...], second: datetime) -> tuple[datetime, datetime]:
    return next_opening(windows, second)


def _minutes(seconds: float) -> str:
    return f"{max(seconds, 0.0):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


Report = Callable[[str, str | None], None]
"""Takes what is waited for, with its time, and the site that is meant or None."""


class WindowNotice:
    """Asks a deadline whether devices fit, and reports what is waited for: a countdown for each site and opening.

    A run that begins tonight must not look as if it hung.

    Args:
        deadline: The ends to keep.
        views: The inventory's view on each device.
        report: Takes what is new.
    """

    def __init__(self, deadline: Deadline, views: Mapping[str, HostView], report: Report) -> None:
        self._deadline, self._views, self._report = deadline, views, report
        self._due_s: dict[tuple[str, str], float] = {}

    def fit(self, host: str) -> Hold | None:
        """Return why a device may not begin now, or None where it may; called by one thread."""
        hold = self._deadline.fit(host)
        if hold is not None and not hold.for_good:
            who, left_s = _site_or_device(self._views[host]), self._deadline.opens_in_s(host)
            if left_s <= self._due_s.get((who, hold.reason), float("inf")):
                self._due_s[who, hold.reason] = next_countdown_s(left_s)
                text = f"waits: {who}: {hold.reason}, in {rough_duration(left_s)}"
                self._report(text, self._views[host].site)
        return hold


def left_out(deadline: Deadline, views: Mapping[str, HostView], hosts: Iterable[str]) -> tuple[dict[str, Hold], str]:
    """Return which devices a run could not stage if it started now, and a sentence that names their sites.

    Args:
        deadline: The ends to keep.
        views: The inventory's view on each device.
        hosts: The devices of the run.

    Returns:
        Why each of them is left out, and the sentence; both empty where all can be staged.
    """
    holds = {host: hold for host in hosts if (hold := deadline.fit(host)) is not None and hold.for_good}
    count: dict[tuple[str, str], int] = {}
    for host, hold in holds.items():
        key = (_site_or_device(views[host]), hold.reason)
        count[key] = count.get(key, 0) + 1
    return holds, "; ".join(f"{who} ({counted(many, 'device')}): {why}" for (who, why), many in count.items())


def _site_or_device(view: HostView) -> str:
    """Return what a notice names: devices without a site have windows of their own."""
    return f"site {view.site}" if view.site is not None else view.name

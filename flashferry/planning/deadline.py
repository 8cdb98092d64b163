"""Whether a device can still be staged before its deadline, and when work in progress must stop. Pure but for `now`.

There are two deadlines, of which the earlier counts: the run's (`--until`) and that of the site's window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from flashferry.core.errors import Kind
from flashferry.core.units import counted, rough_duration
from flashferry.model.fleet_plan import MOST_WAIT_S, next_countdown_s, spoken
from flashferry.planning.device_queue import Hold
from inventory.host_view import HostView
from inventory.time_window import TimeWindow, closes_at, next_opening

MARGIN_S = 120.0
"""Reserve before the deadline: stopping a copy, restoring and proving take seconds, lost sessions a minute."""


def now_utc() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


class Deadline(Struct, frozen=True, kw_only=True):
    """The deadlines of a run. All times have a time zone.

    Attributes:
        until: When the run must have ended; None for no limit.
        windows: Maintenance windows by device; a device without any can be staged at any time.
        expected_s: Expected seconds from login to last proof, by device; 0 if missing.
        since: Start of the run: each site's next window is waited for once; what is left when it closes is for another
            run. None: no window has passed.
        margin_s: Seconds before the deadline at which work in progress is stopped.
        now: Returns the current time.
    """

    until: datetime | None
    windows: Mapping[str, tuple[TimeWindow, ...]]
    expected_s: Mapping[str, float]
    since: datetime | None = None
    margin_s: float = MARGIN_S
    now: Callable[[], datetime] = now_utc

    def over(self) -> Hold | None:
        """Return why no device can start any more; None if the run's end has not come."""
        if self.until is None or (self.until - self.now()).total_seconds() > self.margin_s:
            return None
        text = f"the run's time ends {spoken(self.until)}, and {_minutes(self.margin_s)} are kept to restore"
        return Hold(kind=Kind.WINDOW_CLOSED, reason=text, for_good=True)

    def fit(self, host: str) -> Hold | None:
        """Return why a device cannot start now; None if it can."""
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
        """Return the seconds until a device's window opens; 0 if it is open or there is none."""
        now, windows = self.now(), self.windows.get(host, ())
        if not windows or _open_until(windows, now) is not None:
            return 0.0
        return (_first(windows, now.replace(microsecond=0))[0] - now).total_seconds()

    def _why_too_late(self, windows: tuple[TimeWindow, ...], opens: datetime, now: datetime) -> str:
        """Return why an opening is too late to wait for, as the end of a sentence; empty if it is not."""
        if self.since is not None and (closed := _first(windows, self.since)[1]) <= now:
            return f", after the one of this run, which closed {spoken(closed)}"
        if self.until is not None and (self.until - opens).total_seconds() <= self.margin_s:
            return f", too late for the run, which ends {spoken(self.until)}"
        if (opens - now).total_seconds() > MOST_WAIT_S:
            return f", and a run waits no longer than {rough_duration(MOST_WAIT_S)}"
        return ""

    def ends_at(self, host: str) -> datetime | None:
        """Return the deadline of a device that starts now; None for none."""
        windows = self.windows.get(host, ())
        closing = _open_until(windows, self.now()) if windows else None
        ends = [end for end in (self.until, closing) if end is not None]
        return min(ends, default=None)

    def closing(self, host: str) -> Callable[[], str | None]:
        """Return a function that returns why a device that starts now must stop, once it must."""
        end = self.ends_at(host)
        if end is None:
            return lambda: None
        last = end - timedelta(seconds=self.margin_s)
        text = f"the time for this device ends {spoken(end)}; it was ended {_minutes(self.margin_s)} before"
        return lambda: text if self.now() >= last else None


def first_opening(views: Iterable[HostView], now: datetime) -> datetime:
    """Return now if any device can be staged now, else when the first site opens."""
    windows = [one.windows for one in views]
    if any(not one or closes_at(one, now) is not None for one in windows):
        return now
    return min(next_opening(one, now)[0] for one in windows).astimezone(now.tzinfo)


def _open_until(windows: tuple[TimeWindow, ...], now: datetime) -> datetime | None:
    """Return the end of the current window; None if none is open."""
    return _closes(windows, now.replace(microsecond=0))


# Cached: waiting devices are checked repeatedly, and a site's devices have the same windows.
@lru_cache(maxsize=512)
def _closes(windows: tuple[TimeWindow, ...], second: datetime) -> datetime | None:
    return closes_at(windows, second)


@lru_cache(maxsize=512)
def _first(windows: tuple[TimeWindow, ...], second: datetime) -> tuple[datetime, datetime]:
    return next_opening(windows, second)


def _minutes(seconds: float) -> str:
    return f"{max(seconds, 0.0):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


Report = Callable[[str, str | None], None]
"""Receives the notice, its time, and the site or None."""


class WindowNotice:
    """Checks deadlines, and reports waiting for each site's opening.

    A countdown shows that the run does not hang.

    Args:
        deadline: The deadlines.
        views: The devices in the inventory.
        report: Receives each notice.
    """

    def __init__(self, deadline: Deadline, views: Mapping[str, HostView], report: Report) -> None:
        self._deadline, self._views, self._report = deadline, views, report
        self._due_s: dict[tuple[str, str], float] = {}

    def fit(self, host: str) -> Hold | None:
        """Return why a device cannot start now; None if it can. Called by one thread."""
        hold = self._deadline.fit(host)
        if hold is not None and not hold.for_good:
            who, left_s = _site_or_device(self._views[host]), self._deadline.opens_in_s(host)
            if left_s <= self._due_s.get((who, hold.reason), float("inf")):
                self._due_s[who, hold.reason] = next_countdown_s(left_s)
                text = f"waits: {who}: {hold.reason}, in {rough_duration(left_s)}"
                self._report(text, self._views[host].site)
        return hold


def left_out(deadline: Deadline, views: Mapping[str, HostView], hosts: Iterable[str]) -> tuple[dict[str, Hold], str]:
    """Return why each device could not be staged if the run started now, and a sentence with their sites.

    Both are empty if all can be staged.
    """
    holds = {host: hold for host in hosts if (hold := deadline.fit(host)) is not None and hold.for_good}
    count: dict[tuple[str, str], int] = {}
    for host, hold in holds.items():
        key = (_site_or_device(views[host]), hold.reason)
        count[key] = count.get(key, 0) + 1
    return holds, "; ".join(f"{who} ({counted(many, 'device')}): {why}" for (who, why), many in count.items())


def _site_or_device(view: HostView) -> str:
    """Return the name for a notice: the site, or the device if it has none."""
    return f"site {view.site}" if view.site is not None else view.name

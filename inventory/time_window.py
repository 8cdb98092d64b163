"""Maintenance windows: times on days of the week, by the wall clock of a site.

A window such as "Monday to Thursday, 22:00 to 05:00, Berlin" follows the wall clock there, so across a change to or
from summer time it is an hour shorter or longer. A time that the change skips counts by the clock before the change, a
time that occurs twice counts the first time. The days are those on which the window opens.

Moments are returned in UTC, because Python subtracts two moments of one zone by their wall clocks, which is an hour
wrong across a change. To show them, use `moment.astimezone(zone(window.timezone))`.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from itertools import pairwise

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week in the order of `date.weekday()`."""

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_AHEAD_DAYS = 8  # one opening of each weekday, and the day before for what is open over midnight


class TimeWindow(Struct, frozen=True, kw_only=True):
    """A time of day on some days of the week.

    Attributes:
        opens: Wall-clock time at which it opens, `22:00`.
        closes: Wall-clock time at which it closes; if not after `opens`, on the next day.
        days: Days on which it opens, of `DAYS`, at least one; all by default.
        timezone: IANA name of its time zone, such as `Europe/Berlin`.

    Raises:
        ConfigInvalid: A time, day or zone is not known, or no day is given.
    """

    opens: str
    closes: str
    days: tuple[str, ...] = DAYS
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        clock(self.opens)
        clock(self.closes)
        zone(self.timezone)
        if not self.days:
            raise ConfigInvalid(
                "days: expected at least one of " + ", ".join(DAYS) + ", found none",
                hint="Name the days on which it opens, or leave the key out for every day",
            )
        for day in self.days:
            if day not in DAYS:
                raise ConfigInvalid(
                    f"days: expected some of {', '.join(DAYS)}, found {described(day)}",
                    hint="Give each day by its first three letters",
                )

    def closes_at(self, now: datetime) -> datetime | None:
        """Return when the window closes, in UTC; None if it is not open at `now`, a time with a zone."""
        return closes_at((self,), now)

    def next_opening(self, now: datetime) -> tuple[datetime, datetime]:
        """Return start and end of the opening at `now`, a time with a zone, or of the next one, in UTC."""
        return next_opening((self,), now)

    def openings(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """Return the openings that end after `now` and start within about a week, sorted."""
        there = zone(self.timezone)
        today = now.astimezone(there).date()
        opens, closes = clock(self.opens), clock(self.closes)
        night = timedelta(days=1 if closes <= opens else 0)
        found = []
        for ahead in range(-1, _AHEAD_DAYS):
            day = today + timedelta(days=ahead)
            begin, end = _utc(datetime.combine(day, opens, there)), _utc(datetime.combine(day + night, closes, there))
            # A short window within the skipped hour of a clock change does not open.
            if DAYS[day.weekday()] in self.days and begin < end and now < end:
                found.append((begin, end))
        return found

    def __str__(self) -> str:
        """Return the window in short form: `mon tue 22:00-05:00 Europe/Berlin`."""
        days = "daily" if set(self.days) == set(DAYS) else " ".join(self.days)
        return f"{days} {self.opens}-{self.closes} {self.timezone}"


def closes_at(windows: Iterable[TimeWindow], now: datetime) -> datetime | None:
    """Return when the windows that are open now close, in UTC; None if none is open.

    Windows without a gap between them count as one. If they never close, a time about a week ahead is returned.

    Args:
        windows: A site's windows.
        now: The present time, with its zone.
    """
    return next((end for begin, end in _merged(windows, now) if begin <= now < end), None)


def next_opening(windows: Iterable[TimeWindow], now: datetime) -> tuple[datetime, datetime]:
    """Return start and end, in UTC, of the present or else the next opening of all windows.

    Args:
        windows: A site's windows, at least one.
        now: The present time, with its zone.

    Raises:
        ValueError: There is no window.
    """
    found = _merged(windows, now)
    if not found:
        raise ValueError("no window")
    return found[0]


def check_windows(windows: Sequence[TimeWindow]) -> None:
    """Check that a site's windows have one time zone and do not overlap.

    Raises:
        ConfigInvalid: They have several zones, or two overlap.
    """
    zones = sorted({window.timezone for window in windows})
    if len(zones) > 1:
        raise ConfigInvalid(
            f"expected windows in one time zone, found {' and '.join(zones)}",
            hint="Write all windows of a site by its own clock, in one zone",
        )
    spans = sorted(((*span, window) for window in windows for span in _spans(window)), key=lambda one: one[:2])
    again = [(start + _WEEK_MINUTES, end, window) for start, end, window in spans[:1]]
    for (_, end, window), (start, _, other) in pairwise([*spans, *again]):
        if start < end:
            raise ConfigInvalid(
                f"expected windows apart from each other, found {window} and {other}, which overlap",
                hint="Make one window of them, or let one end before the other opens",
            )


def clock(text: str) -> time:
    """Parse a wall-clock time such as `22:00`.

    Raises:
        ConfigInvalid: The text is no time.
    """
    if (found := _CLOCK.fullmatch(text)) is None:
        raise ConfigInvalid(
            f"expected a time such as '22:00', found {described(text)}",
            hint="Write hours and minutes, 00:00 to 23:59, in quotes",
        )
    return time(int(found[1]), int(found[2]))


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Raises:
        ConfigInvalid: The name is unknown, or this host has no time zone data.
    """
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    known = zoneinfo.available_timezones()
    if not known:
        raise ConfigInvalid(
            "timezone: no name but UTC can be looked up, for this machine has no list of time zones",
            hint="Install the system's tzdata package, or the Python package tzdata beside flashferry",
        )
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    raise ConfigInvalid(
        f"timezone: expected an IANA name such as Europe/Berlin, found {described(name)}{meant}",
        hint="Take a name of the IANA list, Continent/City; 'timedatectl list-timezones' shows it",
    )


def _merged(windows: Iterable[TimeWindow], now: datetime) -> list[tuple[datetime, datetime]]:
    found: list[tuple[datetime, datetime]] = []
    for begin, end in sorted(one for window in windows for one in window.openings(now)):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _spans(window: TimeWindow) -> list[tuple[int, int]]:
    """Return a window's openings, start and end in minutes since Monday 00:00; an end may be in the next week."""
    opens, closes = (moment.hour * 60 + moment.minute for moment in (clock(window.opens), clock(window.closes)))
    length = (closes - opens) % _DAY_MINUTES or _DAY_MINUTES
    starts = [DAYS.index(day) * _DAY_MINUTES + opens for day in window.days]
    return [(start, start + length) for start in starts]


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)

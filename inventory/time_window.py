"""When devices may be worked on: windows that open on days of the week, by a site's own clock.

A window is written as people say it, "Monday to Thursday, 22:00 to 05:00, in Berlin", and holds by the wall clock
there. Across a change to or from summer time the opening is therefore an hour shorter or longer. A time that the change
leaves out is taken by the clock before it, one that comes twice is taken the first time. Days name the day on which the
window opens.

Moments are returned in UTC: Python takes the difference of two moments of one zone by their wall clocks, an hour off
across a change. To show them, use `moment.astimezone(zone(window.timezone))`.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from itertools import pairwise

from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import described

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week in the order of `date.weekday()`."""

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_AHEAD_DAYS = 8  # one opening of each weekday, and the day before for what is open over midnight


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """A time of day on some days of the week.

    Attributes:
        opens: Wall clock at which it opens, `22:00`.
        closes: Wall clock at which it closes; at or before `opens` it means the next day.
        days: Days on which it opens, of `DAYS`, at least one; all by default.
        timezone: IANA name of the zone whose clock is meant, such as `Europe/Berlin`.

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
        """Return when the present opening ends, in UTC; None where `now` is outside.

        Args:
            now: The present time, with its zone.
        """
        return closes_at((self,), now)

    def next_opening(self, now: datetime) -> tuple[datetime, datetime]:
        """Return when the present or the next opening begins and ends, in UTC.

        Args:
            now: The present time, with its zone.
        """
        return next_opening((self,), now)

    def openings(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """Return the openings that have not ended by `now`, those that begin within about a week, in order."""
        there = zone(self.timezone)
        today = now.astimezone(there).date()
        opens, closes = clock(self.opens), clock(self.closes)
        night = timedelta(days=1 if closes <= opens else 0)
        found = []
        for ahead in range(-1, _AHEAD_DAYS):
            day = today + timedelta(days=ahead)
            begin, end = _utc(datetime.combine(day, opens, there)), _utc(datetime.combine(day + night, closes, there))
            # Where a change of the clocks swallows it, a short window does not open at all.
            if DAYS[day.weekday()] in self.days and begin < end and now < end:
                found.append((begin, end))
        return found

    def __str__(self) -> str:
        """Return it as a person says it: `mon tue 22:00-05:00 Europe/Berlin`."""
        days = "daily" if set(self.days) == set(DAYS) else " ".join(self.days)
        return f"{days} {self.opens}-{self.closes} {self.timezone}"


def closes_at(windows: Iterable[TimeWindow], now: datetime) -> datetime | None:
    """Return when the time that is open now ends; None where no window is open.

    Windows that follow each other without a gap count as one. One that never closes is followed for a week.

    Args:
        windows: A site's windows.
        now: The present time, with its zone.
    """
    return next((end for begin, end in _merged(windows, now) if begin <= now < end), None)


def next_opening(windows: Iterable[TimeWindow], now: datetime) -> tuple[datetime, datetime]:
    """Return when the present or the next opening begins and ends, over all windows.

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
    """Check that windows go together: one zone, and none open while another is.

    Raises:
        ConfigInvalid: They do not.
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
    """Return a wall clock time of `22:00`.

    Raises:
        ConfigInvalid: It is none.
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
        ConfigInvalid: There is none of that name, or this machine has no list of time zones.
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
    """Return its openings as minutes since Monday 00:00; an end may lie in the next week."""
    opens, closes = (moment.hour * 60 + moment.minute for moment in (clock(window.opens), clock(window.closes)))
    length = (closes - opens) % _DAY_MINUTES or _DAY_MINUTES
    starts = [DAYS.index(day) * _DAY_MINUTES + opens for day in window.days]
    return [(start, start + length) for start in starts]


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)

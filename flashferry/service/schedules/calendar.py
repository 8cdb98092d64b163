"""Due times: once, or by weekday and time of day, in a time zone. Pure.

Facts
-----
* A local time that the clock skips, and one that occurs twice, follow RFC 5545 3.3.5: a skipped one takes the offset
  before the gap (02:30 is 03:30 in the night in which the clock goes from 02:00 to 03:00), one that occurs twice is its
  first occurrence. `zoneinfo` does the same with `fold=0` (PEP 495).
* So each day of a calendar is due exactly once.
* Time zones are the system's (tzdata); updates take effect when the service restarts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NTHS = ("1st", "2nd", "3rd", "4th")
HINT = "Give 'once 2026-11-30 22:00', 'daily 22:00', 'mon-fri 22:00', 'sat,sun 01:30' or '2nd sat 22:00'"
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}", re.ASCII)
_FAR_DAYS = 62
"""Every calendar has a day within so many: of two months each has a fourth Sunday."""


class Once(Struct, frozen=True, kw_only=True):
    """A single local time."""

    at: datetime

    def __str__(self) -> str:
        """Return the text that `calendar_of` parses."""
        return f"once {self.at:%Y-%m-%d %H:%M}"

    def days_from(self, first: date) -> Iterator[datetime]:
        """Yield the due local times from a day on."""
        if self.at.date() >= first:
            yield self.at


class Weekly(Struct, frozen=True, kw_only=True):
    """A time of day on some weekdays (0: Monday), in all weeks or on the `nth` (1 to 4) of a month."""

    days: frozenset[int]
    at: time
    nth: int | None = None

    def __str__(self) -> str:
        """Return the text that `calendar_of` parses."""
        names = "daily" if len(self.days) == len(DAYS) else ",".join(DAYS[day] for day in sorted(self.days))
        return f"{f'{NTHS[self.nth - 1]} ' if self.nth else ''}{names} {self.at:%H:%M}"

    def days_from(self, first: date) -> Iterator[datetime]:
        """Yield the due local times from a day on, over two months."""
        for number in range(_FAR_DAYS):
            day = first + timedelta(days=number)
            if day.weekday() in self.days and self.nth in {None, (day.day - 1) // 7 + 1}:
                yield datetime.combine(day, self.at)


Calendar = Once | Weekly


def calendar_of(text: str) -> Calendar:
    """Parse a calendar. Raises `ConfigInvalid`."""
    words = text.lower().split()
    if len(words) == 3 and words[0] == "once":
        return Once(at=datetime.combine(_date(words[1], text), _time(words[2], text)))
    nth = NTHS.index(words.pop(0)) + 1 if words[:1] and words[0] in NTHS else None
    if len(words) != 2:
        raise _wrong(text)
    return Weekly(days=frozenset(_days(words[0], text)), at=_time(words[1], text), nth=nth)


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone, such as `Europe/Amsterdam` or `UTC`. Raises `ConfigInvalid`."""
    try:
        if _ZONE.fullmatch(name):
            return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        pass
    raise ConfigInvalid(
        f"time zone: expected a name such as Europe/Amsterdam or UTC, found {name[:64]!r}",
        hint="Names are those of the IANA database; the package tzdata brings them where the system has none",
    )


def due_at(local: datetime, zone: ZoneInfo) -> datetime:
    """Convert a local time in a zone to UTC; the module's facts explain skipped and repeated times."""
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)


def next_due(calendar: Calendar, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first due time after `after`, in UTC; None if there is none."""
    try:
        # A zone can skip a whole day, as Samoa did in 2011.
        first = after.astimezone(zone).date() - timedelta(days=2)
        return min((due for local in calendar.days_from(first) if (due := due_at(local, zone)) > after), default=None)
    except OverflowError:
        return None


def dues(calendar: Calendar, zone: ZoneInfo, after: datetime, most: int) -> tuple[datetime, ...]:
    """Return the next due times in UTC, at most `most`."""
    found: list[datetime] = []
    while len(found) < most and (due := next_due(calendar, zone, found[-1] if found else after)) is not None:
        found.append(due)
    return tuple(found)


def oddity(calendar: Calendar, zone: ZoneInfo, due: datetime) -> str:
    """Return what is special about the clock at a due time, such as a skipped hour; empty on most days."""
    requested, local = calendar.at.strftime("%H:%M"), due.astimezone(zone)
    found = local.strftime("%H:%M")
    if found != requested:
        return f"the clock skips {requested} that day: it is due at {found}"
    if local.replace(fold=1).utcoffset() != local.replace(fold=0).utcoffset():
        return f"{requested} comes twice that day: it is due at the first"
    return ""


def _days(text: str, whole: str) -> Iterator[int]:
    if text == "daily":
        yield from range(len(DAYS))
        return
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise _wrong(whole)
        begin, end = DAYS.index(first), DAYS.index(last or first)
        # `fri-mon` crosses the end of the week.
        yield from ((begin + number) % len(DAYS) for number in range((end - begin) % len(DAYS) + 1))


def _date(text: str, whole: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise _wrong(whole) from None


def _time(text: str, whole: str) -> time:
    found = _TIME.fullmatch(text)
    if found is None:
        raise _wrong(whole)
    return time(int(found[1]), int(found[2]))


def _wrong(text: str) -> ConfigInvalid:
    return ConfigInvalid(f"calendar: expected a time, or days and a time of day, found {text[:64]!r}", hint=HINT)

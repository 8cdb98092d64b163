"""When a schedule is due: each day of its calendar once, whatever clocks and governments do."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashferry.core.errors import ConfigInvalid
from flashferry.service.schedules.calendar import (
    Once,
    Weekly,
    calendar_of,
    due_at,
    dues,
    next_due,
    oddity,
    zone_of,
)

ZONES = ("UTC", "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
"""Half an hour of summer time, a quarter of an hour beside the hour, and a day that never was."""

zones = st.sampled_from(ZONES).map(ZoneInfo)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))
times = st.times().map(lambda at: at.replace(second=0, microsecond=0))
weeklies = st.builds(
    Weekly,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    at=times,
    nth=st.none() | st.integers(1, 4),
)
onces = st.builds(
    Once,
    at=st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda at: at.replace(second=0, microsecond=0)),
)


@given(weeklies | onces)
def test_what_is_written_is_what_is_read(calendar):
    """Every calendar, by its own words."""
    assert calendar_of(str(calendar)) == calendar


@given(weeklies, zones, moments)
def test_it_is_always_due_again_and_later(calendar, zone, after):
    """Within two months, and strictly behind."""
    found = next_due(calendar, zone, after)
    assert found is not None
    assert after < found <= after + timedelta(days=62)


@given(weeklies, zones, moments)
def test_no_due_time_lies_between(calendar, zone, after):
    """What is due next is due next from any moment up to it: nobody who looks late or early finds another one."""
    found = next_due(calendar, zone, after)
    assert next_due(calendar, zone, after + (found - after) / 2) == found
    assert next_due(calendar, zone, found - timedelta(microseconds=1)) == found
    assert next_due(calendar, zone, found) > found


@given(weeklies, zones, moments)
def test_it_is_due_at_its_time_on_its_day_or_the_clock_skips_it(calendar, zone, after):
    """The clock on the wall shows it, but where that clock never did."""
    found = next_due(calendar, zone, after)
    local = found.astimezone(zone)
    if oddity(calendar, zone, found).startswith("the clock skips"):
        return
    assert (local.hour, local.minute) == (calendar.at.hour, calendar.at.minute)
    # Samoa had no 30 December 2011: who wanted that day has the next one.
    if local.date() != date(2011, 12, 31):
        assert local.weekday() in calendar.days
        assert calendar.nth in {None, (local.day - 1) // 7 + 1}


@settings(max_examples=40)
@given(times, zones, moments)
def test_each_day_is_due_once(at, zone, after):
    """So many due times, none of them twice, none left out."""
    daily = Weekly(days=frozenset(range(7)), at=at)
    found = dues(daily, zone, after, 10)
    assert list(found) == sorted(set(found))
    days = [due.astimezone(zone).date() for due in found]
    assert all(timedelta(0) < later - earlier <= timedelta(days=2) for earlier, later in pairwise(days))
    assert all(timedelta(hours=20) < b - a < timedelta(hours=28) for a, b in pairwise(found))


@given(onces, zones, moments)
def test_once_is_once(calendar, zone, after):
    """Due if it is still to come, and never again."""
    found = next_due(calendar, zone, after)
    due = due_at(calendar.at, zone)
    assert found == (due if due > after else None)
    assert next_due(calendar, zone, due) is None


@pytest.mark.parametrize(
    ("zone", "local", "due", "told"),
    [
        # The clock goes from 02:00 to 03:00: by the offset before, as RFC 5545 has it.
        (*("Europe/Amsterdam", "2027-03-28 02:30", "2027-03-28T01:30", "skips 02:30 that day: it is due at 03:30"),),
        ("America/New_York", "2027-03-14 02:30", "2027-03-14T07:30", "skips 02:30 that day: it is due at 03:30"),
        ("Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-03T15:45", "skips 02:15 that day: it is due at 02:45"),
        # From 03:00 back to 02:00: the first of the two.
        ("Europe/Amsterdam", "2026-10-25 02:30", "2026-10-25T00:30", "02:30 comes twice that day"),
        ("America/New_York", "2026-11-01 01:30", "2026-11-01T05:30", "01:30 comes twice that day"),
        # The moments beside them are as always.
        ("Europe/Amsterdam", "2026-10-25 03:00", "2026-10-25T02:00", ""),
        ("Europe/Amsterdam", "2027-03-28 03:00", "2027-03-28T01:00", ""),
        ("Europe/Amsterdam", "2027-03-28 01:59", "2027-03-28T00:59", ""),
    ],
)
def test_what_the_clock_skips_and_what_comes_twice(zone, local, due, told):
    """As RFC 5545 3.3.5 reads such times, and it is said."""
    calendar = calendar_of(f"once {local}")
    found = next_due(calendar, ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=UTC))
    assert found == datetime.fromisoformat(due).replace(tzinfo=UTC)
    assert told in oddity(calendar, ZoneInfo(zone), found)
    assert bool(told) is bool(oddity(calendar, ZoneInfo(zone), found))


def test_a_night_that_comes_twice_is_due_once():
    """From the first 02:30 the next one is that of the day after, not the second."""
    daily, zone = calendar_of("daily 02:30"), ZoneInfo("Europe/Amsterdam")
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert next_due(daily, zone, first - timedelta(hours=1)) == first
    assert next_due(daily, zone, first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Mon-Fri 22:00", "mon,tue,wed,thu,fri 22:00"),
        ("fri-mon 01:30", "mon,fri,sat,sun 01:30"),
        ("sun,sat 00:00", "sat,sun 00:00"),
        ("mon-sun 23:59", "daily 23:59"),
        (" 2nd  SAT 22:00 ", "2nd sat 22:00"),
    ],
)
def test_ways_of_saying_the_same(text, read):
    """Order, case and ranges make no difference."""
    assert str(calendar_of(text)) == read


@pytest.mark.parametrize(
    "text",
    [
        *("", "22:00", "daily", "daily 24:00", "daily 2:00", "daily 22:60", "mon- 22:00", "x 22:00", "mon,,tue 22:00"),
        *(
            "once 22:00",
            "once 2026-02-30 22:00",
            "once 26-1-1 22:00",
            "5th sat 22:00",
            "mon 22:00 x",
        ),
        *("daily ٢٢:00", "* * * * *", "1st"),
    ],
)
def test_what_is_no_calendar_is_refused(text):
    """With how one is written."""
    with pytest.raises(ConfigInvalid, match="calendar: expected") as refused:
        calendar_of(text)
    assert "once 2026-11-30 22:00" in refused.value.hint


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "a\x00b", "Europe/"]
)
def test_what_is_no_zone_is_refused(name):
    """And no file of the machine is opened for it."""
    with pytest.raises(ConfigInvalid, match="time zone: expected"):
        zone_of(name)


def test_a_calendar_beyond_the_last_year_is_over():
    """And no error."""
    assert next_due(Weekly(days=frozenset({0}), at=time()), ZoneInfo("UTC"), datetime.max.replace(tzinfo=UTC)) is None

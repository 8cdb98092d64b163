"""Time windows: by the wall clock of their zone, over midnight, across changes to and from summer time."""

from __future__ import annotations

import sys
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.errors import ConfigInvalid
from inventory.time_window import DAYS, TimeWindow, check_windows, closes_at, next_opening

NIGHTS = TimeWindow(opens="22:00", closes="05:00", days=("mon", "tue", "wed", "thu"), timezone="Europe/Berlin")
DAILY = TimeWindow(opens="22:00", closes="05:00", timezone="Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "closes"),
    [
        ("2026-11-23 20:59", None),
        ("2026-11-23 21:00", "2026-11-24 04:00"),  # Monday 22:00 in Berlin
        ("2026-11-24 03:59", "2026-11-24 04:00"),
        ("2026-11-24 04:00", None),
        ("2026-11-27 02:00", "2026-11-27 04:00"),  # Friday morning belongs to Thursday's window
        ("2026-11-27 22:00", None),  # Friday night has none
        ("2026-11-23 02:00", None),  # nor has Monday morning
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens(now, closes):
    """It opens on the minute, is closed on the minute, and the day named is that of its opening."""
    assert NIGHTS.closes_at(utc(now)) == (utc(closes) if closes else None)


@pytest.mark.parametrize(
    ("now", "opens", "hours"),
    [
        ("2026-11-23 12:00", "2026-11-23 21:00", 7),
        ("2026-11-27 12:00", "2026-11-30 21:00", 7),
        ("2026-11-24 01:00", "2026-11-23 21:00", 7),
    ],
)
def test_the_next_opening_is_the_present_one_or_the_one_after(now, opens, hours):
    """While it is open the present opening is told, from its beginning."""
    assert NIGHTS.next_opening(utc(now)) == (utc(opens), utc(opens) + timedelta(hours=hours))


@pytest.mark.parametrize(
    ("now", "opens", "closes"),
    [
        ("2026-03-28 12:00", "2026-03-28 21:00", "2026-03-29 03:00"),
        ("2026-10-24 12:00", "2026-10-24 20:00", "2026-10-25 04:00"),
    ],
)
def test_a_change_of_the_clocks_makes_a_night_shorter_or_longer(now, opens, closes):
    """22:00 to 05:00 in Berlin is six hours in the last night of March's change and eight in October's."""
    assert DAILY.next_opening(utc(now)) == (utc(opens), utc(closes))


@pytest.mark.parametrize(
    ("opens", "closes", "day", "expected"),
    [
        ("02:30", "04:00", "2026-03-29", ("2026-03-29 01:30", "2026-03-29 02:00")),  # 02:30 does not exist
        ("02:15", "02:45", "2026-10-25", ("2026-10-25 00:15", "2026-10-25 00:45")),  # 02:15 comes twice
        ("02:30", "03:00", "2026-03-29", ("2026-03-30 00:30", "2026-03-30 01:00")),  # nothing is left of it that day
    ],
)
def test_a_time_that_is_left_out_or_comes_twice(opens, closes, day, expected):
    """What the change leaves out counts by the clock before it, what comes twice counts once, and none is negative."""
    window = TimeWindow(opens=opens, closes=closes, timezone="Europe/Berlin")
    assert window.next_opening(utc(f"{day} 00:00")) == (utc(expected[0]), utc(expected[1]))


def test_windows_without_a_gap_are_one():
    """A run does not stop at five where the next window opens at five."""
    night = TimeWindow(opens="22:00", closes="05:00")
    morning = TimeWindow(opens="05:00", closes="06:30")
    noon = TimeWindow(opens="12:00", closes="13:00")
    windows = (night, morning, noon)
    assert closes_at(windows, utc("2026-11-23 23:00")) == utc("2026-11-24 06:30")
    assert next_opening(windows, utc("2026-11-23 10:00")) == (utc("2026-11-23 12:00"), utc("2026-11-23 13:00"))


def test_the_whole_day_is_written_with_equal_times():
    """Where it closes when it opens, it is open until the next day."""
    weekend = TimeWindow(opens="00:00", closes="00:00", days=("sat", "sun"))
    assert weekend.next_opening(utc("2026-11-25 12:00")) == (utc("2026-11-28 00:00"), utc("2026-11-30 00:00"))


@given(
    now=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),
    opens=st.times(),
    closes=st.times(),
    days=st.sets(st.sampled_from(DAYS), min_size=1),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_what_is_told_agrees_with_itself(now, opens, closes, days, timezone):
    """Open now means: the next opening has begun and ends when the present one does; openings are never empty."""
    window = TimeWindow(
        opens=f"{opens:%H:%M}",
        closes=f"{closes:%H:%M}",
        days=tuple(day for day in DAYS if day in days),
        timezone=timezone,
    )
    moment = now.replace(tzinfo=UTC)
    begin, end = window.next_opening(moment)
    assert begin < end
    assert end > moment
    assert window.closes_at(moment) == (end if begin <= moment else None)
    assert begin.astimezone(zoneinfo.ZoneInfo(timezone)).minute in {opens.minute, (opens.minute + 30) % 60}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"opens": "25:00"}, "expected a time such as '22:00', found '25:00'"),
        ({"closes": "5"}, "found '5'"),
        ({"days": ()}, "days: expected at least one of mon, tue"),
        ({"days": ("mon", "tues")}, "days: expected some of mon, .*found text of 4 characters"),
        ({"timezone": "Europe/Berln"}, "timezone: .*found text of 12 characters; did you mean 'Europe/Berlin'"),
        ({"timezone": "../etc/passwd"}, "timezone: expected an IANA name"),
        ({"timezone": "Europe"}, "timezone: expected an IANA name"),
    ],
)
def test_what_is_no_window_is_told(fields, message):
    """Times, days and zones that do not exist are named."""
    with pytest.raises(ConfigInvalid, match=message):
        TimeWindow(**({"opens": "22:00", "closes": "05:00"} | fields))


def test_a_machine_without_time_zones_is_told_what_to_install(monkeypatch, tmp_path):
    """The fault is not the name's: the sentence says what is missing; UTC works without."""
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    for module in [name for name in sys.modules if name.startswith("tzdata.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.ZoneInfo.clear_cache()
    try:
        with pytest.raises(ConfigInvalid, match=r"no list of time zones\. Install the system's tzdata"):
            TimeWindow(opens="22:00", closes="05:00", timezone="Europe/Berlin")
        TimeWindow(opens="22:00", closes="05:00")
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize(
    "windows",
    [
        (NIGHTS, TimeWindow(opens="04:00", closes="06:00", days=("fri",), timezone="Europe/Berlin")),
        (
            TimeWindow(opens="22:00", closes="05:00", days=("sun",)),  # over the end of the week
            TimeWindow(opens="04:59", closes="06:00", days=("mon",)),
        ),
        (TimeWindow(opens="00:00", closes="00:00", days=("mon",)), TimeWindow(opens="10:00", closes="11:00")),
        (TimeWindow(opens="10:00", closes="11:00"), TimeWindow(opens="10:00", closes="11:00")),
    ],
)
def test_windows_that_overlap_are_refused(windows):
    """Two openings at one time are a slip of the pen, also over midnight and over the end of the week."""
    with pytest.raises(ConfigInvalid, match=r"expected windows apart .* which overlap"):
        check_windows(windows)


def test_windows_that_touch_or_lie_apart_are_fine():
    """Only a common minute is an overlap."""
    check_windows((DAILY, TimeWindow(opens="05:00", closes="22:00", timezone="Europe/Berlin")))
    check_windows((TimeWindow(opens="01:00", closes="00:00", days=("sun",)), TimeWindow(opens="00:00", closes="01:00")))
    check_windows((DAILY,))
    check_windows(())


def test_one_site_has_one_clock():
    """Windows of two zones cannot be held apart by looking at them."""
    with pytest.raises(ConfigInvalid, match="one time zone, found Europe/Berlin and UTC"):
        check_windows((DAILY, TimeWindow(opens="10:00", closes="11:00")))


def test_a_window_reads_as_people_say_it():
    """Errors and reports show it so."""
    assert str(NIGHTS) == "mon tue wed thu 22:00-05:00 Europe/Berlin"
    assert str(DAILY) == "daily 22:00-05:00 Europe/Berlin"

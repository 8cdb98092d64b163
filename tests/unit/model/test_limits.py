"""When a run must have ended."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.model.limits import parse_until, parse_window

NOW = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)


def _at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def test_a_time_of_day_is_its_next_occurrence() -> None:
    """At half past eleven at night, five o'clock is tomorrow's, and a quarter to twelve is today's."""
    assert parse_until("05:00", NOW, UTC) == _at(22, 5)
    assert parse_until("23:45", NOW, UTC) == _at(21, 23, 45)
    assert parse_until("23:30", NOW, UTC) == _at(22, 23, 30)


def test_a_date_and_time_is_taken_as_it_is() -> None:
    """A zone in the text holds; without one it is the zone of the controller."""
    assert parse_until("2026-11-23T05:00+01:00", NOW, UTC) == _at(23, 4)
    assert parse_until("2026-11-23 05:00", NOW, UTC) == _at(23, 5)


@pytest.mark.parametrize("text", ["5 o'clock", "25:00", "2026-11-20T05:00", "", "05:00+01:00"])
def test_what_is_no_time_to_come_is_refused(text: str) -> None:
    """Neither nonsense nor the past can be an end."""
    with pytest.raises(ConfigInvalid, match="expected a time"):
        parse_until(text, NOW, UTC)


def test_a_window_that_is_open_begins_now_and_another_when_it_opens() -> None:
    """Windows go over midnight; the one that is open is meant, else the next."""
    assert parse_window("22:00-05:00", NOW, UTC) == (NOW, _at(22, 5))
    assert parse_window("01:00-05:00", NOW, UTC) == (_at(22, 1), _at(22, 5))
    assert parse_window("22:00-05:00", _at(21, 12), UTC) == (_at(21, 22), _at(22, 5))


@pytest.mark.parametrize("text", ["22:00", "22-5-1", "05:00-05:00", "soon-later"])
def test_what_is_no_window_is_refused(text: str) -> None:
    """A window has two different ends."""
    with pytest.raises(ConfigInvalid, match="--window"):
        parse_window(text, NOW, UTC)


def test_a_window_over_the_change_of_the_clock_closes_by_the_clock() -> None:
    """In the night in which the clock goes back, 05:00 comes an hour later, and that is what is meant."""
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 10, 24, 22, 30, tzinfo=berlin)
    opens, closes = parse_window("22:00-05:00", before, berlin)
    assert (closes.astimezone(UTC) - opens.astimezone(UTC)).total_seconds() == 7.5 * 3600

"""When a plan may be carried out: the moments around its window, in its own zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from flashferry.model.fleet_plan import PlanWindow, WindowState, next_countdown_s, spoken

OPENS = datetime.fromisoformat("2026-11-30T22:00:00+01:00")
ENDS = datetime.fromisoformat("2026-12-01T05:00:00+01:00")
NIGHT = PlanWindow(opens_at=OPENS, ends_at=ENDS)


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (OPENS - timedelta(microseconds=1), WindowState.BEFORE),
        (OPENS, WindowState.OPEN),
        (ENDS - timedelta(microseconds=1), WindowState.OPEN),
        (ENDS, WindowState.OVER),
    ],
)
def test_a_window_is_open_from_its_opening_to_its_end(now: datetime, state: WindowState) -> None:
    """The opening is within, the end is not; whose clock shows the moment does not matter."""
    assert NIGHT.state(now) is state
    assert NIGHT.state(now.astimezone(timezone(timedelta(hours=9)))) is state


def test_a_window_without_bounds_is_open() -> None:
    """A run of an image has no plan's window; a plan without an end never ends."""
    assert PlanWindow().state(OPENS) is WindowState.OPEN
    assert PlanWindow(opens_at=OPENS).state(OPENS + timedelta(days=400)) is WindowState.OPEN
    assert PlanWindow(opens_at=OPENS).left_s(OPENS) == float("inf")


def test_an_end_before_the_opening_is_over() -> None:
    """Waiting for it would be in vain; the sentence has both times."""
    never = PlanWindow(opens_at=OPENS, ends_at=OPENS - timedelta(hours=1))
    assert never.state(OPENS - timedelta(days=1)) is WindowState.OVER
    assert never.why_closed(OPENS - timedelta(days=1)) == (
        "its end, 2026-11-30 21:00 UTC+01:00, is before its window opens, 2026-11-30 22:00 UTC+01:00"
    )


def test_sentences_have_times_with_their_zone() -> None:
    """Before: when it opens, and how long that is; after: when it ended; within: nothing."""
    assert NIGHT.why_closed(OPENS - timedelta(hours=6)) == "its window opens 2026-11-30 22:00 UTC+01:00, in 6 h 00 min"
    assert NIGHT.why_closed(OPENS) == ""
    assert NIGHT.why_closed(ENDS) == "its window has passed: it was to end by 2026-12-01 05:00 UTC+01:00"


def test_what_is_left_counts_from_the_opening() -> None:
    """A start before the opening has no more time than one at the opening."""
    assert NIGHT.left_s(OPENS - timedelta(hours=3)) == NIGHT.left_s(OPENS) == 7 * 3600
    assert NIGHT.left_s(ENDS) == 0


@pytest.mark.parametrize(
    ("left_s", "mark_s"), [(6 * 3600, 5 * 3600), (3601, 3600), (3600, 1800), (1800, 600), (600, 60), (60, 0), (0, 0)]
)
def test_a_countdown_is_by_the_hour_and_closer_at_its_end(left_s: float, mark_s: float) -> None:
    assert next_countdown_s(left_s) == mark_s


def test_a_moment_has_its_offset() -> None:
    """Also one of half an hour; UTC is named as it is; seconds only where there are some."""
    assert spoken(OPENS.astimezone(UTC)) == "2026-11-30 21:00 UTC"
    assert spoken(OPENS.astimezone(timezone(timedelta(hours=-3.5)))) == "2026-11-30 17:30 UTC-03:30"
    assert spoken(OPENS + timedelta(seconds=7)) == "2026-11-30 22:00:07 UTC+01:00"

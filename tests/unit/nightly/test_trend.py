"""What a night is called beside those before it; that drops are found is held by the simulation's tests."""

from __future__ import annotations

import pytest

from flashferry.nightly.trend import (
    LEAST_NIGHTS,
    NIGHTS,
    RATE,
    SECONDS,
    Course,
    PastNight,
    Side,
    band_of,
    trend_of,
)

SPREAD = (100, 101, 99, 100, 102, 98, 100, 101, 99, 100, 100, 101, 99, 100)


def nights(*values: float, side: Side = Side.WITHIN, **changes: object) -> list[PastNight]:
    return [PastNight(value=value, side=side, **changes) for value in values]


def test_too_few_nights_make_no_band():
    """Six good nights judge nothing; seven do, whatever else there was between them."""
    six = nights(*SPREAD[: LEAST_NIGHTS - 1])
    worse = nights(10.0, side=Side.WORSE) + nights(10.0, is_within_thresholds=False)
    assert trend_of(50, [*six, *worse]).course is Course.NO_HISTORY
    assert trend_of(50, [*six, *worse, *nights(100)]).course is Course.WORSE_ONCE


def test_the_band_is_the_greater_of_spread_and_share():
    """Still nights give 5 % on either side; restless ones three robust deviations, which one outlier does not move."""
    still = band_of(nights(*[100.0] * 7))
    assert still is not None
    assert (still.low, still.high) == (95.0, 105.0)
    restless = band_of(nights(90, 110, 95, 105, 100, 92, 108, 10))
    assert restless is not None
    assert restless.middle == 97.5
    assert restless.low == pytest.approx(97.5 - 3 * 1.4826 * 7.5)


def test_only_the_last_good_nights_count():
    """What was before the last 14 has no say."""
    band = band_of(nights(*[500.0] * 30, *[100.0] * NIGHTS))
    assert band is not None
    assert (band.middle, band.nights) == (100.0, NIGHTS)


def test_amber_first_and_red_only_on_the_second_night_in_a_row():
    """A good night between two bad ones begins anew; a third one in a row stays red."""
    past = nights(*SPREAD)
    assert trend_of(90, past).course is Course.WORSE_ONCE
    worse = nights(90, side=Side.WORSE)
    assert trend_of(90, [*past, *worse]).course is Course.WORSE_AGAIN
    assert trend_of(90, [*past, *worse, *worse]).course is Course.WORSE_AGAIN
    assert trend_of(90, [*past, *worse, *nights(100)]).course is Course.WORSE_ONCE
    assert trend_of(100, [*past, *worse]).course is Course.STEADY


def test_few_copies_turn_red_on_the_third_night():
    """The median of two is bent by one outlier: amber, amber, red; with three copies amber, red."""
    past, worse = nights(*SPREAD), nights(90, side=Side.WORSE)
    for copies, row in ((1, 3), (2, 3), (3, 2), (5, 2)):
        told = [trend_of(90, [*past, *worse * number], copies=copies).course for number in range(row)]
        assert told == [*[Course.WORSE_ONCE] * (row - 1), Course.WORSE_AGAIN]


def test_a_drop_never_becomes_the_past():
    """A hundred bad nights later the next one is red still."""
    assert trend_of(90, [*nights(*SPREAD), *nights(*[90.0] * 100, side=Side.WORSE)]).course is Course.WORSE_AGAIN


def test_better_is_told_on_the_second_night_and_is_the_new_past_after_seven():
    """A rise is told night by night until it is what is expected; a fall to the old level is a drop from then on."""
    past = nights(*SPREAD)
    told = []
    for _ in range(10):
        trend = trend_of(130, past)
        told.append(trend.course)
        past += nights(130, side=trend.side)
    assert told == [Course.BETTER_ONCE, *[Course.BETTER_AGAIN] * 6, *[Course.STEADY] * 3]
    assert trend_of(100, past).course is Course.WORSE_ONCE


def test_single_better_nights_do_not_raise_the_past():
    """Six in a row, a usual one, and six more are no level of their own."""
    better = nights(*[130.0] * 6, side=Side.BETTER)
    band = band_of([*nights(*SPREAD), *better, *nights(100), *better])
    assert band is not None
    assert band.middle == 100


def test_of_seconds_more_is_worse():
    """A login that takes half as long again is worse, one that takes half is better; less than a second is nothing."""
    past = nights(*[4.0] * 7)
    assert trend_of(6.0, past, SECONDS).course is Course.WORSE_ONCE
    assert trend_of(2.0, past, SECONDS).course is Course.BETTER_ONCE
    assert trend_of(4.9, past, SECONDS).course is Course.STEADY
    assert trend_of(6.0, past, RATE).course is Course.BETTER_ONCE

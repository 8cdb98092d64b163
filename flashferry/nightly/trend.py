"""Compare tonight with a band around the median of the last good nights. Pure.

Facts
-----

Copies over one link spread by 1 to 6 % (one standard deviation), and one in twenty is 10 to 40 % low because of the
host. 3,000 such nights were simulated for each of several rules: comparing the median of five copies with the median of
14 nights, with an alarm beyond three robust standard deviations or 5 %, whichever is more, gave the fewest false alarms
(0.6 % of nights) and found a 10 % drop in 99 % of nights. A mean and its standard deviation are distorted by outliers;
a fixed 10 % finds such a drop every other night.

1.4826 times the median absolute deviation estimates the standard deviation of a normal distribution (Rousseeuw and
Croux, JASA 88, 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from msgspec import Struct

COPIES = 5
"""Copies of a series in a night, of which the median counts."""

NIGHTS = 14
"""Good nights that tonight is compared with."""

LEAST_NIGHTS = 7
"""With fewer good nights there is no band, only absolute thresholds."""

LEAST_COPIES = 3
"""With fewer copies an outlier distorts the median, so more nights in a row are required."""

SPREADS = 3.0
MAD_TO_DEVIATION = 1.4826


class Side(StrEnum):
    """Position of a night relative to the band."""

    WITHIN = "within"
    WORSE = "worse"
    BETTER = "better"
    UNJUDGED = "unjudged"


class Course(StrEnum):
    """Result of the trend for a night together with the nights just before."""

    STEADY = "steady"
    WORSE_ONCE = "worse once"
    WORSE_AGAIN = "worse again"
    BETTER_ONCE = "better once"
    BETTER_AGAIN = "better again"
    NO_HISTORY = "no history"


class Rule(Struct, frozen=True, kw_only=True):
    """How a figure is compared with its past.

    Attributes:
        least_share: Least half width of the band as a share of the median, > 0.
        least: Least half width in the figure's unit, >= 0, for figures near zero.
        is_more_better: Whether a higher figure is better, as for rates.
    """

    least_share: float
    least: float = 0.0
    is_more_better: bool = True


RATE = Rule(least_share=0.05)
"""The rule for rates, as simulated."""

SECONDS = Rule(least_share=0.25, least=1.0, is_more_better=False)
"""The rule for times of logins and hashes: few per night, and up to a quarter longer on a busy host."""


class PastNight(Struct, frozen=True, kw_only=True):
    """The result of one series in an earlier, comparable night; `value` is the median of its figures."""

    value: float
    side: Side = Side.WITHIN
    is_within_thresholds: bool = True


class Band(Struct, frozen=True, kw_only=True):
    """The expected range of a figure: median and edges, from how many nights."""

    middle: float
    low: float
    high: float
    nights: int


class Trend(Struct, frozen=True, kw_only=True):
    """The result of comparing tonight with the band; `band` is None with too few nights."""

    course: Course
    side: Side
    band: Band | None


def nights_in_a_row(copies: int) -> int:
    """Return how many nights in a row must lie outside the band to count.

    With one or two copies a night outliers alone make every twelfth night amber, and two in a row occurred in 3 of 4
    series over 200 nights (simulated with 3 % noise and 5 % of copies low; `benchmarks.nightly_trend`).
    """
    return 2 if copies >= LEAST_COPIES else 3


def trend_of(tonight: float, past: Sequence[PastNight], rule: Rule = RATE, *, copies: int = COPIES) -> Trend:
    """Compare tonight with the earlier nights.

    Args:
        tonight: The median of tonight's figures.
        past: Comparable earlier nights of the series, the oldest first.
        rule: The rule for this kind of figure.
        copies: Number of tonight's figures, >= 1.
    """
    band = band_of(past, rule)
    if band is None:
        return Trend(course=Course.NO_HISTORY, side=Side.UNJUDGED, band=None)
    side = _side(tonight, band, rule)
    row = past[1 - nights_in_a_row(copies) :]
    is_again = len(row) == nights_in_a_row(copies) - 1 and all(night.side is side for night in row)
    if side is Side.WORSE:
        course = Course.WORSE_AGAIN if is_again else Course.WORSE_ONCE
    elif side is Side.BETTER:
        course = Course.BETTER_AGAIN if is_again else Course.BETTER_ONCE
    else:
        course = Course.STEADY
    return Trend(course=course, side=side, band=band)


def band_of(past: Sequence[PastNight], rule: Rule = RATE) -> Band | None:
    """Return the band of the good nights; None if there are too few.

    A worse night never counts, so a drop stays one. Better nights become the new past once there are `LEAST_NIGHTS` in
    a row.
    """
    values = [night.value for night in _good(past)][-NIGHTS:]
    if len(values) < LEAST_NIGHTS:
        return None
    middle = median(values)
    deviation = MAD_TO_DEVIATION * median(abs(value - middle) for value in values)
    half = max(SPREADS * deviation, rule.least_share * middle, rule.least)
    return Band(middle=middle, low=max(0.0, middle - half), high=middle + half, nights=len(values))


def _good(past: Sequence[PastNight]) -> list[PastNight]:
    counted: list[PastNight] = []
    row: list[PastNight] = []
    for night in past:
        if not night.is_within_thresholds:
            continue
        if night.side is not Side.BETTER:
            row = []
            counted += [night] if night.side is not Side.WORSE else []
            continue
        row.append(night)
        if len(row) == LEAST_NIGHTS:
            counted, row = row, []
    return counted


def _side(value: float, band: Band, rule: Rule) -> Side:
    if band.low <= value <= band.high:
        return Side.WITHIN
    return Side.BETTER if (value > band.high) is rule.is_more_better else Side.WORSE

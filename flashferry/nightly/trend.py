"""Whether tonight is as the nights before: a band around the median of the last good ones. Pure.

Facts
-----

Copies over one link spread by 1 to 6 % (one standard deviation), and one in twenty is 10 to 40 % low for reasons of the
host. Of such nights 3,000 were simulated for each of several rules: the median of five copies against the median of 14
nights, with an alarm at the greater of three robust standard deviations and 5 %, raises the fewest false alarms (0.6 %
of nights) and finds a drop by 10 % in 99 % of nights. A mean with its standard deviation is bent by single outliers; a
fixed 10 % finds such a drop every other night.

1.4826 times the median absolute deviation estimates the standard deviation of a normal distribution (Rousseeuw and
Croux, JASA 88, 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

COPIES = 5
"""Copies of a series in a night, of which the median counts."""

NIGHTS = 14
"""Good nights that tonight is compared with."""

LEAST_NIGHTS = 7
"""With fewer there is no band: only absolute thresholds count."""

LEAST_COPIES = 3
"""The median of fewer is bent by a single outlier, so that a row of nights is longer there before it counts."""

SPREADS = 3.0
MAD_TO_DEVIATION = 1.4826


class Side(StrEnum):
    """Where a night lies beside the nights before it."""

    WITHIN = "within"
    WORSE = "worse"
    BETTER = "better"
    UNJUDGED = "unjudged"


class Course(StrEnum):
    """What the trend says of a night, seen together with the one before."""

    STEADY = "steady"
    WORSE_ONCE = "worse once"
    WORSE_AGAIN = "worse again"
    BETTER_ONCE = "better once"
    BETTER_AGAIN = "better again"
    NO_HISTORY = "no history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a figure is held against its past.

    Attributes:
        least_share: Half the band is at least this share of the median, > 0.
        least: Half the band is at least this, in the figure's unit, >= 0: for figures near zero.
        is_more_better: Whether a higher figure is the better one, as a rate is; of a time a lower one is.
    """

    least_share: float
    least: float = 0.0
    is_more_better: bool = True


RATE = Rule(least_share=0.05)
"""For rates of copies: the rule that was simulated."""

SECONDS = Rule(least_share=0.25, least=1.0, is_more_better=False)
"""For times of logins and hashes, of which a night has few and which a busy host lengthens by a quarter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastNight:
    """A comparable night before tonight, of one series.

    Attributes:
        value: The median of its copies, in the series' unit.
        side: Where it lay beside the nights before it.
        is_within_thresholds: Whether all absolute thresholds held.
    """

    value: float
    side: Side = Side.WITHIN
    is_within_thresholds: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What the past lets one expect.

    Attributes:
        middle: Median of the nights.
        low: Lower edge; what is lower is out of it.
        high: Upper edge.
        nights: How many nights it was made of.
    """

    middle: float
    low: float
    high: float
    nights: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Tonight beside the nights before.

    Attributes:
        course: What it means.
        side: Where it lies.
        band: What was expected; None with too few nights.
    """

    course: Course
    side: Side
    band: Band | None


def nights_in_a_row(copies: int) -> int:
    """Return how many nights in a row have to lie out of the band before it is red, or a change.

    With one or two copies a night every twelfth is amber by outliers alone, and a second one by chance is too frequent:
    in 200 nights 3 of 4 series had one (simulated with 3 % noise and 5 % of copies low; `benchmarks.nightly_trend`).
    """
    return 2 if copies >= LEAST_COPIES else 3


def trend_of(tonight: float, past: Sequence[PastNight], rule: Rule = RATE, *, copies: int = COPIES) -> Trend:
    """Return where tonight lies beside the nights before it, and what that means.

    Args:
        tonight: The median of tonight's copies.
        past: The comparable nights before of the same series, the oldest first; any number of them.
        rule: For what kind of figure.
        copies: How many copies tonight has, >= 1.
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
    """Return what the good ones of some nights let one expect of the next, or None where they are too few.

    A worse night never counts: a drop stays one, however long it lasts. Better nights are the new past once there are
    enough of them in a row; until then they are held against the old one.
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

"""Rate a night's series: absolute thresholds, and the trend of earlier nights. Pure.

A night with a failed link or controller is not compared and counts in no history. Lines of ours left on a router are
red in every night.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.units import counted, duration
from flashferry.nightly.night import LINES_LEFT, Fault, Judgement, Night, NightCopy, Rating, SeriesKey
from flashferry.nightly.trend import (
    LEAST_NIGHTS,
    RATE,
    SECONDS,
    Course,
    PastNight,
    Rule,
    Side,
    Trend,
    nights_in_a_row,
    trend_of,
)
from flashferry.reports.thresholds import THRESHOLDS, Threshold
from flashferry.reports.words import gain, rate, share
from flashferry.store.nights import PastSeriesNight, SeriesNight
from flashferry.tcp.ssh_channel_window import link_payload_bytes_per_s

_COLOURS = {
    Course.STEADY: Rating.GOOD,
    Course.BETTER_ONCE: Rating.GOOD,
    Course.BETTER_AGAIN: Rating.CHANGED_UP,
    Course.WORSE_ONCE: Rating.AMBER,
    Course.WORSE_AGAIN: Rating.RED,
    Course.NO_HISTORY: Rating.NO_HISTORY,
}
_MEANINGS = {
    Course.STEADY: "",
    Course.BETTER_ONCE: "; {nights} nights like it in a row count as a change",
    Course.BETTER_AGAIN: ", {nights} nights in a row or more: look whether a condition was taken off its link",
    Course.WORSE_ONCE: "; {nights} nights like it in a row turn red",
    Course.WORSE_AGAIN: ", {nights} nights in a row or more",
}

_MOST_NAMED = 3
"""Series named in a sentence about a night; the report has all."""


class _Values(Struct, frozen=True, kw_only=True):
    """A night's figures in one series; `copies` is empty if the figures are not rates."""

    key: SeriesKey
    values: tuple[float, ...]
    copies: tuple[NightCopy, ...] = ()

    @property
    def middle(self) -> float:
        return median(self.values)


def judge_night(night: Night, history: Sequence[PastSeriesNight], thresholds: Sequence[Threshold] = ()) -> Night:
    """Return a night with a judgement for each series, and with the reason if it is not comparable.

    Args:
        night: The night; existing judgements are replaced.
        history: Results of earlier nights in all series, the oldest first.
        thresholds: Limits for tuned probes, or for copies to flash in a night without probes. Limits that copies cannot
            show (`judges`) are ignored.
    """
    because = night.not_comparable_because or why_not_comparable(night)
    night = replace(night, is_comparable=night.is_comparable and not because, not_comparable_because=because)
    past: dict[str, list[PastSeriesNight]] = {}
    for one in history:
        if one.is_comparable and one.row.night_id != night.night_id:
            past.setdefault(one.row.series, []).append(one)
    judgements = tuple(_judged(night, one, past.get(str(one.key), []), thresholds) for one in _series(night))
    return replace(night, judgements=judgements)


def why_not_comparable(night: Night) -> str:
    """Return why a night cannot be compared, by its links and the lab's faults; empty if it can."""
    for link in night.links:
        if not link.is_as_planned:
            return f"link {link.name}: {link.told or 'what was measured through it is not what was planned'}"
    failed = (step for step in night.steps if step.fault is Fault.LAB)
    return next((f"{step.name.value}: {step.sentence}" for step in failed), "")


def named_judgements(judgements: Iterable[Judgement], colour: Rating) -> str:
    """Return the judgements of one rating in a sentence; empty for none."""
    found = [one for one in judgements if one.colour is colour]
    words = [f"{one.key}: {one.sentence}" for one in found[:_MOST_NAMED]]
    more = f"and {counted(len(found) - len(words), 'series', 'series')} more" if len(found) > len(words) else ""
    return "; ".join(filter(None, (*words, more)))


def judges(name: str) -> bool:
    """Return whether copies of a night show if a named threshold holds."""
    return name in _HELD


def _series(night: Night) -> Iterator[_Values]:
    copies: dict[SeriesKey, list[NightCopy]] = {}
    for copy in night.copies:
        copies.setdefault(copy.key, []).append(copy)
    for key, found in copies.items():
        yield _Values(key=key, values=tuple(one.rate_bytes_per_s for one in found), copies=tuple(found))
    figures: dict[SeriesKey, list[float]] = {}
    for figure in night.figures:
        figures.setdefault(figure.key, []).append(figure.value)
    for key, values in figures.items():
        yield _Values(key=key, values=tuple(values))


def _judged(
    night: Night, found: _Values, past: Sequence[PastSeriesNight], thresholds: Sequence[Threshold]
) -> Judgement:
    if found.key.verb == LINES_LEFT:
        return _lines_left(found)
    text = figure(found.key, found.middle)
    if not night.is_comparable:
        sentence = f"{text}; not compared: {night.not_comparable_because or 'the night does not count'}"
        return _judgement(found, Rating.NO_HISTORY, sentence)
    rule = SECONDS if found.key.is_seconds else RATE
    trend = trend_of(found.middle, [_past_night(one.row) for one in past], rule, copies=len(found.values))
    missed = tuple(_missed(night, found.copies, thresholds))
    colour = Rating.RED if missed else _COLOURS[trend.course]
    since = _changes(night, past[-1]) if past and colour not in {Rating.GOOD, Rating.NO_HISTORY} else ""
    sentence = "; ".join(filter(None, (f"{text}{_beside(found, trend)}", *missed, since)))
    return _judgement(found, colour, sentence, trend=trend, rule=rule, is_within_thresholds=not missed)


def _judgement(
    found: _Values,
    colour: Rating,
    sentence: str,
    *,
    trend: Trend | None = None,
    rule: Rule = RATE,
    is_within_thresholds: bool = True,
) -> Judgement:
    band = trend.band if trend is not None else None
    return Judgement(
        key=found.key,
        tonight=found.middle,
        copies=len(found.values),
        history_median=band.middle if band else None,
        threshold=(band.low if rule.is_more_better else band.high) if band else None,
        side=trend.side if trend is not None else Side.UNJUDGED,
        is_within_thresholds=is_within_thresholds,
        colour=colour,
        sentence=sentence,
    )


def _lines_left(found: _Values) -> Judgement:
    left = int(sum(found.values))
    sentence = "no line of ours left" if not left else f"expected no line of ours on any router, found {left}"
    made = _judgement(found, Rating.RED if left else Rating.GOOD, sentence, is_within_thresholds=not left)
    return replace(made, tonight=float(left))


def _past_night(row: SeriesNight) -> PastNight:
    return PastNight(value=row.tonight, side=Side(row.side), is_within_thresholds=row.is_within_thresholds)


def figure(key: SeriesKey, value: float) -> str:
    """Format a series' figure: `2.43 MB/s`, `13.6 s`, `0 lines`."""
    if key.verb == LINES_LEFT:
        return counted(int(value), "line")
    return duration(value) if key.is_seconds else rate(value)


def _beside(found: _Values, trend: Trend) -> str:
    """Return how tonight compares with the expected band, to follow its figure."""
    if trend.band is None:
        return f"; fewer than the {LEAST_NIGHTS} good nights that a trend needs, so held against thresholds only"
    band = trend.band
    nights = f"the median of {counted(band.nights, 'good night')}, {figure(found.key, band.middle)}"
    part = found.middle / band.middle - 1 if band.middle else 0.0
    how = f"{share(abs(part))} {'above' if part > 0 else 'below'}" if round(abs(part), 2) else "as"
    edge = ""
    if trend.side is not Side.WITHIN:
        is_low = found.middle < band.low
        limit = f"at least {figure(found.key, band.low)}" if is_low else f"at most {figure(found.key, band.high)}"
        edge = f"; expected {limit}{_MEANINGS[trend.course].format(nights=nights_in_a_row(len(found.values)))}"
    return f", {how} {nights}{edge}"


def _changes(night: Night, last: PastSeriesNight) -> str:
    """Return which versions changed since a series' last comparable night; empty for none."""
    pairs = (
        ("this host's kernel", last.kernel, night.kernel),
        ("flashferry", last.tool_version, night.tool_version),
        ("the controller", last.controller_version, night.controller_version),
    )
    found = [f"{name} from {before} to {now}" for name, before, now in pairs if before != now]
    return f"since the last night compared {', '.join(found)}" if found else ""


# Absolute thresholds: what the copies of a series show of each, as a figure with the limit's meaning and its words.


def _missed(night: Night, copies: Sequence[NightCopy], thresholds: Iterable[Threshold]) -> Iterator[str]:
    """Yield a sentence for each threshold that a series' tuned copies miss.

    Copies to flash count only in a night without probes: many flash memories are slower than their link.
    """
    has_probes = any(copy.is_tuned and copy.verb == "probe" for copy in night.copies)
    tuned = [copy for copy in copies if copy.is_tuned and not (has_probes and copy.verb != "probe")]
    for threshold in thresholds:
        judge = _HELD.get(threshold.name)
        seen = judge(night, tuned, threshold.limit) if judge is not None and tuned else None
        if seen is not None:
            yield f"expected {THRESHOLDS[threshold.name].wants(threshold.limit)}, found {seen}"


def _share_of_cap(_night: Night, copies: Sequence[NightCopy], limit: float) -> str | None:
    parts = [copy.rate_bytes_per_s / copy.cap_bytes_per_s for copy in copies if copy.cap_bytes_per_s]
    return share(median(parts)) if parts and median(parts) < limit else None


def _share_of_link(night: Night, copies: Sequence[NightCopy], limit: float) -> str | None:
    carried = {link.condition: link.planned.bandwidth_kbps * 1e3 for link in night.links}
    rates = [(copy.rate_bytes_per_s, carried.get(copy.condition, 0.0)) for copy in copies]
    parts = [found / link_payload_bytes_per_s(link_bps) for found, link_bps in rates if link_bps]
    return share(median(parts)) if parts and median(parts) < limit else None


def _least_rate(_night: Night, copies: Sequence[NightCopy], limit: float) -> str | None:
    found = median(copy.rate_bytes_per_s for copy in copies)
    return rate(found) if found < limit * 1e6 else None


def _least_gain(_night: Night, copies: Sequence[NightCopy], limit: float) -> str | None:
    gains = [copy.gain for copy in copies if copy.gain is not None]
    return gain(median(gains)) if gains and median(gains) < limit else None


_HELD: Mapping[str, Callable[[Night, Sequence[NightCopy], float], str | None]] = {
    "tuned_share_of_cap": _share_of_cap,
    "tuned_share_of_link": _share_of_link,
    "min_rate_mb_s": _least_rate,
    "min_gain": _least_gain,
}
"""By threshold: the figure found if it is missed; None if it holds or was not measured. Other thresholds are checked in
the reports of the night's runs.
"""

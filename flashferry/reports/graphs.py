"""The four graphs of a transfer, from readings of TCP_INFO to lines. Pure; `flashferry.reports.svg` draws them.

They are those of the published experiment: rate over time, bytes acknowledged with the advertised window above them,
what window over round trip allows, and the round-trip time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from flashferry.reports.scales import Axis, Point, evenly, rate_axis, rtt_axis, size_axis, thinned, time_axis
from flashferry.reports.words import rates
from flashferry.tcp.sample import Sample, intervals

MOST_POINTS = 150
"""More than a line of a printed page shows."""

FEW_READINGS = 10
"""Below this a graph is a hint, and says so."""

_IN_RANGE = 2.5
"""A limit so many times above all that was measured would flatten the line, so it is stated in words."""


class Stroke(StrEnum):
    """How a line is drawn: distinguished by colour, and without colour by its dashes."""

    SOLID = "a"
    DASHED = "b"
    DOTTED = "c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line: points of seconds and a value in base units.

    Attributes:
        label: What the legend calls it.
        points: In the order of time.
        stroke: How it is drawn.
        is_step: Whether a point's value holds since the point before, the first's since the start.
        gaps: Of a step line, the points since whose forerunner nothing is drawn: there was no value, or none in sight.
    """

    label: str
    points: tuple[Point, ...]
    stroke: Stroke = Stroke.SOLID
    is_step: bool = False
    gaps: frozenset[int] = frozenset()

    @property
    def values(self) -> tuple[float, ...]:
        """Return what is drawn, without the times."""
        return tuple(value for place, (_, value) in enumerate(self.points) if place not in self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A graph.

    Attributes:
        key: One word for file names and tests.
        title: What it shows.
        across: The time axis.
        up: The value axis.
        lines: What is drawn; none where nothing was measured.
        readings: How many readings it is drawn from.
        reading: What one of them is called.
        note: What cannot be seen in it and must be known; empty for nothing.
    """

    key: str
    title: str
    across: Axis
    up: Axis
    lines: tuple[Line, ...]
    readings: int
    reading: str = "reading"
    note: str = ""

    @property
    def description(self) -> str:
        """Return the graph in a sentence, for those who cannot see it."""
        if not self.lines:
            return f"{self.title}: not measured."
        shown = "; ".join(f"{line.label}: {_range(line, self.up)}" for line in self.lines)
        names = self.across.names
        length = f"from {names[0]} to {names[-1]}" if names else f"over {self.across.end:.3g} {self.across.unit}"
        return f"{self.title} {length}. {shown}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A rate that the transfer was held against.

    Attributes:
        label: Its name: `cap`, `link`.
        bytes_per_s: The rate; where it changed, that of the end.
        steps: Where it changed: times, each with the rate in force since the time before, 0 for none. Empty where it
            was the same all the time.
    """

    label: str
    bytes_per_s: float
    steps: tuple[Point, ...] = ()

    @property
    def least_bytes_per_s(self) -> float:
        """The lowest that was in force."""
        return min((rate for _, rate in self.steps if rate > 0), default=self.bytes_per_s)

    @property
    def most_bytes_per_s(self) -> float:
        """The highest that was in force."""
        return max((rate for _, rate in self.steps), default=self.bytes_per_s)


def recorded_limit(label: str, samples: Sequence[Sample], at_end_bytes_per_s: float | None) -> Limit | None:
    """Return the pacing limit of a transfer as its readings have it: a share of a cap changes as copies come and go.

    Args:
        label: Its name.
        samples: The readings, in the order they were taken.
        at_end_bytes_per_s: What was in force at the end, for records whose readings do not have it; None for none.

    Returns:
        None where there was no limit at any time.
    """
    read = [(sample.at_s, float(sample.max_pacing_rate_bytes_per_s or 0)) for sample in samples]
    if not any(rate for _, rate in read):
        return Limit(label=label, bytes_per_s=at_end_bytes_per_s) if at_end_bytes_per_s else None
    # The first reading is of the moment before the limit is set.
    runs: list[Point] = []
    for at_s, rate in read[1:] or read:
        if runs and runs[-1][1] == rate:
            runs.pop()
        runs.append((at_s, rate))
    last = next(rate for _, rate in reversed(read) if rate)
    return Limit(label=label, bytes_per_s=last, steps=tuple(runs) if len(runs) > 1 else ())


def transfer_graphs(
    samples: Sequence[Sample], *, limits: Sequence[Limit] = (), most_points: int = MOST_POINTS
) -> tuple[Graph, ...]:
    """Return the four graphs of a transfer.

    Args:
        samples: Its readings in the order they were taken; with fewer than two the graphs have no lines.
        limits: Rates to draw beside its own; one that lies far above it is stated in the note instead.
        most_points: How many points a line may have, >= 4.
    """
    across = time_axis(max((sample.at_s for sample in samples), default=0.0))
    parts = (samples, across, most_points)
    return (_rate(*parts, limits), _acknowledged(*parts), _allowed(*parts), _round_trip(*parts))


def _rate(samples: Sequence[Sample], across: Axis, most: int, limits: Sequence[Limit]) -> Graph:
    achieved = _rates(samples, most)
    largest = max((value for _, value in achieved), default=0.0)
    highest = _IN_RANGE * largest
    near = [limit for limit in limits if 0 < limit.least_bytes_per_s <= highest][:2]
    lines = [Line(label="rate", points=achieved, is_step=True)]
    for limit, stroke in zip(near, (Stroke.DASHED, Stroke.DOTTED), strict=False):
        lines.append(_limit_line(limit, stroke, across, highest))
    up = rate_axis(max(value for line in lines for value in (*line.values, 0.0)))
    outside = "; ".join(filter(None, (_out_of_range(limit, highest) for limit in limits)))
    return Graph(
        key="rate",
        title="Rate",
        across=across,
        up=up,
        lines=tuple(lines) if achieved else (),
        readings=len(samples),
        note=_note(samples, f"above the picture: {outside}" if outside else ""),
    )


def _limit_line(limit: Limit, stroke: Stroke, across: Axis, highest: float) -> Line:
    if not limit.steps:
        return Line(label=limit.label, points=_level(limit.bytes_per_s, across), stroke=stroke)
    gaps = frozenset(place for place, (_, rate) in enumerate(limit.steps) if not 0 < rate <= highest)
    return Line(label=limit.label, points=limit.steps, stroke=stroke, is_step=True, gaps=gaps)


def _out_of_range(limit: Limit, highest: float) -> str:
    """Return what of a limit lies above the picture, in words; empty where nothing does."""
    above = [rate for _, rate in limit.steps or ((0.0, limit.bytes_per_s),) if rate > highest]
    return f"{limit.label} at {rates(min(above), max(above))}" if above else ""


def _acknowledged(samples: Sequence[Sample], across: Axis, most: int) -> Graph:
    kept = [samples[place] for place in evenly(len(samples), most)] if len(samples) > 1 else []
    done = tuple((sample.at_s, float(sample.bytes_acked)) for sample in kept)
    above = tuple(
        (sample.at_s, float(sample.bytes_acked + sample.snd_wnd_bytes))
        for sample in kept
        if sample.snd_wnd_bytes is not None
    )
    lines = [Line(label="acknowledged", points=done)]
    if above:
        lines.append(Line(label="acknowledged + window", points=above, stroke=Stroke.DASHED))
    windows = [sample.snd_wnd_bytes for sample in samples if sample.snd_wnd_bytes is not None]
    text = f"window {spread(windows)}" if windows else "this kernel does not report the window"
    return Graph(
        key="acknowledged",
        title="Bytes acknowledged and the window",
        across=across,
        up=size_axis(max((value for line in lines for _, value in line.points), default=0.0)),
        lines=tuple(lines) if done else (),
        readings=len(samples),
        note=_note(samples, text),
    )


def _allowed(samples: Sequence[Sample], across: Axis, most: int) -> Graph:
    allowed = thinned(
        [
            (sample.at_s, sample.snd_wnd_bytes / (sample.rtt_us / 1e6))
            for sample in samples
            if sample.snd_wnd_bytes is not None and sample.rtt_us > 0
        ],
        most,
    )
    achieved = _rates(samples, most)
    lines = (
        Line(label="window / RTT", points=allowed, stroke=Stroke.DASHED),
        Line(label="rate", points=achieved, is_step=True),
    )
    return Graph(
        key="allowed",
        title="What the window allows: window / RTT",
        across=across,
        up=rate_axis(max((value for line in lines for _, value in line.points), default=0.0)),
        lines=lines if allowed and achieved else (),
        readings=len(samples),
        note=_note(samples, "" if allowed else "this kernel does not report the window"),
    )


def _round_trip(samples: Sequence[Sample], across: Axis, most: int) -> Graph:
    points = thinned([(sample.at_s, sample.rtt_us / 1e6) for sample in samples if sample.rtt_us > 0], most)
    lines = [Line(label="smoothed RTT", points=points)]
    least = [sample.min_rtt_us / 1e6 for sample in samples if sample.min_rtt_us]
    if least:
        lines.append(Line(label="least RTT", points=_level(min(least), across), stroke=Stroke.DOTTED))
    return Graph(
        key="rtt",
        title="Round-trip time",
        across=across,
        up=rtt_axis(max((value for line in lines for _, value in line.points), default=0.0)),
        lines=tuple(lines) if len(points) > 1 else (),
        readings=len(samples),
        note=_note(samples, ""),
    )


def _rates(samples: Sequence[Sample], most: int) -> tuple[Point, ...]:
    """Return the rate of each interval, at its end; the readings are thinned first, so no byte is lost."""
    kept = [samples[place] for place in evenly(len(samples), most)]
    return tuple((span.end.at_s, span.rate_bytes_per_s) for span in intervals(kept))


def spread(sizes: Sequence[int]) -> str:
    """Return the least and the greatest of some amounts of bytes in words; one where they read alike."""
    axis = size_axis(max(sizes))
    low, high = axis.label_of(min(sizes)), axis.label_of(max(sizes))
    return low if low == high else f"{low} to {high}"


def _level(value: float, across: Axis) -> tuple[Point, ...]:
    return ((0.0, value), (across.end * across.divisor, value))


def _note(samples: Sequence[Sample], text: str) -> str:
    few = "few: a hint only" if 1 < len(samples) < FEW_READINGS else ""
    return "; ".join(part for part in (text, few) if part)


def _range(line: Line, up: Axis) -> str:
    values = line.values or (0.0,)
    low, high = up.label_of(min(values)), up.label_of(max(values))
    return high if low == high else f"{low} to {high}"

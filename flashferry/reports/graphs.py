"""Draw the graphs of a transfer as SVG: axes with round ticks, lines, limits, and a description. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from html import escape

from msgspec import Struct

from flashferry.core.units import counted
from flashferry.reports.words import rates
from flashferry.tcp.sample import Sample, intervals

Point = tuple[float, float]

_TICKS = 5

_MINUTES_FROM_S = 180.0

_RATES = ((1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))

_LEAST_IN_MB = 1e4

_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class Axis(Struct, frozen=True, kw_only=True):
    """An axis from 0 to its last tick.

    Attributes:
        end: Value at its end, > 0, in its unit.
        step: Distance of its ticks, > 0.
        divisor: Base units (bytes, seconds, bytes/s) per unit.
        names: Labels at 0, 1, 2, ... instead of numbers, for example dates; empty for numbers.
    """

    end: float
    step: float
    unit: str
    divisor: float
    names: tuple[str, ...] = ()

    @property
    def ticks(self) -> tuple[float, ...]:
        """Return the ticks in the axis's unit, 0 first."""
        return tuple(number * self.step for number in range(round(self.end / self.step) + 1))

    def share(self, value: float) -> float:
        """Return the position of a value in base units, 0 to 1."""
        return min(1.0, max(0.0, value / self.divisor / self.end))

    def label(self, tick: float) -> str:
        """Return the label of a tick, with the decimals that the step needs."""
        if self.names:
            return self.names[round(tick)]
        decimals = max(0, -math.floor(math.log10(self.step) + 1e-9))
        return f"{tick:.{decimals}f}"

    def label_of(self, value: float) -> str:
        """Format a value in base units with the unit: `5.43 MB/s`."""
        return f"{value / self.divisor:.3g} {self.unit}"


def rate_axis(largest_bytes_per_s: float) -> Axis:
    """Return an axis for rates, in MB/s unless that would show only zeros."""
    return _axis(largest_bytes_per_s, _RATES[:1] if largest_bytes_per_s >= _LEAST_IN_MB else _RATES)


def size_axis(largest_bytes: float) -> Axis:
    """Return an axis for bytes."""
    return _axis(largest_bytes, _SIZES)


def rtt_axis(largest_s: float) -> Axis:
    """Return an axis for round-trip times."""
    return _axis(largest_s, _TIMES)


def seconds_axis(largest_s: float) -> Axis:
    """Return an axis for durations of a device's steps, in seconds."""
    return _axis(largest_s, _TIMES[:1])


def time_axis(duration_s: float) -> Axis:
    """Return an axis that ends with the transfer; in minutes from three on."""
    length_s = duration_s if duration_s > 0 else 1.0
    divisor, unit = (60.0, "min") if length_s >= _MINUTES_FROM_S else (1.0, "s")
    return Axis(end=length_s / divisor, step=_step(length_s / divisor), unit=unit, divisor=divisor)


def named_axis(names: Sequence[str]) -> Axis:
    """Return an axis with labels, at least one."""
    end = max(1, len(names) - 1)
    named = tuple(names) if len(names) > 1 else (*names, *names)
    return Axis(end=end, step=math.ceil(end / _TICKS), unit="", divisor=1.0, names=named)


def _axis(largest: float, units: Sequence[tuple[float, str]]) -> Axis:
    divisor, unit = next((one for one in units if largest >= one[0]), units[-1])
    value = largest / divisor if largest > 0 else 1.0
    step = _step(value)
    return Axis(end=math.ceil(value / step - 1e-9) * step, step=step, unit=unit, divisor=divisor)


def _step(length: float) -> float:
    """Return the step (1, 2 or 5 times a power of ten) that gives about five ticks."""
    rough = length / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """Return at most `most` (>= 4) points: the minimum and maximum of each section, so that no spike is lost."""
    if len(points) <= most:
        return tuple(points)
    inner, stretches = points[1:-1], (most - 2) // 2
    kept: list[Point] = [points[0]]
    for number in range(stretches):
        part = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        if part:
            low, high = min(part, key=_height_of), max(part, key=_height_of)
            kept += sorted({low, high})
    return (*kept, points[-1])


def evenly(count: int, most: int) -> tuple[int, ...]:
    """Return evenly spaced indices, at most `most` (>= 2), first and last included."""
    if count <= most:
        return tuple(range(count))
    return tuple(round(number * (count - 1) / (most - 1)) for number in range(most))


def _height_of(point: Point) -> float:
    return point[1]


MOST_POINTS = 150
"""More points than a printed line can show."""

FEW_READINGS = 10
"""With fewer readings the graph's note says that it is only an indication."""

_IN_RANGE = 2.5
"""A limit so many times above the measured rates is only stated in the note."""


class Stroke(StrEnum):
    """Style of a line, distinguished by colour and by dashes."""

    SOLID = "a"
    DASHED = "b"
    DOTTED = "c"


class Line(Struct, frozen=True, kw_only=True):
    """A line: points of seconds and a value in base units.

    Attributes:
        label: In the legend.
        points: In order of time.
        is_step: Whether a value holds since the point before, the first since the start.
        gaps: For a step line, indices of points before which nothing is drawn, because there was no value.
    """

    label: str
    points: tuple[Point, ...]
    stroke: Stroke = Stroke.SOLID
    is_step: bool = False
    gaps: frozenset[int] = frozenset()

    @property
    def values(self) -> tuple[float, ...]:
        """Return the values without times."""
        return tuple(value for place, (_, value) in enumerate(self.points) if place not in self.gaps)


class Graph(Struct, frozen=True, kw_only=True):
    """A graph.

    Attributes:
        key: Identifier for file names.
        across: The time axis.
        up: The value axis.
        lines: Empty if nothing was measured.
        readings: Number of readings.
        reading: Noun for a reading.
        note: What the graph does not show; empty for nothing.
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
        """Return the graph as a sentence, for screen readers."""
        if not self.lines:
            return f"{self.title}: not measured."
        shown = "; ".join(f"{line.label}: {_range(line, self.up)}" for line in self.lines)
        names = self.across.names
        length = f"from {names[0]} to {names[-1]}" if names else f"over {self.across.end:.3g} {self.across.unit}"
        return f"{self.title} {length}. {shown}."


class Limit(Struct, frozen=True, kw_only=True):
    """A rate limit of a transfer.

    Attributes:
        label: `cap` or `link`.
        bytes_per_s: The rate, at the end if it changed.
        steps: If it changed: times, each with the rate in force since the time before, 0 for none; else empty.
    """

    label: str
    bytes_per_s: float
    steps: tuple[Point, ...] = ()

    @property
    def least_bytes_per_s(self) -> float:
        """The lowest rate in force."""
        return min((rate for _, rate in self.steps if rate > 0), default=self.bytes_per_s)

    @property
    def most_bytes_per_s(self) -> float:
        """The highest rate in force."""
        return max((rate for _, rate in self.steps), default=self.bytes_per_s)


def recorded_limit(label: str, samples: Sequence[Sample], at_end_bytes_per_s: float | None) -> Limit | None:
    """Return the pacing limit by a transfer's readings; its share of a cap changes with the number of copies.

    Args:
        label: Its name.
        samples: The readings in order of time.
        at_end_bytes_per_s: Limit at the end, for records whose readings have none; None for none.

    Returns:
        None if there was no limit at any time.
    """
    read = [(sample.at_s, float(sample.max_pacing_rate_bytes_per_s or 0)) for sample in samples]
    if not any(rate for _, rate in read):
        return Limit(label=label, bytes_per_s=at_end_bytes_per_s) if at_end_bytes_per_s else None
    # The first reading is from before the limit is set.
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
        samples: The readings in order of time; with fewer than two the graphs have no lines.
        limits: Rates to draw; one far above the measured rates is only stated in the note.
        most_points: Most points per line, >= 4.
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
    """Describe what of a limit is above the graph; empty for nothing."""
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
    """Return the rate of each interval at its end; readings are thinned first, so that no byte is lost."""
    kept = [samples[place] for place in evenly(len(samples), most)]
    return tuple((span.end.at_s, span.rate_bytes_per_s) for span in intervals(kept))


def spread(sizes: Sequence[int]) -> str:
    """Describe the range of some sizes; one value if both read alike."""
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


WIDTH, HEIGHT = 640, 340
"""Size of the graph, without the lines of text below."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 34, 74, 70

_LINE, _EDGE = 26, 4

LARGEST_LETTERS = 22
"""Largest font size in pixels without overlapping labels."""

_FEW = 12
"""Up to so many points, each point of a line is marked."""

_LETTER = 12.4
"""Average width of a character at the largest font size."""

GRAPH_STYLE = """
svg.graph{display:block;width:100%;height:auto;font-family:inherit}
.graph text{fill:var(--ink,#1b1f24);font-size:17px}
.graph .t{font-size:18px;font-weight:600}
.graph .n{fill:var(--quiet,#57606a)}
.graph .u text{text-anchor:end}
.graph .v text{text-anchor:middle}
.graph path{fill:none;stroke-linejoin:round}
.graph .g{stroke:var(--rule,#d5d9de)}
.graph .x{stroke:var(--quiet,#57606a)}
.graph .a{stroke:var(--line-a,#0b4f9e);stroke-width:3.5}
.graph .b{stroke:var(--line-b,#b0480e);stroke-width:3;stroke-dasharray:12 6}
.graph .c{stroke:var(--line-c,#444);stroke-width:3;stroke-dasharray:2 5}
.graph .m{stroke-width:8;stroke-linecap:round;stroke-dasharray:none}
"""
"""Colours, dashes and fonts; a page can set --ink, --quiet, --rule, --line-a, --line-b and --line-c."""


def standalone(graph: Graph) -> str:
    """Return a graph as an SVG file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" width="{WIDTH}" height="{_height(graph)}"'
    style = f"<style>{GRAPH_STYLE}</style>"
    opening, _, rest = svg(graph).partition(">")
    return f"{opening.replace('<svg', head, 1)}>{style}{rest}\n"


def svg(graph: Graph, *, marks: str = "") -> str:
    """Return a graph as an `svg` element.

    Args:
        graph: The graph.
        marks: Additional SVG drawn above all lines; see `place_of`.
    """
    field = f"0 0 {WIDTH} {_height(graph)}"
    head = (
        f'<svg class="graph" viewBox="{field}" role="img" aria-label="{escape(graph.description)}">'
        f'<text class="t" x="{_EDGE}" y="22">{escape(graph.title)}, {escape(graph.up.unit)}</text>'
    )
    if not graph.lines:
        return f"{head}{_words(_foot(graph), HEIGHT // 2)}</svg>"
    return "".join(
        (head, *_axes(graph), *_legend(graph), *(_drawn(line, graph) for line in graph.lines), marks, "</svg>")
    )


def _axes(graph: Graph) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    rows = [(tick, _down(graph, tick * graph.up.divisor)) for tick in graph.up.ticks]
    columns = [(tick, _over(graph, tick * graph.across.divisor)) for tick in graph.across.ticks]
    columns = [(tick, over) for tick, over in columns if tick <= graph.across.end * (1 + 1e-9)]
    grid = "".join(f"M{_LEFT} {down}H{right}" for _, down in rows[1:])
    marks = "".join(f"M{over} {bottom}v6" for _, over in columns)
    yield f'<path class="g" d="{grid}"/><path class="x" d="M{_LEFT} {_TOP}V{bottom}H{right}{marks}"/>'
    beside = (f'<text x="{_LEFT - 8}" y="{down + 6}">{graph.up.label(tick)}</text>' for tick, down in rows)
    units = {columns[-1][0]: f" {graph.across.unit}".rstrip()}
    below = (
        f'<text x="{over}" y="{bottom + 28}">{graph.across.label(tick)}{units.get(tick, "")}</text>'
        for tick, over in columns
    )
    yield f'<g class="u">{"".join(beside)}</g><g class="v">{"".join(below)}</g>'
    yield _words(_foot(graph), HEIGHT - 10)


def _foot(graph: Graph) -> list[str]:
    """Return the text below a graph, in lines that fit at any font size."""
    readings = counted(graph.readings, graph.reading) if graph.readings else f"no {graph.reading}s"
    lines: list[str] = []
    for part in (readings if graph.lines else f"not measured: {readings}", *filter(None, graph.note.split("; "))):
        if lines and len(lines[-1]) + len(part) + 2 <= (WIDTH - 2 * _EDGE) / _LETTER:
            lines[-1] += f"; {part}"
        else:
            lines.append(part)
    return lines


def _words(lines: list[str], down: int) -> str:
    return "".join(
        f'<text class="n" x="{_EDGE}" y="{down + place * _LINE}">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )


def _height(graph: Graph) -> int:
    return HEIGHT + _LINE * (len(_foot(graph)) - 1)


def _legend(graph: Graph) -> Iterator[str]:
    over = _LEFT
    for line in graph.lines:
        yield f'<path class="{line.stroke.value}" d="M{over} 48h36"/>'
        yield f'<text x="{over + 44}" y="54">{escape(line.label)}</text>'
        over += 64 + round(_LETTER * len(line.label))


def _drawn(line: Line, graph: Graph) -> str:
    places = [(_over(graph, at_s), _down(graph, value)) for at_s, value in line.points]
    stretches = _steps(places, line.gaps) if line.is_step else [places]
    path = f'<path class="{line.stroke.value}" d="{"".join(_moves(stretch) for stretch in stretches)}"/>'
    if len(line.points) > _FEW or line.is_step or len(line.points) == 2:
        return path
    dots = "".join(f"M{over} {down}h0" for over, down in places)
    return f'{path}<path class="{line.stroke.value} m" d="{dots}"/>'


def _steps(places: list[tuple[int, int]], gaps: frozenset[int]) -> list[list[tuple[int, int]]]:
    """Return the corners of a step line."""
    stretches: list[list[tuple[int, int]]] = [[]]
    before = _LEFT
    for number, (over, down) in enumerate(places):
        if number in gaps:
            stretches.append([])
        else:
            stretches[-1] += [(before, down), (over, down)]
        before = over
    return [stretch for stretch in stretches if stretch]


def _moves(places: list[tuple[int, int]]) -> str:
    """Return positions as SVG path data with relative moves, without empty ones."""
    over, down = places[0]
    moves = [f"M{over} {down}"]
    for place in places[1:]:
        right, below = place[0] - over, place[1] - down
        if right and below:
            moves.append(f"l{right}{' ' if below > 0 else ''}{below}")
        elif right:
            moves.append(f"h{right}")
        elif below:
            moves.append(f"v{below}")
        over, down = place
    return "".join(moves)


def _over(graph: Graph, at_s: float) -> int:
    return _LEFT + round(graph.across.share(at_s) * (WIDTH - _LEFT - _RIGHT))


def _down(graph: Graph, value: float) -> int:
    return HEIGHT - _BOTTOM - round(graph.up.share(value) * (HEIGHT - _TOP - _BOTTOM))


def place_of(graph: Graph, point: Point) -> tuple[int, int]:
    """Return the position of a point (seconds, value) in the graph."""
    return _over(graph, point[0]), _down(graph, point[1])

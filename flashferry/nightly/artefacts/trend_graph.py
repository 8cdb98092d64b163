"""The graph of a series over its nights: what each brought, what was expected, and what it was judged to be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flashferry.nightly.artefacts.report import SeriesPoint, SeriesReport
from flashferry.nightly.night import Rating
from flashferry.reports.graphs import Graph, Line, Stroke
from flashferry.reports.scales import named_axis, rate_axis, seconds_axis
from flashferry.reports.svg import place_of, svg

_AXES = {"bytes/s": rate_axis, "s": seconds_axis}
DRAWN = frozenset(_AXES)
"""Units of series that have a graph; a count of lines, which must be 0 every night, needs none."""

_SHAPES = {
    Rating.RED: ("red", "m-8-8l16 16m0-16l-16 16"),
    Rating.AMBER: ("amber", "m-9 0a9 9 0 1 0 18 0a9 9 0 1 0-18 0"),
    Rating.CHANGED_UP: ("up", "m-9 8h18l-9-16z"),
}
"""By judgement: a class, and the shape drawn around the night's place; distinguished by shape in print, too."""

_OFF = "m-7 0h14"


def trend_graph(series: SeriesReport, title: str) -> Graph:
    """Return the graph of a series.

    Args:
        series: The series, the oldest night first, of a unit that is `DRAWN`.
        title: What stands above it.
    """
    points = series.points
    compared = [(float(place), one.value) for place, one in enumerate(points) if one.is_comparable]
    lines = [Line(label="night", points=tuple(compared))] if compared else []
    for label, stroke, values in (
        ("expected", Stroke.DOTTED, [one.history_median for one in points]),
        ("noticed beyond", Stroke.DASHED, [one.threshold for one in points]),
    ):
        if any(value is not None for value in values):
            lines.append(_steps(label, stroke, values))
    off = sum(not one.is_comparable for one in points)
    return Graph(
        key="trend",
        title=title,
        across=named_axis([_date(one) for one in points] or [""]),
        up=_AXES[series.unit](max((value for line in lines for value in line.values), default=0.0)),
        lines=tuple(lines),
        readings=len(points),
        reading="night",
        note=f"{off} not compared, marked at the foot" if off else "",
    )


def trend_svg(series: SeriesReport, title: str) -> str:
    """Return the graph of a series as an `svg` element; nights that need attention are marked."""
    graph = trend_graph(series, title)
    return svg(graph, marks="".join(_marks(graph, series.points)) if graph.lines else "")


def _steps(label: str, stroke: Stroke, values: Sequence[float | None]) -> Line:
    gaps = frozenset(place for place, value in enumerate(values) if value is None)
    points = tuple((float(place), value or 0.0) for place, value in enumerate(values))
    return Line(label=label, points=points, stroke=stroke, is_step=True, gaps=gaps)


def _marks(graph: Graph, points: Sequence[SeriesPoint]) -> Iterable[str]:
    for place, one in enumerate(points):
        if not one.is_comparable:
            over, down = place_of(graph, (float(place), 0.0))
            yield f'<path class="k off" d="M{over} {down}{_OFF}"/>'
        elif one.colour in _SHAPES:
            name, shape = _SHAPES[one.colour]
            over, down = place_of(graph, (float(place), one.value))
            yield f'<path class="k {name}" d="M{over} {down}{shape}"/>'


def _date(point: SeriesPoint) -> str:
    """Return month and day of a night."""
    return point.started_at[5:10]

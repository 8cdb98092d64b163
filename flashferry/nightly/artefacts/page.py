"""Write a night's page and the page of all nights, with graphs of the series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment
from markupsafe import Markup
from msgspec import Struct

from flashferry.core.redaction import sanitize_record
from flashferry.core.units import counted
from flashferry.nightly.artefacts.report import (
    NightReport,
    SeriesPoint,
    SeriesReport,
    colour_sign,
    colour_tone,
    colour_word,
    condition_words,
    figure_of,
    gravest_first,
    night_counts,
    night_lines,
    night_result,
    night_tone,
    night_word,
    series_report,
    step_tone,
    title_of,
)
from flashferry.nightly.history import Series
from flashferry.nightly.night import Judgement, Night, NightCopy, Rating, StepOutcome
from flashferry.nightly.trend import LEAST_NIGHTS, NIGHTS
from flashferry.reports.as_html import inlined, page_templates, style, whole
from flashferry.reports.graphs import Graph, Line, Stroke, named_axis, place_of, rate_axis, seconds_axis, svg
from flashferry.reports.words import duration, moment

_AXES = {"bytes/s": rate_axis, "s": seconds_axis}
DRAWN = frozenset(_AXES)
"""Units of series with a graph; a count of lines, 0 every night, needs none."""

_SHAPES = {
    Rating.RED: ("red", "m-8-8l16 16m0-16l-16 16"),
    Rating.AMBER: ("amber", "m-9 0a9 9 0 1 0 18 0a9 9 0 1 0-18 0"),
    Rating.CHANGED_UP: ("up", "m-9 8h18l-9-16z"),
}
"""By rating: a class and the marker's shape, so that print without colour shows the difference."""

_OFF = "m-7 0h14"


def trend_graph(series: SeriesReport, title: str) -> Graph:
    """Return the graph of a series.

    Args:
        series: The series, the oldest night first, of a unit in `DRAWN`.
        title: The heading.
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
        across=named_axis([one.started_at[5:10] for one in points] or [""]),
        up=_AXES[series.unit](max((value for line in lines for value in line.values), default=0.0)),
        lines=tuple(lines),
        readings=len(points),
        reading="night",
        note=f"{off} not compared, marked at the foot" if off else "",
    )


def trend_svg(series: SeriesReport, title: str) -> str:
    """Return the graph of a series as an `svg` element, with marked nights."""
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


_OPENED_UP_TO = 8
"""With at most this many routers, the page shows all copies opened."""

_NOTICED = frozenset({Rating.RED, Rating.AMBER, Rating.CHANGED_UP})


class _Router(Struct, frozen=True, kw_only=True):
    """A router with its results in words."""

    label: str
    summary: str
    figures: str
    copies: tuple[NightCopy, ...]


def night_html(report: NightReport) -> str:
    """Return a night's report as one HTML page."""
    report = sanitize_record(report)
    night, result = report.night, night_result(report.night)
    page = night_templates().get_template("night.html.j2")
    return whole(
        page.render(
            **inlined(style("night.css")),
            report=report,
            night=night,
            started_at=night.started_at.isoformat(),
            ended_at=night.ended_at.isoformat(),
            backend=" ".join(filter(None, (night.backend, night.controller_version, night.controller))),
            banner=night_tone(night),
            headline=[f"{result[:1].upper()}{result[1:]}.", *night_lines(night)],
            tiles=tuple(_tiles(night)),
            failed=[step for step in night.steps if step.outcome is StepOutcome.FAILED],
            noticed=[one for one in gravest_first(night.judgements) if one.colour in _NOTICED],
            judged=night.judgements,
            drawn=tuple(_drawn(report)),
            routers=tuple(_routers(night)),
            opened_up_to=_OPENED_UP_TO,
        )
    )


@cache
def night_templates() -> Environment:
    """Return the template environment with the functions of nights."""
    made = page_templates()
    made.globals |= {
        "colour_tone": colour_tone,
        "colour_sign": colour_sign,
        "colour_word": colour_word,
        "step_tone": step_tone,
        "title_of": title_of,
        "figure_of": figure_of,
        "condition": condition_words,
        "rule": {"nights": NIGHTS, "least": LEAST_NIGHTS},
    }
    return made


def drawn_series(series: SeriesReport) -> Markup:
    """Return the graph of a series for a page."""
    return Markup(trend_svg(series, title_of(series.key)))  # noqa: S704 -- svg escapes what it is given


def _drawn(report: NightReport) -> Iterator[tuple[SeriesReport, Judgement, Markup]]:
    judged = {str(one.key): one for one in report.night.judgements}
    for one in report.series:
        if one.unit in DRAWN:
            yield one, judged[one.name], drawn_series(one)


def _tiles(night: Night) -> Iterator[tuple[str, str, bool]]:
    done = [step for step in night.steps if step.outcome is not StepOutcome.SKIPPED]
    passed = sum(step.outcome is StepOutcome.PASSED for step in done)
    yield f"{passed} of {len(done)}", "steps passed", passed < len(done)
    red = sum(one.colour is Rating.RED for one in night.judgements)
    fine = sum(one.colour not in _NOTICED for one in night.judgements)
    if night.judgements:
        yield f"{fine} of {len(night.judgements)}", "series with nothing to notice", bool(red)
    planned = sum(link.is_as_planned for link in night.links)
    if night.links:
        yield f"{planned} of {len(night.links)}", "links as planned", planned < len(night.links)
    if night.copies:
        yield (
            f"{len(night.copies)}",
            f"timed copies of {counted(len({one.node for one in night.copies}), 'router')}",
            False,
        )
    yield duration((night.ended_at - night.started_at).total_seconds()), "start to end", False


def _routers(night: Night) -> Iterator[_Router]:
    seen = {node.label: node for node in night.nodes}
    labels = dict.fromkeys([*(one.node for one in night.copies), *seen])
    for label in labels:
        copies = tuple(one for one in night.copies if one.node == label)
        figures = [one for one in night.figures if one.node == label]
        node = seen.get(label)
        words_of_node = [node.node_definition, node.image_definition, node.state.value, *node.addresses] if node else []
        yield _Router(
            label=label,
            summary=", ".join(filter(None, words_of_node)),
            figures=", ".join(f"{one.what} {figure_of(one.key, one.value)}" for one in figures),
            copies=copies,
        )


class NightLine(Struct, frozen=True, kw_only=True):
    """A night as words for a row of a table."""

    night_id: str
    began: str
    took: str
    word: str
    tone: str
    result: str
    series: str
    backend: str
    kernel: str
    tool_version: str
    lines: tuple[str, ...]


def night_line(night: Night) -> NightLine:
    """Return a night as a row."""
    return NightLine(
        night_id=night.night_id,
        began=moment(night.started_at.isoformat()),
        took=duration((night.ended_at - night.started_at).total_seconds()),
        word=night_word(night),
        tone=night_tone(night),
        result=night_result(night),
        series=night_counts(night),
        backend=f"{night.backend} {night.controller_version}".strip(),
        kernel=night.kernel,
        tool_version=night.tool_version,
        lines=night_lines(night),
    )


def history_html(nights: Sequence[Night], series: Sequence[Series], *, written_by: str) -> str:
    """Return all nights as one HTML page, the last night first.

    Args:
        nights: The nights, the oldest first.
        series: Their series.
        written_by: Name and version of the program.
    """
    rows = [night_line(sanitize_record(night)) for night in reversed(nights)]
    found = [sanitize_record(series_report(one)) for one in series]
    page = night_templates().get_template("nights.html.j2")
    return whole(
        page.render(
            **inlined(style("night.css")),
            rows=rows,
            drawn=[(one, drawn_series(one)) for one in found if one.unit in DRAWN],
            summary=_summary,
            written_by=written_by,
            written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    )


def _summary(series: SeriesReport) -> str:
    """Return the last result of a series in words."""
    last = series.points[-1]
    value = figure_of(series.key, last.value)
    if not last.is_comparable:
        return f"{value} in the last night, which is not compared"
    if last.history_median is None:
        return f"{value}; too few good nights for a trend"
    return f"{value}, expected {figure_of(series.key, last.history_median)}"

"""All nights as one HTML file: each series over time, and each night with its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from flashferry.core.outside import sanitize_record
from flashferry.nightly.artefacts import words
from flashferry.nightly.artefacts.page import drawn_series, night_templates
from flashferry.nightly.artefacts.report import SeriesReport, series_report
from flashferry.nightly.artefacts.trend_graph import DRAWN
from flashferry.nightly.history import Series
from flashferry.nightly.night import Night
from flashferry.reports.pages import inlined, style, whole
from flashferry.reports.words import duration, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class NightLine:
    """A night in a line of a table, all of it words.

    Attributes:
        night_id: Its id.
        began: When, UTC.
        took: How long it took.
        word: What it was, in a word.
        tone: The class for that.
        result: What it was, in a clause.
        series: How its series were judged.
        backend: What took its lab up, with the version.
        kernel: Of the host that served.
        tool_version: Flashferry's.
        lines: What else there is to say.
    """

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
    """Return a night in a line."""
    return NightLine(
        night_id=night.night_id,
        began=moment(night.started_at.isoformat()),
        took=duration((night.ended_at - night.started_at).total_seconds()),
        word=words.night_word(night),
        tone=words.night_tone(night),
        result=words.night_result(night),
        series=words.night_counts(night),
        backend=f"{night.backend} {night.controller_version}".strip(),
        kernel=night.kernel,
        tool_version=night.tool_version,
        lines=words.night_lines(night),
    )


def history_html(
    nights: Sequence[Night], series: Sequence[Series], *, written_by: str, now: datetime | None = None
) -> str:
    """Return all nights as one HTML page, the last night first.

    Args:
        nights: The nights, the oldest first.
        series: Their series.
        written_by: Name and version of the program.
        now: When it is written; None: now.
    """
    rows = [night_line(sanitize_record(night)) for night in reversed(nights)]
    found = [sanitize_record(series_report(one)) for one in series]
    page = night_templates().get_template("nights.html.j2")
    return whole(
        page.render(
            **inlined(style("night.css")),
            rows=rows,
            drawn=[(one, drawn_series(one)) for one in found if one.unit in DRAWN],
            told=_summary,
            written_by=written_by,
            written_at=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        )
    )


def _summary(series: SeriesReport) -> str:
    """Return what a series came to last."""
    last = series.points[-1]
    value = words.figure_of(series.key, last.value)
    if not last.is_comparable:
        return f"{value} in the last night, which is not compared"
    if last.history_median is None:
        return f"{value}; too few good nights for a trend"
    return f"{value}, expected {words.figure_of(series.key, last.history_median)}"

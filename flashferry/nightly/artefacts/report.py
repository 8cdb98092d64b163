"""The night as a document, `flashferry.night/1`: all that was done, measured and judged, each series with its past.

The page and the JUnit of a night are made of this, too. Its JSON Schema is made from these values; the documentation
has it as `docs/night.schema.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flashferry.core.codec import to_json
from flashferry.core.outside import json_text, redact_json
from flashferry.nightly.faults import Fault
from flashferry.nightly.history import Series, with_tonight
from flashferry.nightly.night import LINES_LEFT, Judgement, Night, Rating, SeriesKey
from flashferry.reports.json_schema import json_schema
from flashferry.store.nights import PastSeriesNight

SCHEMA = "flashferry.night/1"

SHOWN_NIGHTS = 60
"""Of a series' past so many nights are shown at the most: two months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """What a night brought in a series.

    Attributes:
        night_id: The night.
        started_at: When it began, ISO 8601, UTC.
        value: Median of its copies, in the unit of the series.
        history_median: Median of the good nights before; null: too few.
        threshold: The edge beyond which it was noticed; null: too few nights.
        colour: What it was judged to be.
        is_comparable: Whether it counts in the history of the series.
    """

    night_id: str
    started_at: str
    value: float
    history_median: float | None
    threshold: float | None
    colour: Rating
    is_comparable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesReport:
    """A series over the last nights, tonight last.

    Attributes:
        name: Its key as one text.
        key: What is compared.
        unit: `bytes/s`, `s` or `lines`.
        points: Its nights, the oldest first.
    """

    name: str
    key: SeriesKey
    unit: str
    points: tuple[SeriesPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """A night's report.

    Attributes:
        schema: Name and version of this document.
        written_at: When the report was written, ISO 8601, UTC.
        written_by: Name and version of the program, which is what ran the night, too.
        exit_code: What the command left with, or would have by the steps so far.
        meaning: The same in words.
        fault: Whose fault the gravest failure was; null: all is well.
        night: The night itself.
        series: Its series with their past, one for each judgement.
        files: Names of the other files in the night's folder.
    """

    schema: str
    written_at: str
    written_by: str
    exit_code: int
    meaning: str
    fault: Fault | None
    night: Night
    series: tuple[SeriesReport, ...]
    files: tuple[str, ...]


def night_report(
    night: Night, history: Sequence[PastSeriesNight], files: Iterable[str] = (), *, now: datetime | None = None
) -> NightReport:
    """Return the report of a night.

    Args:
        night: The night, as judged.
        history: What the nights before brought.
        files: Names of the other files in its folder.
        now: When it is written; None: now.
    """
    return NightReport(
        schema=SCHEMA,
        written_at=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        written_by=f"flashferry {night.tool_version}",
        exit_code=int(night.exit_code),
        meaning=night.exit_code.meaning_for("nightly"),
        fault=night.fault,
        night=night,
        series=tuple(map(series_report, with_tonight(history, night))),
        files=tuple(sorted(files)),
    )


def series_report(series: Series) -> SeriesReport:
    """Return a series as reports have it."""
    return SeriesReport(
        name=str(series.key),
        key=series.key,
        unit="lines" if series.key.verb == LINES_LEFT else "s" if series.key.is_seconds else "bytes/s",
        points=tuple(
            SeriesPoint(
                night_id=one.row.night_id,
                started_at=one.started_at,
                value=one.row.tonight,
                history_median=one.row.history_median,
                threshold=one.row.threshold,
                colour=Rating(one.row.colour),
                is_comparable=one.is_comparable,
            )
            for one in series.nights[-SHOWN_NIGHTS:]
        ),
    )


def report_json(report: NightReport) -> str:
    """Return the report as one JSON document."""
    return json_text(redact_json(to_json(report)), indent=2) + "\n"


def report_schema() -> dict[str, Any]:
    """Return the schema as JSON types; `docs/night.schema.json` is this; a test holds it, and says how it is made."""
    return json_schema(NightReport, SCHEMA, title=f"flashferry night, {SCHEMA}")


_GRAVITY = (Rating.RED, Rating.AMBER, Rating.CHANGED_UP, Rating.NO_HISTORY, Rating.GOOD)


def gravest_first(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """Return judgements, those that need attention first."""
    return tuple(sorted(judgements, key=lambda one: _GRAVITY.index(one.colour)))

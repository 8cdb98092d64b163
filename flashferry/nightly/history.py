"""Store nights and read them back, including those of earlier releases; the SQL is in `flashferry.store.nights`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from flashferry.core.codec import CodecError, decode, stored_json
from flashferry.nightly.night import Night, Rating, SeriesKey
from flashferry.store.nights import (
    NightRow,
    PastSeriesNight,
    SeriesNight,
    keep_night,
    nights,
    series_nights,
)

READ_NIGHTS = 400
"""Nights that a series is searched for: a year, and those that were not comparable."""


class Series(Struct, frozen=True, kw_only=True):
    """A series over time: its nights, the oldest first, including those that are not comparable."""

    key: SeriesKey
    nights: tuple[PastSeriesNight, ...]

    @property
    def colour(self) -> Rating:
        """The rating of its last night."""
        return Rating(self.nights[-1].row.colour)


def past(directory: Path, *, before: str | None = None) -> tuple[PastSeriesNight, ...]:
    """Return the results of earlier nights in all series, the oldest first.

    Args:
        directory: The state folder.
        before: The night to compare, if it is stored already.

    Raises:
        ConfigInvalid: The nights cannot be read.
    """
    return series_nights(directory, last=READ_NIGHTS, before=before)


def keep(directory: Path, night: Night) -> None:
    """Store a night; replaces a stored one.

    Raises:
        ConfigInvalid: It cannot be stored.
    """
    keep_night(directory, _row(night), series_of_night(night))


def stored_nights(directory: Path, *, last: int) -> tuple[Night, ...]:
    """Return the last nights, the oldest first; only the columns of a night whose document is damaged.

    Raises:
        ConfigInvalid: The nights cannot be read.
    """
    return tuple(map(_night, nights(directory, last=last)))


def by_series(rows: Iterable[PastSeriesNight]) -> tuple[Series, ...]:
    """Group rows by series; series with the latest nights first."""
    found: dict[str, list[PastSeriesNight]] = {}
    for one in rows:
        found.setdefault(one.row.series, []).append(one)
    made = [Series(key=SeriesKey.of(text), nights=tuple(own)) for text, own in found.items()]
    return tuple(sorted(made, key=lambda one: one.nights[-1].started_at, reverse=True))


def with_tonight(history: Sequence[PastSeriesNight], night: Night) -> tuple[Series, ...]:
    """Return the series of a night, each with its earlier nights and the night itself."""
    tonight = tuple(
        PastSeriesNight(
            row=row,
            started_at=_utc(night.started_at),
            is_comparable=night.is_comparable,
            kernel=night.kernel,
            tool_version=night.tool_version,
            controller_version=night.controller_version,
        )
        for row in series_of_night(night)
    )
    names = {one.row.series for one in tonight}
    before = [one for one in history if one.row.series in names and one.row.night_id != night.night_id]
    order = {one.row.series: place for place, one in enumerate(tonight)}
    return tuple(sorted(by_series([*before, *tonight]), key=lambda one: order[str(one.key)]))


def series_of_night(night: Night) -> tuple[SeriesNight, ...]:
    """Return a night's judgements as rows."""
    return tuple(
        SeriesNight(
            night_id=night.night_id,
            series=str(one.key),
            copies=one.copies,
            tonight=one.tonight,
            history_median=one.history_median,
            threshold=one.threshold,
            side=one.side.value,
            is_within_thresholds=one.is_within_thresholds,
            colour=one.colour.value,
        )
        for one in night.judgements
    )


def _row(night: Night) -> NightRow:
    return NightRow(
        night_id=night.night_id,
        started_at=_utc(night.started_at),
        ended_at=_utc(night.ended_at),
        backend=night.backend,
        controller=night.controller,
        controller_version=night.controller_version,
        kernel=night.kernel,
        tool_version=night.tool_version,
        exit_code=int(night.exit_code),
        fault=night.fault.value if night.fault is not None else None,
        is_comparable=night.is_comparable,
        not_comparable_because=night.not_comparable_because,
        document=json.dumps(stored_json(night)),
    )


def _night(row: NightRow) -> Night:
    try:
        return decode(Night, json.loads(row.document))
    except (ValueError, CodecError):
        return Night(
            night_id=row.night_id,
            started_at=datetime.fromisoformat(row.started_at),
            ended_at=datetime.fromisoformat(row.ended_at),
            backend=row.backend,
            controller=row.controller,
            controller_version=row.controller_version,
            kernel=row.kernel,
            tool_version=row.tool_version,
            is_comparable=row.is_comparable,
            not_comparable_because=row.not_comparable_because or "its account in the database is damaged",
        )


def _utc(moment: datetime) -> str:
    """Return a time as text of fixed length, by which rows are ordered."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")

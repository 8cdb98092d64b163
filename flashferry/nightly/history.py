"""The nights that were: a night is kept with what it was judged to be, and read again, also one of an earlier release.

What stands in the database is made here from a night's values and back; the SQL is in `flashferry.store.nights`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

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
"""So many nights back a series is looked for: a year, and what was not comparable in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series over time.

    Attributes:
        key: What is compared.
        nights: What the nights brought, the oldest first, those that are not comparable among them.
    """

    key: SeriesKey
    nights: tuple[PastSeriesNight, ...]

    @property
    def colour(self) -> Rating:
        """What its last night was judged to be."""
        return Rating(self.nights[-1].row.colour)


def past(directory: Path, *, before: str | None = None) -> tuple[PastSeriesNight, ...]:
    """Return what the nights before brought in all series, the oldest first: what a night is judged by.

    Args:
        directory: The state folder.
        before: The night that is to be judged, where it is kept already.

    Raises:
        ConfigInvalid: The nights cannot be read.
    """
    return series_nights(directory, last=READ_NIGHTS, before=before)


def keep(directory: Path, night: Night) -> None:
    """Keep a night as it was judged; one that is kept already is replaced.

    Raises:
        ConfigInvalid: It cannot be kept.
    """
    keep_night(directory, _row(night), series_of_night(night))


def stored_nights(directory: Path, *, last: int) -> tuple[Night, ...]:
    """Return the last nights, the oldest first; of one whose account is damaged only what its row has.

    Args:
        directory: The state folder.
        last: How many at the most.

    Raises:
        ConfigInvalid: The nights cannot be read.
    """
    return tuple(map(_night, nights(directory, last=last)))


def by_series(rows: Iterable[PastSeriesNight]) -> tuple[Series, ...]:
    """Return rows by their series, those with the latest nights first in the order they stood in it."""
    found: dict[str, list[PastSeriesNight]] = {}
    for one in rows:
        found.setdefault(one.row.series, []).append(one)
    made = [Series(key=SeriesKey.of(text), nights=tuple(own)) for text, own in found.items()]
    return tuple(sorted(made, key=lambda one: one.nights[-1].started_at, reverse=True))


def with_tonight(history: Sequence[PastSeriesNight], night: Night) -> tuple[Series, ...]:
    """Return the series that a night has, each with the nights before it and the night itself."""
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
    """Return what a night brought, as it is kept: a row for each judgement."""
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
    """Return a time as rows are ordered by it; always as long as another."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")

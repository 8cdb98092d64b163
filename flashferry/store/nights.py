"""Store the nights of the test lab, and their results by series of copies.

They have a database of their own beside the journal, because they concern no router's state: removing it only loses
the history. A database of an earlier release is migrated by the first writer; readers see it as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.core.values import field_names
from flashferry.store.database import execute_all, make_private, open_to_read, schema_of, use_log

FILE = "nights.sqlite3"

_FIRST = """
CREATE TABLE nights (
    night_id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,
    ended_at TEXT NOT NULL,
    backend TEXT NOT NULL,
    controller TEXT NOT NULL,
    controller_version TEXT NOT NULL,
    kernel TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    fault TEXT,
    is_comparable INTEGER NOT NULL,
    not_comparable_because TEXT NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX nights_over_time ON nights (started_at);
CREATE TABLE series (
    night_id TEXT NOT NULL REFERENCES nights ON DELETE CASCADE,
    series TEXT NOT NULL,
    copies INTEGER NOT NULL,
    tonight REAL NOT NULL,
    history_median REAL,
    threshold REAL,
    side TEXT NOT NULL,
    is_within_thresholds INTEGER NOT NULL,
    colour TEXT NOT NULL,
    PRIMARY KEY (night_id, series)
);
CREATE INDEX series_over_time ON series (series, night_id);
"""

_STEPS = (_FIRST,)
SCHEMA_VERSION = len(_STEPS)

MOST_NIGHTS = 100_000
"""Default limit, higher than any real number of nights."""


class NightRow(Struct, frozen=True, kw_only=True):
    """A night.

    Attributes:
        night_id: The lab's title.
        started_at: ISO 8601, UTC.
        ended_at: ISO 8601, UTC.
        backend: The backend that ran the lab.
        controller: Its address.
        kernel: Kernel of the serving host.
        tool_version: Version of flashferry.
        exit_code: Of the command.
        fault: What a failure was attributed to; None for none.
        is_comparable: Whether it counts in histories.
        not_comparable_because: Why not; else empty.
        document: The whole result as JSON.
    """

    night_id: str
    started_at: str
    ended_at: str
    backend: str
    controller: str
    controller_version: str
    kernel: str
    tool_version: str
    exit_code: int
    fault: str | None
    is_comparable: bool
    not_comparable_because: str
    document: str


class SeriesNight(Struct, frozen=True, kw_only=True):
    """Result of a night in one series.

    Attributes:
        series: Key of the series.
        copies: Number of copies.
        tonight: Their median, in the unit of the series.
        history_median: Median of the good nights before; None if there were too few.
        threshold: Value beyond which a change is reported; None if there were too few nights.
        side: On which side of the earlier nights it is.
        is_within_thresholds: Whether all absolute thresholds were met.
        colour: Its rating.
    """

    night_id: str
    series: str
    copies: int
    tonight: float
    history_median: float | None
    threshold: float | None
    side: str
    is_within_thresholds: bool
    colour: str


class PastSeriesNight(Struct, frozen=True, kw_only=True):
    """Result of a night in one series, with the night's own facts.

    Attributes:
        started_at: Start of the night, ISO 8601, UTC.
        is_comparable: Whether the night counts in histories.
        kernel: Kernel of the serving host.
        tool_version: Version of flashferry.
    """

    row: SeriesNight
    started_at: str
    is_comparable: bool
    kernel: str
    tool_version: str
    controller_version: str


_NIGHT = ", ".join(name for name in field_names(NightRow))
_SERIES = ", ".join(f"series.{name}" for name in field_names(SeriesNight))


def keep_night(directory: Path, night: NightRow, series: Sequence[SeriesNight]) -> None:
    """Store a night with its series, replacing an earlier row of it.

    Args:
        directory: The state folder; created if there is none.
        night: The night.
        series: Its results.

    Raises:
        ConfigInvalid: The database cannot be used, or is of a newer release.
    """
    with _writing(directory) as database:
        database.execute("DELETE FROM series WHERE night_id = ?", (night.night_id,))
        database.execute(f"INSERT OR REPLACE INTO nights ({_NIGHT}) VALUES ({_marks(NightRow)})", astuple(night))  # noqa: S608
        names = _SERIES.replace("series.", "")
        database.executemany(f"INSERT INTO series ({names}) VALUES ({_marks(SeriesNight)})", map(astuple, series))  # noqa: S608


def nights(directory: Path, *, last: int = MOST_NIGHTS) -> tuple[NightRow, ...]:
    """Return the latest nights, at most `last`, the oldest first.

    Raises:
        ConfigInvalid: The database cannot be read.
    """
    query = f"SELECT {_NIGHT} FROM nights ORDER BY started_at DESC, night_id DESC LIMIT ?"  # noqa: S608 -- our own words
    with _reading(directory) as database:
        found = database.execute(query, (last,)).fetchall() if database is not None else []
    return tuple(_night(row) for row in reversed(found))


def series_nights(
    directory: Path, *, last: int = MOST_NIGHTS, before: str | None = None
) -> tuple[PastSeriesNight, ...]:
    """Return the results of the latest nights in every series, the oldest night first.

    Args:
        directory: The state folder.
        last: Number of nights, >= 0; nights without copies count.
        before: Only nights that started before this one.

    Raises:
        ConfigInvalid: The database cannot be read.
    """
    query = (
        f"SELECT {_SERIES}, nights.started_at, nights.is_comparable, nights.kernel, nights.tool_version, "  # noqa: S608
        "nights.controller_version FROM series JOIN nights USING (night_id) WHERE night_id IN "
        "(SELECT night_id FROM nights WHERE ?1 IS NULL OR (night_id != ?1 AND started_at <= coalesce("
        "(SELECT started_at FROM nights WHERE night_id = ?1), '9'))"
        " ORDER BY started_at DESC, night_id DESC LIMIT ?2) ORDER BY nights.started_at, night_id, series.rowid"
    )
    with _reading(directory) as database:
        found = database.execute(query, (before, last)).fetchall() if database is not None else []
    return tuple(map(_past, found))


def _night(row: tuple[object, ...]) -> NightRow:
    values = dict(zip((name for name in field_names(NightRow)), row, strict=True))
    return NightRow(**values | {"is_comparable": bool(values["is_comparable"])})  # type: ignore[arg-type]


def _past(row: tuple[object, ...]) -> PastSeriesNight:
    names = list(field_names(SeriesNight))
    own = dict(zip(names, row[: len(names)], strict=True))
    own["is_within_thresholds"] = bool(own["is_within_thresholds"])
    started_at, is_comparable, kernel, tool_version, controller_version = row[len(names) :]
    return PastSeriesNight(
        row=SeriesNight(**own),  # type: ignore[arg-type]
        started_at=str(started_at),
        is_comparable=bool(is_comparable),
        kernel=str(kernel),
        tool_version=str(tool_version),
        controller_version=str(controller_version),
    )


def _marks(kind: type[NightRow] | type[SeriesNight]) -> str:
    return ", ".join("?" * len(field_names(kind)))


@contextmanager
def _writing(directory: Path) -> Iterator[sqlite3.Connection]:
    """Yield the migrated database in one transaction."""
    try:
        make_private_directory(directory)
        make_private(directory / FILE)
        # 30 seconds: another night of this host may just be writing.
        with closing(sqlite3.connect(directory / FILE, timeout=30, isolation_level=None)) as database:
            use_log(database)
            with database:
                database.execute("BEGIN IMMEDIATE")
                _migrate(database)
                yield database
    except (OSError, sqlite3.Error) as error:
        raise _unusable(directory, error) from None


@contextmanager
def _reading(directory: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a read-only connection; None if there is no database."""
    try:
        with open_to_read(directory / FILE) as database:
            has_tables = database is not None and schema_of(database, newest=SCHEMA_VERSION)
            yield database if has_tables else None
    except (OSError, sqlite3.Error) as error:
        raise _unusable(directory, error) from None


def _migrate(database: sqlite3.Connection) -> None:
    """Migrate the tables to the current schema, in the caller's transaction."""
    version = schema_of(database, newest=SCHEMA_VERSION)
    for step in _STEPS[version:]:
        execute_all(database, step)
    if version < SCHEMA_VERSION:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _unusable(directory: Path, error: Exception) -> ConfigInvalid:
    return ConfigInvalid(
        f"the nights in {directory / FILE} cannot be used: {error}",
        hint="Check --state-dir and the file's permissions; moving a damaged file away loses the history alone",
    )

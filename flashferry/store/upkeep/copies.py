"""The databases of a state folder copied while they are in use, looked through for damage, and rid of what is old.

A copy is of one moment and whole (sqlite.org/backup.html): a run that writes meanwhile is not held up, and no log has
to be copied beside it. A copy of the file by other means is neither.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.store import nights, schema
from flashferry.store.database_file import OtherSchema, make_private, open_to_read
from flashferry.store.journal_file import open_database
from flashferry.store.reader import reading
from flashferry.store.service import schema as service
from flashferry.store.sites import schema as sites
from flashferry.store.tables import runs_ended_before, unsound_rows

DATABASES = {
    schema.FILE: schema.SCHEMA_VERSION,
    nights.FILE: nights.SCHEMA_VERSION,
    service.FILE: service.SCHEMA_VERSION,
    sites.FILE: sites.SCHEMA_VERSION,
}
"""Their names, and the newest schema of each that is known here."""

_PAGES = 1024
_MOST_FAULTS = 20


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment; the copy is private and has no log.

    Args:
        source: The database's file; it is only read.
        target: The copy, which is not there yet.

    Raises:
        OSError: The copy cannot be made.
        ConfigInvalid: The database cannot be read, or the copy not be written.
    """
    make_private(target)
    try:
        with open_to_read(source) as found, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            if found is None:
                raise FileNotFoundError(f"there is no {source}")
            found.backup(copy, pages=_PAGES, sleep=0.01)
            # One file: a copy is moved about.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise ConfigInvalid(
            f"copy of {source} to {target}: {error}", hint="Check the room there; 'flashferry state check' looks at it"
        ) from None


def faults_of(path: Path) -> tuple[str, ...]:
    """Return what is wrong with a database, a sentence each; none of one that is whole.

    Pages, indexes and what rows refer to are looked at (sqlite.org/pragma.html, `integrity_check`), and each row of a
    journal is held against its seal.

    Args:
        path: The database's file; it is only read.
    """
    try:
        with open_to_read(path) as database:
            if database is None:
                return (f"{path.name} is not there",)
            found = _structure(database, DATABASES[path.name])
        return tuple(f"{path.name}: {fault}" for fault in (*found, *(() if found else _unsound(path))))
    except (OSError, sqlite3.Error) as error:
        return (f"{path.name}: {error}",)


def _structure(database: sqlite3.Connection, newest: int) -> list[str]:
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        return [str(OtherSchema(version, newest))]
    lines = [str(row[0]) for row in database.execute(f"PRAGMA integrity_check({_MOST_FAULTS})")]
    found = [] if lines == ["ok"] else lines
    lost = {str(row[0]) for row in database.execute("PRAGMA foreign_key_check")}
    return found + [f"rows of {table} refer to rows that are not there" for table in sorted(lost)]


def _unsound(path: Path) -> list[str]:
    if path.name != schema.FILE:
        return []
    with reading(path.parent) as database:
        assert database is not None
        schema.know_seals(database)
        rows = unsound_rows(database)
    return [f"{count} of the rows of {table} are not what was written" for table, count in rows.items()]


def old_runs(directory: Path, before: str) -> tuple[str, ...]:
    """Return the runs that ended before a time and hold no device, the oldest first.

    Args:
        directory: State directory.
        before: ISO 8601, UTC.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        return () if database is None else tuple(runs_ended_before(database, before))


def remove_runs(directory: Path, runs: Sequence[str]) -> None:
    """Remove runs from the journal, in one transaction; how fast copies went stays, for forecasts are made of it.

    Args:
        directory: State directory.
        runs: Runs that have ended and hold no device; of another nothing is removed.

    Raises:
        ConfigInvalid: The journal cannot be used.
    """
    with closing(open_database(directory)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        # Asked again with the lock in hand: one of them may have been resumed meanwhile.
        still = set(runs_ended_before(database, "9999")) & set(runs)
        for table in ("wishes", "attempts", "devices", "summaries", "runs"):
            database.executemany(f"DELETE FROM {table} WHERE run_id = ?", [(run,) for run in still])  # noqa: S608 -- ours

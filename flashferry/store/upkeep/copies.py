"""Back up, check and prune the databases of a state folder while they are in use.

A backup is a consistent copy (sqlite.org/backup.html) that does not hold up writers and needs no log beside it; a plain
copy of the file is not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.store import nights, schema
from flashferry.store.database import OtherSchema, make_private, open_to_read
from flashferry.store.journal_writer import open_database
from flashferry.store.reader import reading
from flashferry.store.service import database as service
from flashferry.store.sites import database as sites
from flashferry.store.tables import runs_ended_before, unsound_rows

DATABASES = {
    schema.FILE: schema.SCHEMA_VERSION,
    nights.FILE: nights.SCHEMA_VERSION,
    service.FILE: service.SCHEMA_VERSION,
    sites.FILE: sites.SCHEMA_VERSION,
}
"""File names, and the newest known schema of each."""

_PAGES = 1024

_MOST_FAULTS = 20


def copy_database(source: Path, target: Path) -> None:
    """Copy a database in one consistent state; the copy is private and has no log.

    Args:
        source: The database's file; only read.
        target: The copy; must not exist.

    Raises:
        OSError: The copy cannot be created.
        ConfigInvalid: The database cannot be read, or the copy cannot be written.
    """
    make_private(target)
    try:
        with open_to_read(source) as found, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            if found is None:
                raise FileNotFoundError(f"there is no {source}")
            found.backup(copy, pages=_PAGES, sleep=0.01)
            # No log beside the copy, which will be moved.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise ConfigInvalid(
            f"copy of {source} to {target}: {error}", hint="Check the room there; 'flashferry state check' looks at it"
        ) from None


def faults_of(path: Path) -> tuple[str, ...]:
    """Return the faults of a database, one sentence each.

    Checks pages, indexes and foreign keys (sqlite.org/pragma.html, `integrity_check`), and the seals of a journal's
    rows.
    """
    try:
        with open_to_read(path) as database:
            if database is None:
                return (f"{path.name} is not there",)
            found = _structure(database, DATABASES[path.name])
        return tuple(f"{path.name}: {fault}" for fault in (*found, *(() if found else _unsound(path))))
    except (OSError, sqlite3.Error) as error:
        return (f"{path.name}: {reason_of(error)}",)


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
    """Return the runs that ended before a time (ISO 8601, UTC) and hold no device, the oldest first.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        return () if database is None else tuple(runs_ended_before(database, before))


def remove_runs(directory: Path, runs: Sequence[str]) -> None:
    """Remove runs from the journal in one transaction; their transfer figures stay, for forecasts.

    Args:
        directory: State directory.
        runs: Runs to remove; one that is not finished, or holds a device, is left.

    Raises:
        ConfigInvalid: The journal cannot be used.
    """
    with closing(open_database(directory)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        # Checked again within the transaction: one may have been resumed meanwhile.
        still = set(runs_ended_before(database, "9999")) & set(runs)
        for table in ("steer_requests", "attempts", "devices", "summaries", "runs"):
            database.executemany(f"DELETE FROM {table} WHERE run_id = ?", [(run,) for run in still])  # noqa: S608 -- ours

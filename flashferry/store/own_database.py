"""A database beside the journal: opened, brought up to date, read and written in whole transactions.

The service has one, a site's agent and a centre of sites have; their tables are their own.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.store.database_file import OtherSchema, execute_all, make_private, schema_of, use_log

_WAIT_S = 30.0
"""So long one who writes waits for another."""


def moment(at: datetime) -> str:
    """Return a time as the tables keep it: UTC, to the millisecond; such texts sort as the times do."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    """Return the time that stands in a table."""
    return datetime.fromisoformat(text)


class OwnDatabase:
    """Tables of ours in a state folder.

    Each thread has a connection of its own, kept while the thread lives. A block of `writing` is one transaction, on
    disk when it ends, or never was; no other process writes meanwhile. A block of `reading` sees one moment.

    Args:
        directory: The state folder; it is made, private, where it is not there.

    Attributes:
        file: The database's file in it; each database is a class of its own, which says this and the following.
        steps: Scripts that lead from one schema to the next; a database takes those that it lacks.
        called: What complaints call it, such as `the service's database`.
        kept: What is not lost with it, for the hint where it is damaged.

    Raises:
        ConfigInvalid: The database is of a newer release, damaged, a link, or cannot be used.
    """

    file: ClassVar[str]
    steps: ClassVar[Sequence[str]]
    called: ClassVar[str]
    kept: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        self._path = directory / self.file
        self.directory = directory
        self._local = threading.local()
        try:
            make_private_directory(directory)
            make_private(self._path)
            with self.writing() as database:
                _migrate(database, self.steps)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(f"{self.called} {self._path}", self.kept, error) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in one transaction; what is raised in the block undoes it.

        Raises:
            sqlite3.IntegrityError: A row broke a rule of the tables.
            sqlite3.Error: It could not be written: the disk is full, say.
        """
        database = self._connection()
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the database as it is at one moment; what is written meanwhile belongs to the next look."""
        database = self._connection()
        database.execute("BEGIN")
        try:
            yield database
        finally:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "database", None)
        if known is None:
            known = sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None)
            use_log(known)
            known.execute("PRAGMA foreign_keys = ON")
            # Else INSERT OR REPLACE deletes a row without the trigger that refuses it (sqlite.org/lang_conflict.html).
            known.execute("PRAGMA recursive_triggers = ON")
            known.row_factory = sqlite3.Row
            self._local.database = known
        return known


def _migrate(database: sqlite3.Connection, steps: Sequence[str]) -> None:
    version = schema_of(database, newest=len(steps))
    for step in steps[version:]:
        execute_all(database, step)
    if version < len(steps):
        database.execute(f"PRAGMA user_version = {len(steps)}")


def _unusable(called: str, kept: str, error: Exception) -> ConfigInvalid:
    if isinstance(error, OtherSchema):
        return ConfigInvalid(
            f"{called} was {error}", hint="Start the flashferry that wrote it, or a later one; nothing was changed"
        )
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return ConfigInvalid(
            f"{called} is damaged ({error})",
            hint=f"Put a backup of it back ('flashferry state backup' makes them); {kept}",
        )
    return ConfigInvalid(
        f"{called} cannot be used: {error}",
        hint="Check the rights of the folder and the room on its disk, or give another --state-dir",
    )

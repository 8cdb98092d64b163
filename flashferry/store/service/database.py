"""The service's database: opened, brought up to date, read and written in whole transactions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.store.database_file import execute_all, make_private, schema_of, use_log
from flashferry.store.service.schema import FILE, SCHEMA_VERSION, STEPS

_WAIT_S = 30.0
"""So long one who writes waits for another."""


def moment(at: datetime) -> str:
    """Return a time as the tables keep it: UTC, to the millisecond; such texts sort as the times do."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    """Return the time that stands in a table."""
    return datetime.fromisoformat(text)


class ServiceDatabase:
    """The service's tables in a state folder.

    Each thread has a connection of its own, kept while the thread lives. A block of `writing` is one transaction, on
    disk when it ends, or never was; nobody else writes meanwhile. A block of `reading` sees one moment.

    Args:
        directory: The state folder; it is made, private, where it is not there.

    Raises:
        ConfigInvalid: The database is of a newer release, damaged, a link, or cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._local = threading.local()
        try:
            make_private_directory(directory)
            make_private(directory / FILE)
            with self.writing() as database:
                _migrate(database)
        except (OSError, sqlite3.Error) as error:
            raise _unusable(directory, error) from None

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
            known = sqlite3.connect(self.directory / FILE, timeout=_WAIT_S, isolation_level=None)
            use_log(known)
            known.execute("PRAGMA foreign_keys = ON")
            known.row_factory = sqlite3.Row
            self._local.database = known
        return known


def _migrate(database: sqlite3.Connection) -> None:
    version = schema_of(database, newest=SCHEMA_VERSION)
    for step in STEPS[version:]:
        execute_all(database, step)
    if version < SCHEMA_VERSION:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _unusable(directory: Path, error: Exception) -> ConfigInvalid:
    path = directory / FILE
    if "newer flashferry" in str(error):
        return ConfigInvalid(
            f"the service's database {path} was {error}",
            hint="Start the flashferry that wrote it, or a later one; nothing was changed",
        )
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return ConfigInvalid(
            f"the service's database {path} is damaged ({error})",
            hint="Put a backup of it back ('flashferry state backup' makes them); runs and their journal are untouched",
        )
    return ConfigInvalid(
        f"the service's database {path} cannot be used: {error}",
        hint="Check the rights of the folder and the room on its disk, or give another --state-dir",
    )

"""SQLite files in a state folder: opened, brought up to date, read and written in whole transactions."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import check_regular, make_private_directory, open_private

_PATIENCE_S = 10.0

"""In WAL mode a reader waits only for who takes the log away or mends it (sqlite.org/wal.html, section 2.4)."""

_CHANGE_OVER_S = 30.0

_PAUSE_S = 0.01


class OtherSchema(sqlite3.OperationalError):
    """A database's schema is none that leads to the one that is known here."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"written by another flashferry: expected schema {known}, found schema {found}")


def make_private(path: Path) -> None:
    """Have a database readable by its owner alone before anything is in it; one that is not there is made, empty.

    SQLite gives its write-ahead log the rights that the database has when the log is made: later would be too late.

    Args:
        path: The database's file; its log and index lie beside it.

    Raises:
        ConfigInvalid: A link, or a file of another user, stands in the place of one of them.
        OSError: It cannot be made private.
    """
    with suppress(FileExistsError), open_private(path, "x"):
        pass
    for one in path.parent.glob(f"{path.name}*"):
        check_regular(one)
        # The log of another process that ends just now may be gone.
        with suppress(FileNotFoundError):
            one.chmod(0o600)


@contextmanager
def open_to_read(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a database to be read only, or None where there is none; its file stays as it is.

    Args:
        path: The database's file; asking makes none (sqlite.org/uri.html, `mode=ro`).

    Raises:
        OSError: It cannot be looked at.
        sqlite3.Error: It cannot be opened.
    """
    if not path.is_file():
        yield None
        return
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE_S, isolation_level=None)) as database:
        yield database


def schema_of(database: sqlite3.Connection, *, newest: int) -> int:
    """Return the number of a database's schema; 0 of an empty one.

    Args:
        database: A connection.
        newest: The number of the newest schema that is known here.

    Raises:
        OtherSchema: It is of a newer release.
    """
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        raise OtherSchema(version, newest)
    return version


def use_log(database: sqlite3.Connection) -> None:
    """Have a database write ahead to a log, and to the disk before a transaction is over.

    To change over takes the file alone, and who has it meanwhile is not waited for by SQLite itself (its busy timeout
    does not hold there): two processes may make one database at the same moment.

    Raises:
        sqlite3.OperationalError: It is still locked after half a minute, or cannot be written.
    """
    until = time.monotonic() + _CHANGE_OVER_S
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)
    database.execute("PRAGMA synchronous = FULL")


def is_empty(database: sqlite3.Connection) -> bool:
    """Return whether a database has no table yet, nor ever had one (sqlite.org/pragma.html, `schema_version`).

    Its file is there from the moment on in which it is made private, which is before its tables are made.
    """
    return int(database.execute("PRAGMA schema_version").fetchone()[0]) == 0


def execute_all(database: sqlite3.Connection, script: str) -> None:
    """Execute the statements of a script in the transaction that is open; a trigger may have several within."""
    # Not `executescript`, which commits what is open before it begins.
    statement = ""
    for piece in script.split(";"):
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            database.execute(statement)
            statement = ""


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

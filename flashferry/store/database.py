"""Open, migrate, read and write SQLite files in a state folder."""

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
"""In WAL mode a reader only waits while the log is deleted or recovered (sqlite.org/wal.html, section 2.4)."""

_CHANGE_OVER_S = 30.0

_PAUSE_S = 0.01


class OtherSchema(sqlite3.OperationalError):
    """The schema of a database cannot be migrated to the current one."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"written by another flashferry: expected schema {known}, found schema {found}")


def make_private(path: Path) -> None:
    """Make a database readable by its owner only, before it holds data; create an empty file if there is none.

    SQLite gives the write-ahead log the mode that the database has when the log is created.

    Args:
        path: The database's file; its log and index are beside it.

    Raises:
        ConfigInvalid: One of them is a link, or a file of another user.
        OSError: The mode cannot be changed.
    """
    with suppress(FileExistsError), open_private(path, "x"):
        pass
    for one in path.parent.glob(f"{path.name}*"):
        check_regular(one)
        # Another process that ends may just have removed the log.
        with suppress(FileNotFoundError):
            one.chmod(0o600)


@contextmanager
def open_to_read(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a read-only connection (sqlite.org/uri.html, `mode=ro`); None if there is no database.

    Raises:
        OSError: The file's status cannot be read.
        sqlite3.Error: It cannot be opened.
    """
    if not path.is_file():
        yield None
        return
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE_S, isolation_level=None)) as database:
        yield database


def schema_of(database: sqlite3.Connection, *, newest: int) -> int:
    """Return the number of a database's schema; 0 for an empty database.

    Raises:
        OtherSchema: It is newer than `newest`.
    """
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        raise OtherSchema(version, newest)
    return version


def use_log(database: sqlite3.Connection) -> None:
    """Switch a database to write-ahead logging and full synchronisation.

    The switch needs the file exclusively, and SQLite's busy timeout does not apply to it, so this retries: two
    processes may create one database at the same moment.

    Raises:
        sqlite3.OperationalError: It is still locked after 30 s, or cannot be written.
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
    """Return whether a database never had a table (sqlite.org/pragma.html, `schema_version`).

    The file exists from `make_private` on, before its tables do.
    """
    return int(database.execute("PRAGMA schema_version").fetchone()[0]) == 0


def execute_all(database: sqlite3.Connection, script: str) -> None:
    """Execute a script in the open transaction, statement by statement; triggers may contain several."""
    # Not `executescript`, which commits the open transaction first.
    statement = ""
    for piece in script.split(";"):
        statement += f"{piece};"
        if sqlite3.complete_statement(statement):
            database.execute(statement)
            statement = ""


_WAIT_S = 30.0
"""How long a writer waits for another."""


def moment(at: datetime) -> str:
    """Format a time for the tables: ISO 8601, UTC, milliseconds. Such texts sort by time."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    """Parse a time from the tables."""
    return datetime.fromisoformat(text)


class OwnDatabase:
    """A database in a state folder, with one connection per thread.

    A block of `writing` is one transaction, on disk when it ends; other processes cannot write meanwhile. A block of
    `reading` sees one consistent state.

    Args:
        directory: The state folder; created, private, if there is none.

    Attributes:
        file: Name of the database's file.
        steps: Migration scripts, in order; a database takes those it lacks.
        called: Name for error messages, such as `the service's database`.
        kept: What is not lost with it, for the hint if it is damaged.

    Raises:
        ConfigInvalid: It is of a newer release, damaged, a link, or cannot be used.
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
        """Yield the database in one transaction, which an exception rolls back.

        Raises:
            sqlite3.IntegrityError: A row violates a constraint.
            sqlite3.Error: It cannot be written, for example because the disk is full.
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
        """Yield the database in one consistent state."""
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
            # Otherwise INSERT OR REPLACE bypasses the trigger that forbids deletion (sqlite.org/lang_conflict.html).
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
        hint="Check the folder's permissions and free space on its disk, or give another --state-dir",
    )

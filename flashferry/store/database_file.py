"""A database file in the state folder: private to its owner, opened to be read only, and which schema it has.

The journal and the nights each have one; their tables and what is said where one cannot be used are their own.

Facts
-----
* To close a file drops all locks that the process has on it, also those of a connection to it (fcntl(2)): the next
  process that closes the database believes to be its last, and takes the log away (sqlite.org/howtocorrupt.html, 2.2).
  So a database that is there is opened by SQLite alone.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from flashferry.core.state_folder import check_regular, open_private

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

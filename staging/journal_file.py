"""The journal's database file: how it is opened, and what is said where it cannot be.

A damaged file is told, never repaired or replaced: what dead runs left tuned is known only there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from inventory.errors import ConfigInvalid
from staging.journal_schema import FILE, migrate
from staging.touched import JournalUnusable


def open_database(directory: Path) -> sqlite3.Connection:
    """Return the journal's database in a state directory; one that is not there is made.

    Raises:
        ConfigInvalid: It is damaged, of a newer release, or cannot be used.
        OSError: It cannot be made private.
    """
    _make_private(directory)
    try:
        # No implicit transactions: the journal's writer says itself when one begins and ends.
        database = sqlite3.connect(directory / FILE, check_same_thread=False, timeout=30, isolation_level=None)
        try:
            _prepare(database)
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise _unusable(directory, error) from None
    return database


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    with database:
        database.execute("BEGIN IMMEDIATE")
        migrate(database)


def _make_private(directory: Path) -> None:
    """Have the database readable by its owner alone before anything is in it.

    SQLite gives its write-ahead log the rights that the database has when the log is made: later would be too late.
    """
    (directory / FILE).touch(mode=0o600)
    for path in directory.glob(f"{FILE}*"):
        # The log of another process that ends just now may be gone.
        with suppress(FileNotFoundError):
            path.chmod(0o600)


def _unusable(directory: Path, error: sqlite3.Error) -> ConfigInvalid:
    """Return why a journal cannot be opened. A damaged one is never repaired or replaced behind anybody's back."""
    path = directory / FILE
    if isinstance(error, sqlite3.OperationalError):
        return ConfigInvalid(f"journal {path}: {error}", hint="Check its rights, or give another --state-dir")
    return ConfigInvalid(
        f"journal {path} is damaged ({error}); no device was touched. What dead runs left tuned is known only there",
        hint=f"Put a copy of it back, or look with 'show running-config | include ^ip tcp' for lines that a dead run "
        f"left on your devices; then move {path.name}* out of {directory} and start anew",
    )


@contextmanager
def told(directory: Path) -> Iterator[None]:
    """Turn SQLite's errors into a sentence; that of the lease has a meaning of its own."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise JournalUnusable(
            f"the journal in {directory} cannot be used: {error}", hint="Check the disk's room and the file's rights"
        ) from None

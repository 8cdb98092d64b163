"""The journal's database file: how it is opened, and what is said where it cannot be.

A damaged file is reported, never repaired or replaced: what dead runs left tuned is known only there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.model.lease import JournalUnusable
from flashferry.store.database_file import OtherSchema, make_private, use_log
from flashferry.store.schema import FILE, another_hint, migrate, seal_writes
from flashferry.store.summaries import TABLE, keep_summaries
from tasks.run_marker import LOOK


def open_database(directory: Path) -> sqlite3.Connection:
    """Return the journal's database in a state directory; one that is not there is made.

    Raises:
        ConfigInvalid: It is damaged, of another schema, a link, or cannot be used.
        OSError: It cannot be made private.
    """
    make_private(directory / FILE)
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
    use_log(database)
    with database:
        database.execute("BEGIN IMMEDIATE")
        migrate(database)
        database.execute(TABLE)
    seal_writes(database)
    keep_summaries(database)


def _unusable(directory: Path, error: sqlite3.Error) -> ConfigInvalid:
    """Return why a journal cannot be opened. A damaged one is never repaired or replaced."""
    path = directory / FILE
    if isinstance(error, OtherSchema):
        return ConfigInvalid(f"journal {path} was {error}", hint=another_hint(directory))
    if isinstance(error, sqlite3.OperationalError):
        return ConfigInvalid(f"journal {path}: {error}", hint="Check its rights, or give another --state-dir")
    return ConfigInvalid(
        f"journal {path} is damaged ({error}); no device was touched. What dead runs left tuned is known only there",
        hint=f"Put a copy of it back, or look with '{LOOK}' for lines that a dead run left on your "
        f"devices; then move {path.name}* out of {directory} and start anew",
    )


class FileWatch:
    """Knows which file a journal is, and whether it still is that one.

    SQLite goes on writing into a file that was removed or replaced, and what it writes is lost with this process.

    Args:
        directory: The state directory, with the journal's database in it.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._known = self._seen()

    def check(self) -> None:
        """Check that the journal is still where it was.

        Raises:
            JournalUnusable: It was removed, or another file put in its place.
        """
        if self._seen() != self._known:
            raise JournalUnusable(
                f"the journal {self._path} was removed or replaced while it was in use: nothing new is started",
                hint="What is in hand is restored all the same; what is not stands in the files of "
                f"{self._path.parent / 'leases'}, which 'flashferry recover' reads",
            )

    def _seen(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


@contextmanager
def translate_errors(directory: Path) -> Iterator[None]:
    """Turn SQLite's errors into a sentence for the time of a block; that of the lease has a meaning of its own.

    Raises:
        JournalUnusable: SQLite could not do what it was asked.
        sqlite3.IntegrityError: A row broke a rule of the tables, such as that of the lease.
    """
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise JournalUnusable(
            f"the journal in {directory} cannot be used: {error}", hint="Check the disk's room and the file's rights"
        ) from None

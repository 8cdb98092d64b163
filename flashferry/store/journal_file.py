"""The journal's database file: how it is opened, and what is said where it cannot be.

A damaged file is told, never repaired or replaced: what dead runs left tuned is known only there.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import check_regular, open_private
from flashferry.model.lease import JournalUnusable
from flashferry.store.schema import FILE, migrate

# A checksum over each row of the journal: what was not written by us, or changed on the disk, is told as that.
#
# SQLite keeps no checksums of a database's pages (sqlite.org/cksumvfs.html): a flipped bit reads as a value. Each write
# of ours seals its rows, in the same transaction; a row whose seal does not fit is not believed. This is no signature:
# who can write the file can compute it too. What a journal may have us type is checked on its own (`tasks.tcp_config`).

TABLES = ("runs", "devices", "attempts", "transfers")
_SEAL = "seal"
_FUNCTION = "flashferry_seal"
_DIGEST_BYTES = 8


def seal_of(*values: object) -> str:
    """Return the checksum over a row's values, each with its length and kind."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        digest.update(f"{type(value).__name__}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def know_seals(database: sqlite3.Connection) -> None:
    """Have a connection know the checksum, so that `SOUND` may stand in its queries."""
    database.create_function(_FUNCTION, -1, seal_of, deterministic=True)


def seal_writes(database: sqlite3.Connection) -> None:
    """Have every write of a connection seal its rows.

    The triggers are the connection's own: another program that writes into the file leaves the old seals there.
    """
    know_seals(database)
    for table in TABLES:
        values = ", ".join(f"NEW.{column}" for column in _columns(database, table))
        for event in ("INSERT", "UPDATE"):
            database.execute(
                f"CREATE TEMP TRIGGER seal_{table}_{event.lower()} AFTER {event} ON main.{table} BEGIN "  # noqa: S608
                f"UPDATE {table} SET {_SEAL} = {_FUNCTION}({values}) WHERE rowid = NEW.rowid; END"
            )


def sound(database: sqlite3.Connection, table: str) -> str:
    """Return an SQL expression that is true for a row whose seal fits; also for one that was never sealed.

    Rows of earlier releases have none. One that lost its seal is as good as one of those; what it says is read all the
    same, with the care that is taken of any row.
    """
    return f"({_SEAL} IS NULL OR {_SEAL} = {_FUNCTION}({', '.join(_columns(database, table))}))"


def unsound_rows(database: sqlite3.Connection) -> dict[str, int]:
    """Return by table how many rows have a seal that does not fit; tables without any are left out."""
    found = {}
    for table in TABLES:
        query = f"SELECT count(*) FROM {table} WHERE NOT {sound(database, table)}"  # noqa: S608 -- our own words
        if count := database.execute(query).fetchone()[0]:
            found[table] = int(count)
    return found


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA main.table_info({table})") if name != _SEAL]


def open_database(directory: Path) -> sqlite3.Connection:
    """Return the journal's database in a state directory; one that is not there is made.

    Raises:
        ConfigInvalid: It is damaged, of a newer release, a link, or cannot be used.
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
    seal_writes(database)


def _make_private(directory: Path) -> None:
    """Have the database readable by its owner alone before anything is in it.

    SQLite gives its write-ahead log the rights that the database has when the log is made: later would be too late.
    """
    with open_private(directory / FILE, "a"):
        pass
    for path in directory.glob(f"{FILE}*"):
        check_regular(path)
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
                f"the journal {self._path} was removed or replaced while it was in use: nothing new is begun",
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

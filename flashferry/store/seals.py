"""A checksum over each row of the journal: what was not written by us, or changed on the disk, is told as that.

SQLite keeps no checksums of a database's pages (sqlite.org/cksumvfs.html): a flipped bit reads as a value. Each write
of ours seals its rows, in the same transaction; a row whose seal does not fit is not believed. This is no signature:
who can write the file can compute it too. What a journal may have us type is checked on its own (`tasks.tcp_config`).
"""

from __future__ import annotations

import hashlib
import sqlite3

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


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA main.table_info({table})") if name != _SEAL]

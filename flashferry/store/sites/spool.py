"""The messages of an agent that the centre has not confirmed, in sending order.

Each run has its own offsets, from 1 without gaps. Confirmed messages are deleted; others are sent again when the broker
is back, and periodically.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

MOST_AT_ONCE = 200


class SpooledWord(Struct, frozen=True, kw_only=True):
    """An unconfirmed message.

    Attributes:
        run: The run that it is about.
        offset: Its number in the run.
        kind: Its type.
        at: Time of its subject.
        data: Its content.
    """

    run: str
    offset: int
    kind: str
    at: str
    data: dict[str, Any]


def add(database: sqlite3.Connection, *, run: str, kind: str, at: str, data: str) -> int:
    """Store a message; return its offset.

    Args:
        database: A connection that writes.
        run: The run that it is about.
        kind: Its type.
        at: Time of its subject.
        data: Its content as JSON.
    """
    database.execute("INSERT OR IGNORE INTO offsets (run) VALUES (?)", (run,))
    row = database.execute("UPDATE offsets SET said = said + 1 WHERE run = ? RETURNING said", (run,)).fetchone()
    offset = int(row["said"])
    database.execute(
        "INSERT INTO words (run, offset, kind, at, data) VALUES (?, ?, ?, ?, ?)", (run, offset, kind, at, data)
    )
    return offset


def acknowledge(database: sqlite3.Connection, run: str, offset: int) -> int:
    """Delete the messages of a run up to an offset, which the centre has stored; return how many.

    An offset beyond the last assigned one is limited to that.
    """
    row = database.execute("SELECT said, acknowledged FROM offsets WHERE run = ?", (run,)).fetchone()
    if row is None:
        return 0
    upto = min(offset, int(row["said"]))
    database.execute("UPDATE offsets SET acknowledged = MAX(acknowledged, ?) WHERE run = ?", (upto, run))
    return database.execute("DELETE FROM words WHERE run = ? AND offset <= ?", (run, upto)).rowcount


def waiting(database: sqlite3.Connection, sent: dict[str, int], most: int = MOST_AT_ONCE) -> list[SpooledWord]:
    """Return messages to send, the oldest of each run first.

    Args:
        database: A connection.
        sent: Offset up to which each run was already sent.
        most: Maximum number.
    """
    found: list[SpooledWord] = []
    for row in database.execute("SELECT DISTINCT run FROM words").fetchall():
        rows = database.execute(
            "SELECT * FROM words WHERE run = ? AND offset > ? ORDER BY offset LIMIT ?",
            (row["run"], sent.get(row["run"], 0), most - len(found)),
        )
        found += [_word(one) for one in rows]
        if len(found) >= most:
            break
    return found


def size(database: sqlite3.Connection) -> int:
    """Return the number of unconfirmed messages."""
    return int(database.execute("SELECT COUNT(*) FROM words").fetchone()[0])


def position_of(database: sqlite3.Connection, job: str) -> int:
    """Return the byte offset up to which a job's event file is in the spool."""
    row = database.execute("SELECT position FROM tails WHERE job = ?", (job,)).fetchone()
    return int(row["position"]) if row is not None else 0


def set_position(database: sqlite3.Connection, job: str, position: int) -> None:
    """Store that offset, in the transaction of the messages."""
    database.execute(
        "INSERT INTO tails (job, position) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET position = excluded.position",
        (job, position),
    )


def is_news(database: sqlite3.Connection, job: str, host: str, digest: str) -> bool:
    """Store the digest of a device's record; return whether it differs from the one sent before."""
    done = database.execute(
        "INSERT INTO sent_records (job, host, digest) VALUES (?, ?, ?) ON CONFLICT (job, host) DO UPDATE "
        "SET digest = excluded.digest WHERE digest <> excluded.digest",
        (job, host, digest),
    )
    return done.rowcount == 1


def forget(database: sqlite3.Connection, orders: Iterable[str], before: str) -> None:
    """Delete old unconfirmed messages, data of deleted orders, and runs that have neither.

    Args:
        database: A connection that writes.
        orders: Identifiers of orders that were deleted.
        before: Messages from before this time are deleted.
    """
    for one in orders:
        # Attempts of an order are jobs of its name with a number appended.
        database.execute("DELETE FROM tails WHERE job = ? OR job GLOB ? || '.*'", (one, one))
        database.execute("DELETE FROM sent_records WHERE job = ?", (one,))
    database.execute("DELETE FROM words WHERE at < ?", (before,))
    database.execute(
        "DELETE FROM offsets WHERE run NOT IN (SELECT run FROM words) AND run NOT IN (SELECT run FROM orders)"
    )


def _word(row: sqlite3.Row) -> SpooledWord:
    return SpooledWord(
        run=row["run"], offset=row["offset"], kind=row["kind"], at=row["at"], data=json.loads(row["data"])
    )

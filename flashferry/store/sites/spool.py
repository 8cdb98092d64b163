"""The spool of an agent: messages that the centre has not confirmed, in the order in which it takes them.

Each run has offsets of its own, from 1 without a gap. What the centre has on its disk, it says so, and it goes from
here; all else is sent again when the broker is back, and by a slow timer.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MOST_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledWord:
    """A word that waits.

    Attributes:
        run: The run that it is about.
        offset: Its number there.
        kind: What it is about.
        at: When that was.
        data: Its content.
    """

    run: str
    offset: int
    kind: str
    at: str
    data: dict[str, Any]


def add(database: sqlite3.Connection, *, run: str, kind: str, at: str, data: str) -> int:
    """Put a word into the spool; return its offset.

    Args:
        database: A connection that writes.
        run: The run that it is about.
        kind: What it is about.
        at: When that was.
        data: Its content, as JSON.
    """
    database.execute("INSERT OR IGNORE INTO offsets (run) VALUES (?)", (run,))
    row = database.execute("UPDATE offsets SET said = said + 1 WHERE run = ? RETURNING said", (run,)).fetchone()
    offset = int(row["said"])
    database.execute(
        "INSERT INTO words (run, offset, kind, at, data) VALUES (?, ?, ?, ?, ?)", (run, offset, kind, at, data)
    )
    return offset


def acknowledge(database: sqlite3.Connection, run: str, offset: int) -> int:
    """Take what the centre has on disk out of the spool; return how many words went.

    An offset beyond what was ever said here is no proof of anything: it is taken as what was said.
    """
    row = database.execute("SELECT said, acknowledged FROM offsets WHERE run = ?", (run,)).fetchone()
    if row is None:
        return 0
    upto = min(offset, int(row["said"]))
    database.execute("UPDATE offsets SET acknowledged = MAX(acknowledged, ?) WHERE run = ?", (upto, run))
    return database.execute("DELETE FROM words WHERE run = ? AND offset <= ?", (run, upto)).rowcount


def waiting(database: sqlite3.Connection, sent: dict[str, int], most: int = MOST_AT_ONCE) -> list[SpooledWord]:
    """Return words that are to be sent, the first of each run first.

    Args:
        database: A connection.
        sent: Up to which offset each run was sent already; what is behind that is left out.
        most: How many at most.
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
    """Return how many messages wait to be confirmed."""
    return int(database.execute("SELECT COUNT(*) FROM words").fetchone()[0])


def position_of(database: sqlite3.Connection, job: str) -> int:
    """Return up to which byte the events of a job are in the spool."""
    row = database.execute("SELECT position FROM tails WHERE job = ?", (job,)).fetchone()
    return int(row["position"]) if row is not None else 0


def set_position(database: sqlite3.Connection, job: str, position: int) -> None:
    """Note that; in the same transaction as the words that were made of them."""
    database.execute(
        "INSERT INTO tails (job, position) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET position = excluded.position",
        (job, position),
    )


def is_news(database: sqlite3.Connection, job: str, host: str, digest: str) -> bool:
    """Note a device's record by its digest; return whether it differs from the one sent before."""
    done = database.execute(
        "INSERT INTO sent_records (job, host, digest) VALUES (?, ?, ?) ON CONFLICT (job, host) DO UPDATE "
        "SET digest = excluded.digest WHERE digest <> excluded.digest",
        (job, host, digest),
    )
    return done.rowcount == 1


def forget(database: sqlite3.Connection, orders: Iterable[str], before: str) -> None:
    """Forget messages from before a time that were not confirmed, offsets of forgotten orders, and runs without either.

    Args:
        database: A connection that writes.
        orders: The orders, which are gone from the ledger.
        before: Words from before go.
    """
    for one in orders:
        # Tries of an order are jobs of its name with a number behind it.
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

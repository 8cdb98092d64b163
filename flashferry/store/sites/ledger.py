"""The orders of an agent, each once, with their results.

An order is recognised by its id, and by its work: two orders for the same part of a run are carried out once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from enum import StrEnum
from typing import Any

from msgspec import Struct


class OrderState(StrEnum):
    """State of an order: stored, started, ended, or refused before anything was done."""

    OPEN = "open"
    STARTED = "started"
    ENDED = "ended"
    REFUSED = "refused"


UNFINISHED = (OrderState.OPEN, OrderState.STARTED)


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """A stored order.

    Attributes:
        number: Orders are started in this order.
        order_id: Its identifier.
        job: What to do.
        run: The centre's name of the part.
        work: Key of the work; equal for orders that request the same.
        body: The order as JSON.
        received_at: When it was received.
        ended_at: When it ended; None while it is open.
        tries: How often it was started, by any process.
        answer: Its reported result.
    """

    number: int
    id: str
    job: str
    run: str
    work: str
    body: dict[str, Any]
    state: OrderState
    received_at: str
    ended_at: str | None
    tries: int
    answer: dict[str, Any]
    run_id: str | None


def enter(
    database: sqlite3.Connection,
    *,
    order_id: str,
    job: str,
    run: str,
    work: str,
    body: str,
    at: str,
) -> bool:
    """Store an order; return whether it is new.

    Args:
        database: A connection that writes.
        order_id: Its identifier.
        job: What to do.
        run: The centre's name of the part.
        work: Key of the work.
        body: The order as JSON.
        at: When it was received.
    """
    done = database.execute(
        "INSERT OR IGNORE INTO orders (id, job, run, work, body, received_at) VALUES (?, ?, ?, ?, ?, ?)",
        (order_id, job, run, work, body, at),
    )
    return done.rowcount == 1


def entry_of(database: sqlite3.Connection, order_id: str) -> LedgerEntry | None:
    """Return an order by its identifier; None if there is none."""
    return _entry(database.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone())


def first_of_work(database: sqlite3.Connection, work: str) -> LedgerEntry | None:
    """Return the first order for a work that was not refused; None for none."""
    found = database.execute(
        "SELECT * FROM orders WHERE work = ? AND state <> 'refused' ORDER BY number LIMIT 1", (work,)
    )
    return _entry(found.fetchone())


def unfinished(database: sqlite3.Connection, jobs: Collection[str]) -> list[LedgerEntry]:
    """Return the open orders of some jobs, in their order."""
    rows = database.execute("SELECT * FROM orders WHERE state IN ('open', 'started') ORDER BY number").fetchall()
    return [entry for row in rows if (entry := _entry(row)) is not None and entry.job in jobs]


def orders_of_run(database: sqlite3.Connection, run: str, job: str) -> list[LedgerEntry]:
    """Return the orders of a job for a run, the newest first."""
    rows = database.execute("SELECT * FROM orders WHERE run = ? AND job = ? ORDER BY number DESC", (run, job))
    return [entry for row in rows if (entry := _entry(row)) is not None]


def last_entry(database: sqlite3.Connection) -> LedgerEntry | None:
    """Return the newest order; None for none."""
    return _entry(database.execute("SELECT * FROM orders ORDER BY number DESC LIMIT 1").fetchone())


def begin(database: sqlite3.Connection, order_id: str) -> None:
    """Record another start of an order."""
    database.execute("UPDATE orders SET state = 'started', tries = tries + 1 WHERE id = ?", (order_id,))


def set_run(database: sqlite3.Connection, order_id: str, run_id: str) -> None:
    """Store the journal's run of an order."""
    database.execute("UPDATE orders SET run_id = ? WHERE id = ?", (run_id, order_id))


def close(database: sqlite3.Connection, order_id: str, state: OrderState, answer: dict[str, Any], at: str) -> bool:
    """Store the end of an order and its result; return whether it was open."""
    done = database.execute(
        "UPDATE orders SET state = ?, answer = ?, ended_at = ? WHERE id = ? AND state IN ('open', 'started')",
        (state.value, json.dumps(answer), at, order_id),
    )
    return done.rowcount == 1


def forget(database: sqlite3.Connection, before: str) -> tuple[str, ...]:
    """Delete orders that ended and expired before a time; return their identifiers.

    The latest expiry of deleted orders is stored: an order that expires no later may be one of them.
    """
    ended = database.execute("SELECT id, body FROM orders WHERE ended_at IS NOT NULL AND ended_at < ?", (before,))
    until = {row["id"]: str(json.loads(row["body"])["valid_until"]) for row in ended.fetchall()}
    gone = tuple(one for one, valid_until in until.items() if valid_until < before)
    if gone:
        latest = max(until[one] for one in gone)
        database.execute(
            "INSERT INTO forgotten (one, valid_until) VALUES (1, ?) ON CONFLICT (one) DO UPDATE "
            "SET valid_until = MAX(valid_until, excluded.valid_until)",
            (latest,),
        )
        database.executemany("DELETE FROM orders WHERE id = ?", [(one,) for one in gone])
    return gone


def forgotten_until(database: sqlite3.Connection) -> str:
    """Return the latest expiry of deleted orders; empty for none."""
    row = database.execute("SELECT valid_until FROM forgotten").fetchone()
    return "" if row is None else str(row["valid_until"])


def _entry(row: sqlite3.Row | None) -> LedgerEntry | None:
    if row is None:
        return None
    values = {key: row[key] for key in row.keys()}  # noqa: SIM118 -- a Row has no other way to its names
    values |= {"body": json.loads(values["body"]), "answer": json.loads(values["answer"])}
    return LedgerEntry(**values | {"state": OrderState(values["state"])})

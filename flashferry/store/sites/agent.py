"""The database of a site's agent: its tables, and its name of itself.

An order is on disk before it is taken off the broker, so that one that comes twice, from whatever end it was sent
again, is known; a word is on disk before it is sent, and until the centre says that it has it.
"""

from __future__ import annotations

import sqlite3
import uuid

from flashferry.store.own_database import OwnDatabase

FILE = "agent.sqlite3"

_TABLES = """
CREATE TABLE agent (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name TEXT NOT NULL,
    site TEXT NOT NULL
);
CREATE TABLE orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    job TEXT NOT NULL,
    run TEXT NOT NULL,
    work TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'begun', 'ended', 'refused')),
    received_at TEXT NOT NULL,
    ended_at TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    answer TEXT NOT NULL DEFAULT '{}',
    run_id TEXT
);
CREATE INDEX orders_by_state ON orders (state, number);
CREATE INDEX orders_by_work ON orders (work, number);
CREATE TABLE words (
    run TEXT NOT NULL,
    offset INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run, offset)
) WITHOUT ROWID;
CREATE TABLE offsets (
    run TEXT PRIMARY KEY,
    said INTEGER NOT NULL DEFAULT 0,
    heard INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE tails (
    job TEXT PRIMARY KEY,
    position INTEGER NOT NULL
);
CREATE TABLE told_records (
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (job, host)
);
"""

_FORGOTTEN = """
CREATE TABLE forgotten (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    valid_until TEXT NOT NULL
);
"""

STEPS = (_TABLES, _FORGOTTEN)
"""Each a script; a database takes those that it lacks."""


class AgentDatabase(OwnDatabase):
    """An agent's tables in its state folder."""

    file, steps = FILE, STEPS
    called = "the agent's database"
    kept = "the journal is untouched, and orders that are sent again find devices as they are"


def agent_name(database: sqlite3.Connection, site: str) -> tuple[str, str]:
    """Return the agent's name of itself, made with the first question, and the site for which that was.

    Args:
        database: A connection that writes.
        site: The site that it is for now.
    """
    database.execute(
        "INSERT OR IGNORE INTO agent (one, name, site) VALUES (1, ?, ?)", (f"agent-{uuid.uuid4().hex[:16]}", site)
    )
    row = database.execute("SELECT name, site FROM agent").fetchone()
    return str(row["name"]), str(row["site"])

"""The journal's tables, as the steps that lead from one schema to the next.

A new database takes all steps; one of an earlier release takes those it lacks. All of it, with the number of its
schema, is one transaction: a process that dies in between leaves the schema that was there.

Each row has a seal, a checksum: what was not written by us, or changed on the disk, is reported. SQLite keeps none
of a database's pages (sqlite.org/cksumvfs.html): a flipped bit reads as a value. Each write of ours seals its rows, in
the same transaction; a row whose seal does not fit is not believed. This is no signature: who can write the file can
compute it too. What a journal may have us type is checked on its own (`tasks.tcp_config`).
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

from flashferry.store.database import OtherSchema, execute_all, schema_of

FILE = "journal.sqlite3"
TABLES = ("runs", "devices", "attempts", "transfers", "steer_requests")
_SEAL = "seal"
_FUNCTION = "flashferry_seal"
_DIGEST_BYTES = 8

_FIRST = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    verb TEXT NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    request TEXT,
    resumed INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    stopping INTEGER NOT NULL DEFAULT 0,
    approved_wave INTEGER NOT NULL DEFAULT -1,
    waiting_wave INTEGER,
    job TEXT,
    events TEXT,
    plan_digest TEXT,
    actor TEXT,
    seal TEXT
);
CREATE TABLE devices (
    run_id TEXT NOT NULL REFERENCES runs,
    host TEXT NOT NULL,
    address TEXT NOT NULL,
    port INTEGER NOT NULL,
    platform TEXT NOT NULL,
    state TEXT NOT NULL,
    identity TEXT,
    touched INTEGER NOT NULL DEFAULT 0,
    snapshot TEXT,
    changes TEXT,
    target TEXT,
    record TEXT,
    updated_at TEXT NOT NULL,
    site TEXT,
    wave INTEGER NOT NULL DEFAULT 0,
    image TEXT,
    attempt INTEGER NOT NULL DEFAULT 1,
    members TEXT,
    activation TEXT,
    seal TEXT,
    PRIMARY KEY (run_id, host)
);
CREATE UNIQUE INDEX lease ON devices (identity) WHERE touched = 1;
CREATE TABLE attempts (
    run_id TEXT NOT NULL,
    host TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    record TEXT,
    ended_at TEXT NOT NULL,
    seal TEXT,
    PRIMARY KEY (run_id, host, attempt)
);
CREATE TABLE transfers (
    run_id TEXT NOT NULL,
    host TEXT NOT NULL,
    at TEXT NOT NULL,
    identity TEXT NOT NULL,
    kind TEXT NOT NULL,
    tuned INTEGER NOT NULL,
    target TEXT NOT NULL,
    image TEXT NOT NULL,
    ticket_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    bytes_acked INTEGER NOT NULL,
    duration_s REAL NOT NULL,
    rate_bytes_per_s REAL NOT NULL,
    steady_bytes_per_s REAL,
    rtt_s REAL,
    window_bytes INTEGER,
    congestion_control TEXT,
    verdict TEXT NOT NULL,
    device_s REAL,
    model TEXT,
    record BLOB NOT NULL,
    transport TEXT NOT NULL,
    seal TEXT,
    PRIMARY KEY (run_id, host, ticket_id, at)
);
CREATE INDEX transfers_over_time ON transfers (host, at);
CREATE TABLE steer_requests (
    run_id TEXT NOT NULL REFERENCES runs,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    what TEXT NOT NULL,
    wave INTEGER,
    reason TEXT NOT NULL,
    seal TEXT
);
CREATE INDEX steer_requests_of_run ON steer_requests (run_id);
"""
"""`seal` is a checksum over a row, see `seal_of`; `activation` is NULL in a run that activates nothing."""

_STEPS = (_FIRST,)
SCHEMA_VERSION = len(_STEPS)


def migrate(database: sqlite3.Connection) -> None:
    """Bring a database to the present schema; the caller holds the transaction.

    A step that adds a column to a table must seal its rows anew.

    Raises:
        OtherSchema: It is of a schema that does not lead to the present one.
    """
    version = checked_schema(database)
    for step in _STEPS[version:]:
        execute_all(database, step)
    if version < SCHEMA_VERSION:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def another_hint(directory: Path) -> str:
    """Return what to do with a state directory whose journal is of another schema."""
    return (
        "Run 'flashferry recover' of the flashferry that wrote it, which restores what its runs left; then move "
        f"{FILE}* out of {directory}, or give another --state-dir"
    )


def checked_schema(database: sqlite3.Connection) -> int:
    """Return the number of a journal's schema; 0 of an empty one.

    Raises:
        OtherSchema: It is of a newer release, or was written before the first one.
    """
    version = schema_of(database, newest=SCHEMA_VERSION)
    # Before the first release, schema 1 was another one, without these tables.
    if version and not all(_columns(database, table) for table in TABLES):
        raise OtherSchema(version, SCHEMA_VERSION)
    return version


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
    """Return an SQL expression that is true for a row whose seal fits."""
    return f"({_SEAL} IS {_FUNCTION}({', '.join(_columns(database, table))}))"


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA main.table_info({table})") if name != _SEAL]

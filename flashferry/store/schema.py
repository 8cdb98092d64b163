"""The journal's schema, as migration steps, and the checksums of its rows.

A database takes the steps it lacks in one transaction, so a crash leaves the former schema.

Each row has a seal: a checksum, written in the same transaction. SQLite has none of its own (sqlite.org/cksumvfs.html),
so a flipped bit would be read as a value; a row whose seal does not match is not trusted. It is no signature: who can
write the file can compute it. Lines that a journal may have us send are validated separately (`tasks.tcp_config`).
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
"""`seal` is the row's checksum, see `seal_of`; `activation` is NULL in a run without activation."""

_STEPS = (_FIRST,)
SCHEMA_VERSION = len(_STEPS)


def migrate(database: sqlite3.Connection) -> None:
    """Migrate a database to the current schema, in the caller's transaction.

    A step that adds a column to a table must seal its rows again.

    Raises:
        OtherSchema: Its schema cannot be migrated.
    """
    version = checked_schema(database)
    for step in _STEPS[version:]:
        execute_all(database, step)
    if version < SCHEMA_VERSION:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def another_hint(directory: Path) -> str:
    """Return the hint for a state directory whose journal has another schema."""
    return (
        "Run 'flashferry recover' of the flashferry that wrote it, which restores what its runs left; then move "
        f"{FILE}* out of {directory}, or give another --state-dir"
    )


def checked_schema(database: sqlite3.Connection) -> int:
    """Return the number of a journal's schema; 0 for an empty database.

    Raises:
        OtherSchema: It is of a newer release, or of a checkout before the first release.
    """
    version = schema_of(database, newest=SCHEMA_VERSION)
    # Before the first release, schema 1 lacked some of these tables.
    if version and not all(_columns(database, table) for table in TABLES):
        raise OtherSchema(version, SCHEMA_VERSION)
    return version


def seal_of(*values: object) -> str:
    """Return the checksum of a row's values, each with its length and type."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        digest.update(f"{type(value).__name__}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def know_seals(database: sqlite3.Connection) -> None:
    """Register the checksum function on a connection, for queries that contain `sound`."""
    database.create_function(_FUNCTION, -1, seal_of, deterministic=True)


def seal_writes(database: sqlite3.Connection) -> None:
    """Make every write of this connection update the seals of its rows.

    The triggers are temporary: another program that writes into the file leaves the old seals.
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
    """Return an SQL expression that is true for rows whose seal matches."""
    return f"({_SEAL} IS {_FUNCTION}({', '.join(_columns(database, table))}))"


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in database.execute(f"PRAGMA main.table_info({table})") if name != _SEAL]

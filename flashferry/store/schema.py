"""The journal's tables, as the steps that lead from one schema to the next.

A new database takes all steps; one of an earlier release takes those it lacks. All of it, with the number that says
how far it came, is one transaction: whoever dies in between leaves the schema that was there.

Each row has a seal, a checksum: what was not written by us, or changed on the disk, is told as that. SQLite keeps none
of a database's pages (sqlite.org/cksumvfs.html): a flipped bit reads as a value. Each write of ours seals its rows, in
the same transaction; a row whose seal does not fit is not believed. This is no signature: who can write the file can
compute it too. What a journal may have us type is checked on its own (`tasks.tcp_config`).
"""

from __future__ import annotations

import hashlib
import sqlite3

from flashferry.store.database_file import execute_all, schema_of

FILE = "journal.sqlite3"
TABLES = ("runs", "devices", "attempts", "transfers", "wishes")
_SEAL = "seal"
_FUNCTION = "flashferry_seal"
_DIGEST_BYTES = 8

_FIRST = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    verb TEXT NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT
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
    PRIMARY KEY (run_id, host)
);
CREATE UNIQUE INDEX lease ON devices (identity) WHERE touched = 1;
"""

_FLEET = """
ALTER TABLE runs ADD COLUMN request TEXT;
ALTER TABLE runs ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN stopping INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN approved_wave INTEGER NOT NULL DEFAULT -1;
ALTER TABLE runs ADD COLUMN waiting_wave INTEGER;
ALTER TABLE devices ADD COLUMN site TEXT;
ALTER TABLE devices ADD COLUMN wave INTEGER NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN image TEXT;
ALTER TABLE devices ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
CREATE TABLE attempts (
    run_id TEXT NOT NULL,
    host TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    record TEXT,
    ended_at TEXT NOT NULL,
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
    PRIMARY KEY (run_id, host, ticket_id, at)
);
CREATE INDEX transfers_over_time ON transfers (host, at);
"""

_SEALED = """
ALTER TABLE devices ADD COLUMN members TEXT;
ALTER TABLE runs ADD COLUMN seal TEXT;
ALTER TABLE devices ADD COLUMN seal TEXT;
ALTER TABLE attempts ADD COLUMN seal TEXT;
ALTER TABLE transfers ADD COLUMN seal TEXT;
"""
"""Serial numbers of a stack's members, and a checksum over each row: see `seal_of`."""

OLDEST_TRANSPORT = "ftp"
"""By what every transfer was fetched before the journal said so."""

_TRANSPORT = f"""
ALTER TABLE transfers ADD COLUMN transport TEXT NOT NULL DEFAULT '{OLDEST_TRANSPORT}';
"""

_ORIGIN = ("job", "events", "plan_digest", "actor")
"""Which job of a service a run is, where its events are, which plan it carries out, and who began it."""

_WISHES = """
CREATE TABLE wishes (
    run_id TEXT NOT NULL REFERENCES runs,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    what TEXT NOT NULL,
    wave INTEGER,
    reason TEXT NOT NULL,
    seal TEXT
);
CREATE INDEX wishes_of_a_run ON wishes (run_id);
"""
"""Who wanted what of a run, when and why; the columns that a run looks at follow from it."""

_ASKED = _WISHES + "".join(f"ALTER TABLE runs ADD COLUMN {name} TEXT;\n" for name in _ORIGIN)

_ACTIVATED = """
ALTER TABLE devices ADD COLUMN activation TEXT;
"""
"""What a device is to be activated with, and how far that has come; NULL in every other run."""

_STEPS = (_FIRST, _FLEET, _SEALED, _TRANSPORT, _ASKED, _ACTIVATED)
SCHEMA_VERSION = len(_STEPS)

_AS_FLEET = """
CREATE TEMP VIEW runs AS SELECT rowid AS rowid, *, NULL AS request, 0 AS resumed, 0 AS paused, 0 AS stopping,
    -1 AS approved_wave, NULL AS waiting_wave, NULL AS seal, NO_ORIGIN FROM main.runs;
CREATE TEMP VIEW devices AS SELECT rowid AS rowid, *, NULL AS site, 0 AS wave, NULL AS image, 1 AS attempt,
    NULL AS members, NULL AS seal, NULL AS activation FROM main.devices;
"""

_AS_SEALED = """
CREATE TEMP VIEW runs AS SELECT rowid AS rowid, *, NULL AS seal, NO_ORIGIN FROM main.runs;
CREATE TEMP VIEW devices AS SELECT rowid AS rowid, *, NULL AS members, NULL AS seal, NULL AS activation
    FROM main.devices;
"""

_AS_ACTIVATED = """
CREATE TEMP VIEW devices AS SELECT rowid AS rowid, *, NULL AS activation FROM main.devices;
"""

_AS_ASKED = """
CREATE TEMP VIEW runs AS SELECT rowid AS rowid, *, NO_ORIGIN FROM main.runs;
CREATE TEMP VIEW devices AS SELECT rowid AS rowid, *, NULL AS activation FROM main.devices;
"""

_NO_ORIGIN = ", ".join(f"NULL AS {name}" for name in _ORIGIN)
_AS_PRESENT = {
    version: views.replace("NO_ORIGIN", _NO_ORIGIN)
    for version, views in {1: _AS_FLEET, 2: _AS_SEALED, 3: _AS_ASKED, 4: _AS_ASKED, 5: _AS_ACTIVATED}.items()
}
"""The runs and devices of an earlier schema as today's."""

_AS_TRANSPORT = """
CREATE TEMP VIEW transfers AS SELECT rowid AS rowid, *, 'OLDEST' AS transport FROM main.transfers;
""".replace("OLDEST", OLDEST_TRANSPORT)


def migrate(database: sqlite3.Connection) -> None:
    """Bring a database to the present schema; the caller holds the transaction.

    Raises:
        sqlite3.OperationalError: It is of a newer release.
    """
    version = schema_of(database, newest=SCHEMA_VERSION)
    for step in _STEPS[version:]:
        if step is _TRANSPORT:
            _seal_with(database, "transfers", f"'{OLDEST_TRANSPORT}'")
        if step is _ASKED:
            _seal_with(database, "runs", ", ".join(["NULL"] * len(_ORIGIN)))
        if step is _ACTIVATED:
            _seal_with(database, "devices", "NULL")
        execute_all(database, step)
    if version < SCHEMA_VERSION:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def show_as_present(database: sqlite3.Connection) -> None:
    """Have a database that may only be read answer as if it had the present schema; its file stays as it is.

    Raises:
        sqlite3.OperationalError: It is of a newer release.
    """
    version = schema_of(database, newest=SCHEMA_VERSION)
    if version in _AS_PRESENT:
        execute_all(database, _AS_PRESENT[version])
    if version in {1, 2, 3, 4}:
        execute_all(database, _as_temporary(_WISHES[: _WISHES.index("CREATE INDEX")]))
    if version in {2, 3}:
        execute_all(database, _AS_TRANSPORT)
    if version == 1:
        added = _FLEET[_FLEET.index("CREATE TABLE attempts") : _FLEET.index("CREATE INDEX")]
        execute_all(database, _as_temporary(added))
        execute_all(database, _TRANSPORT)


def _as_temporary(script: str) -> str:
    # What a temporary table refers to would have to be one, too.
    return script.replace("CREATE TABLE", "CREATE TEMP TABLE").replace(" REFERENCES runs", "")


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


def _seal_with(database: sqlite3.Connection, table: str, value: str) -> None:
    """Seal the rows of a table anew for a column that comes behind all others; one whose seal does not fit keeps it.

    Args:
        database: A connection.
        table: The table, which lacks the column as yet.
        value: What its rows are to have there, as SQL.
    """
    know_seals(database)
    values = ", ".join(_columns(database, table))
    database.execute(
        f"UPDATE {table} SET {_SEAL} = {_FUNCTION}({values}, {value}) "  # noqa: S608 -- our own words
        f"WHERE {_SEAL} = {_FUNCTION}({values})"
    )


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

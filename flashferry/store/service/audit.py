"""The audit log: who did or was refused what, when, from where, with the object before and after. Append-only.

Each entry holds the hash of the previous one, so removing or changing one breaks the chain. Times never decrease,
except at an entry `clock.back`; if the clock was set back by less than 2 s, as by NTP, the previous entry's time is
used.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.values import field_names
from flashferry.store.database import execute_all
from flashferry.store.service.database import STEPS

FIRST = "0" * 64
"""The first entry's `previous`."""
CLOCK_BACK = "clock.back"
"""Action of an entry about a clock that was set back."""
_SMALL_STEP = timedelta(seconds=2)


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One action, done or refused.

    Attributes:
        at: Time, as the tables store times.
        actor: User name; `system` for the service itself.
        via: `session`, `token`, `header`, `system` or `command-line`.
        address: Client address; empty if unknown.
        action: Such as `plan.approve`.
        object: Such as `plan:7c1e…`.
        outcome: `asked`, `done`, `refused` or `failed`.
        reason: The actor's reason, or why it was refused.
        before: State before, as JSON; empty for none.
        after: State after, as JSON; empty for none.
    """

    at: str
    actor: str
    via: str
    address: str
    action: str
    object: str
    outcome: str = "done"
    reason: str = ""
    before: str = ""
    after: str = ""


class ChainedEntry(Struct, frozen=True, kw_only=True):
    """An entry with its position in the chain.

    Attributes:
        seq: Number, from 1 without gaps.
        previous: Hash of the previous entry; zeros for the first.
        hash: SHA-256 over number, entry and `previous`.
    """

    seq: int
    entry: AuditEntry
    previous: str
    hash: str


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Selection of entries; an empty field selects all.

    Attributes:
        since: From this time, as the tables store times.
        until: Before this time.
        actor: User name.
        action: An action, or a group: `plan` is every `plan.…`.
        object: An object, or a type: `run` is every `run:…`.
        outcome: `asked`, `done`, `refused` or `failed`.
    """

    since: str = ""
    until: str = ""
    actor: str = ""
    action: str = ""
    object: str = ""
    outcome: str = ""


_COLUMNS = tuple(field_names(AuditEntry))
_TEXTS = (*_COLUMNS, "previous", "hash")
_ALL = f"seq, {', '.join(_COLUMNS)}, previous, hash"
_NO_END = 2**62


def append(database: sqlite3.Connection, entry: AuditEntry) -> ChainedEntry:
    """Append an entry in the caller's transaction."""
    last = database.execute("SELECT seq, at, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
    seq, before, previous = tuple(last) if last is not None else (0, entry.at, FIRST)
    if entry.at < before:
        if datetime.fromisoformat(before) - datetime.fromisoformat(entry.at) < _SMALL_STEP:
            entry = replace(entry, at=before)
        elif entry.action != CLOCK_BACK:
            append(database, _clock_back(before, entry.at))
            return append(database, entry)
    return _insert(database, entry, seq + 1, previous)


def _clock_back(before: str, now: str) -> AuditEntry:
    return AuditEntry(
        at=now,
        actor="system",
        via="system",
        address="",
        action=CLOCK_BACK,
        object="clock",
        reason="the clock of this host was set back",
        before=json.dumps(before),
        after=json.dumps(now),
    )


def _insert(database: sqlite3.Connection, entry: AuditEntry, seq: int, previous: str) -> ChainedEntry:
    made = ChainedEntry(seq=seq, entry=entry, previous=previous, hash=hash_of(seq, entry, previous))
    marks = ", ".join("?" * (len(_COLUMNS) + 3))
    database.execute(
        f"INSERT INTO audit (seq, {', '.join(_COLUMNS)}, previous, hash) VALUES ({marks})",  # noqa: S608 -- our columns
        (seq, *(getattr(entry, name) for name in _COLUMNS), previous, made.hash),
    )
    return made


def last(database: sqlite3.Connection) -> ChainedEntry | None:
    """Return the newest entry; None for none."""
    row = database.execute(f"SELECT {_ALL} FROM audit ORDER BY seq DESC LIMIT 1").fetchone()  # noqa: S608
    return None if row is None else _chained(row)


def newest_of(database: sqlite3.Connection, action: str) -> ChainedEntry | None:
    """Return the newest entry of an action; None for none."""
    row = database.execute(
        f"SELECT {_ALL} FROM audit WHERE action = ? ORDER BY seq DESC LIMIT 1",  # noqa: S608 -- our columns
        (action,),
    ).fetchone()
    return None if row is None else _chained(row)


def entries(
    database: sqlite3.Connection,
    *,
    matching: AuditFilter | None = None,
    after_seq: int = 0,
    before_seq: int | None = None,
    is_newest_first: bool = False,
    most: int | None = None,
) -> Iterator[ChainedEntry]:
    """Yield entries, the oldest first by default.

    Args:
        database: The connection.
        matching: Selection; None for all.
        after_seq: Only entries with a greater number.
        before_seq: Only entries with a lower number; None for all.
        is_newest_first: Reverse the order.
        most: Maximum number; None for all.
    """
    matching = matching or AuditFilter()
    rows = database.execute(
        f"SELECT {_ALL} FROM audit WHERE seq > ? AND seq < ? AND at >= ? AND at < ? "  # noqa: S608 -- our columns
        "AND (? = '' OR actor = ?) AND (? = '' OR action = ? OR substr(action, 1, length(?) + 1) = ? || '.') "
        "AND (? = '' OR object = ? OR substr(object, 1, length(?) + 1) = ? || ':') AND (? = '' OR outcome = ?) "
        f"ORDER BY seq {'DESC' if is_newest_first else 'ASC'} LIMIT ?",
        (
            after_seq,
            _NO_END if before_seq is None else before_seq,
            matching.since,
            matching.until or "~",
            *(matching.actor,) * 2,
            *(matching.action,) * 4,
            *(matching.object,) * 4,
            *(matching.outcome,) * 2,
            -1 if most is None else most,
        ),
    )
    for row in rows:
        yield _chained(row)


def stored_entries(database: sqlite3.Connection) -> Iterator[ChainedEntry | str]:
    """Yield every row by number: an entry, or a sentence about an invalid row.

    It filters nothing, because a changed row could evade a filter.

    Raises:
        sqlite3.DatabaseError: The table is missing, or the file is damaged.
    """
    types = ", ".join(f"typeof({name}) AS type_{name}" for name in _TEXTS)
    # Invalid UTF-8 is read as bytes that no hash matches, so that it does not end the iteration.
    texts = ", ".join(f"CAST({name} AS BLOB) AS {name}" for name in _TEXTS)
    for row in database.execute(f"SELECT seq, {texts}, {types} FROM audit ORDER BY seq"):  # noqa: S608 -- our columns
        strange = [f"{name} is {row[f'type_{name}']}" for name in _TEXTS if row[f"type_{name}"] != "text"]
        if strange:
            yield f"entry {row['seq']}: expected text in each column, found that {', '.join(strange)}"
            continue
        found = {name: bytes(row[name]).decode("utf-8", "surrogateescape") for name in _TEXTS}
        entry = AuditEntry(**{name: found[name] for name in _COLUMNS})
        yield ChainedEntry(seq=row["seq"], entry=entry, previous=found["previous"], hash=found["hash"])


def table_faults(database: sqlite3.Connection) -> list[str]:
    """Return how table, indexes and triggers differ from the schema, and their damage, one sentence each.

    SQLite's stored definitions are compared as text with those of an empty database. Triggers of all tables count,
    because each could change the audit.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        for step in STEPS:
            execute_all(empty, step)
        expected = _definitions(empty)
    found = _definitions(database)
    faults = [
        f"the definition of {name} is not the schema's: "
        + (
            "it is missing"
            if name not in found
            else "it is not part of it"
            if name not in expected
            else "it was changed"
        )
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
    if "table audit" in found:
        damage = database.execute("PRAGMA integrity_check('audit')")
        faults += [f"SQLite finds damage in the table: {row[0]}" for row in damage if row[0] != "ok"]
    return faults


def _definitions(database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    rows = database.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master "
        "WHERE type = 'trigger' OR tbl_name = 'audit' OR name = 'audit'"
    )
    return {f"{row[0]} {row[1]}": (str(row[2]), str(row[3])) for row in rows}


def things_without_an_entry(database: sqlite3.Connection) -> dict[str, int]:
    """Return the number of people, plans and images, each of which has been in the audit since its creation."""
    found = {
        table: int(database.execute(f"SELECT count(*) FROM {table} {where}").fetchone()[0])  # noqa: S608 -- our tables
        for table, where in (("people", "WHERE name <> 'system'"), ("plans", ""), ("images", ""))
    }
    return {table: count for table, count in found.items() if count}


def _chained(row: sqlite3.Row) -> ChainedEntry:
    return ChainedEntry(
        seq=row["seq"],
        entry=AuditEntry(**{name: row[name] for name in _COLUMNS}),
        previous=row["previous"],
        hash=row["hash"],
    )


def hash_of(seq: int, entry: AuditEntry, previous: str) -> str:
    """Return the hash of an entry at its position."""
    values = [seq, *(getattr(entry, name) for name in _COLUMNS), previous]
    return hashlib.sha256(json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()

"""The audit: who did what, when, from where, to which object, before and after; refusals too. Never changed.

Each entry carries the hash of the one before it: whoever takes one out or alters one breaks the chain from there on.
Times never go back from entry to entry, save where an entry `clock.back` of the system says so: where the clock was put
back by less than two seconds, as time servers do, an entry has the time of the one before it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

FIRST = "0" * 64
"""What the first entry has for the hash of the one before it."""
CLOCK_BACK = "clock.back"
"""The action of the entry that says that the clock was put back."""
_SMALL_STEP = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that somebody did, or was refused.

    Attributes:
        at: When, as the tables keep times.
        actor: Who; `system` where nobody asked for it.
        via: `session`, `token`, `header`, `system` or `command-line`.
        address: From where; empty where it is not known.
        action: What, such as `plan.approve`.
        object: To which object, such as `plan:7c1e…`.
        outcome: `done`, `refused` or `failed`.
        reason: What the actor gave for it, or why it was refused.
        before: What was there, as JSON; empty where nothing was.
        after: What is there now, as JSON; empty where nothing is.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedEntry:
    """An entry in its place.

    Attributes:
        seq: Its number, from 1, without gaps.
        entry: The entry.
        previous: Hash of the entry before it; zeros of the first.
        hash: SHA-256 over number, entry and `previous`.
    """

    seq: int
    entry: AuditEntry
    previous: str
    hash: str


_COLUMNS = tuple(one.name for one in fields(AuditEntry))


def append(database: sqlite3.Connection, entry: AuditEntry) -> ChainedEntry:
    """Append an entry, within the caller's transaction: change and entry are on disk together or not at all."""
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
        reason="the clock of this host was put back",
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


def entries(database: sqlite3.Connection, *, after_seq: int = 0, most: int = 1_000_000) -> Iterator[ChainedEntry]:
    """Yield the entries behind a number, the oldest first."""
    for row in database.execute(
        f"SELECT seq, {', '.join(_COLUMNS)}, previous, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?",  # noqa: S608
        (after_seq, most),
    ):
        yield ChainedEntry(
            seq=row["seq"],
            entry=AuditEntry(**{name: row[name] for name in _COLUMNS}),
            previous=row["previous"],
            hash=row["hash"],
        )


def hash_of(seq: int, entry: AuditEntry, previous: str) -> str:
    """Return the hash of an entry in its place."""
    values = [seq, *(getattr(entry, name) for name in _COLUMNS), previous]
    return hashlib.sha256(json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()

"""Hooks and what waits to be sent to them: in SQL, within the transaction of the caller.

A hook's secret is never here: `secret_name` names the section of the configuration that says where it is to be had.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from flashferry.store.service.database import names_in


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRow:
    """A hook, as the table has it.

    Attributes:
        hook_id: Its identifier.
        name: What people call it; no two of a name.
        form: `webhook`, `slack`, `teams`, `mail` or `syslog`.
        target: Where it leads, such as `https://ops.example/hook`; no secret.
        secret_name: The section `[hooks.NAME]` of the configuration that says where its secret is; None: it has none.
        kinds: The kinds of notices that it is sent.
        sites: Of what touches one of these sites alone; none: of all.
        is_paused: Whether it is sent nothing for now; what is announced meanwhile is not kept for it.
        audit_seq: The last entry of the audit that it was sent, where it is sent them.
    """

    hook_id: str
    name: str
    form: str
    target: str
    secret_name: str | None
    kinds: tuple[str, ...]
    sites: tuple[str, ...] = ()
    is_paused: bool = False
    audit_seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A notice on its way to a hook.

    Attributes:
        notice_id: Its identifier, the idempotence key of all tries to send it.
        hook_id: The hook.
        kind: Its kind.
        body: The notice, JSON.
        at: When it was announced.
        attempts: How often it was tried to send it.
        next_at: When it is tried again; None: never more.
        delivered_at: When it was taken; None: it was not.
        sentence: Why the last try failed; empty where none did.
    """

    notice_id: str
    hook_id: str
    kind: str
    body: str
    at: str
    attempts: int = 0
    next_at: str | None = None
    delivered_at: str | None = None
    sentence: str = ""

    @property
    def is_dead(self) -> bool:
        """Return whether it was given up."""
        return self.delivered_at is None and self.next_at is None


_HOOK = "hook_id, name, form, target, secret_name, kinds, sites, state, audit_seq"
_NOTICE = "notice_id, hook_id, kind, body, at, attempts, next_at, delivered_at, sentence"


def add_hook(database: sqlite3.Connection, hook: HookRow) -> None:
    """Add a hook.

    Raises:
        sqlite3.IntegrityError: There is one of that name.
    """
    database.execute(
        f"INSERT INTO hooks ({_HOOK}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 -- our columns
        (hook.hook_id, *_changeable(hook), hook.audit_seq),
    )


def change_hook(database: sqlite3.Connection, hook: HookRow) -> None:
    """Put a hook in the place of the one of its identifier; what it was sent of the audit stays as it was.

    Raises:
        sqlite3.IntegrityError: There is another one of its name.
    """
    database.execute(
        "UPDATE hooks SET name = ?, form = ?, target = ?, secret_name = ?, kinds = ?, sites = ?, state = ? "
        "WHERE hook_id = ?",
        (*_changeable(hook), hook.hook_id),
    )


def remove_hook(database: sqlite3.Connection, hook_id: str) -> None:
    """Remove a hook, and what waits for it."""
    database.execute("DELETE FROM hooks WHERE hook_id = ?", (hook_id,))


def hooks(database: sqlite3.Connection) -> tuple[HookRow, ...]:
    """Return all hooks by name."""
    rows = database.execute(f"SELECT {_HOOK} FROM hooks ORDER BY name")  # noqa: S608 -- our columns
    return tuple(_hook(row) for row in rows)


def hook_of(database: sqlite3.Connection, hook_id: str) -> HookRow | None:
    """Return a hook by its identifier."""
    row = database.execute(f"SELECT {_HOOK} FROM hooks WHERE hook_id = ?", (hook_id,)).fetchone()  # noqa: S608
    return None if row is None else _hook(row)


def set_audit_seq(database: sqlite3.Connection, hook_id: str, seq: int) -> None:
    """Keep up to where a hook was sent the audit."""
    database.execute("UPDATE hooks SET audit_seq = ? WHERE hook_id = ?", (seq, hook_id))


def put_out(database: sqlite3.Connection, notice: OutboxRow) -> None:
    """Put a notice into the outbox."""
    database.execute(
        f"INSERT INTO outbox ({_NOTICE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 -- our columns
        (
            notice.notice_id,
            notice.hook_id,
            notice.kind,
            notice.body,
            notice.at,
            notice.attempts,
            notice.next_at,
            notice.delivered_at,
            notice.sentence,
        ),
    )


def due(database: sqlite3.Connection, now: str, *, latest: str, most: int) -> tuple[OutboxRow, ...]:
    """Return what is to be sent now, the oldest first; nothing of hooks that are paused.

    Args:
        database: The connection.
        now: What is due until then.
        latest: No pause ends later than this: what would wait longer was put off by a clock that was put back since.
        most: So many at most.
    """
    rows = database.execute(
        f"SELECT {_NOTICE} FROM outbox WHERE delivered_at IS NULL AND (next_at <= ? OR next_at > ?) "  # noqa: S608
        "AND hook_id IN (SELECT hook_id FROM hooks WHERE state = 'active') ORDER BY at, rowid LIMIT ?",
        (now, latest, most),
    )
    return tuple(_notice(row) for row in rows)


def notice_of(database: sqlite3.Connection, notice_id: str) -> OutboxRow | None:
    """Return a notice of the outbox by its identifier."""
    row = database.execute(f"SELECT {_NOTICE} FROM outbox WHERE notice_id = ?", (notice_id,)).fetchone()  # noqa: S608
    return None if row is None else _notice(row)


def delivered(database: sqlite3.Connection, notice_id: str, at: str) -> None:
    """Keep that a notice was taken."""
    database.execute(
        "UPDATE outbox SET delivered_at = ?, next_at = NULL, attempts = attempts + 1, sentence = '' "
        "WHERE notice_id = ?",
        (at, notice_id),
    )


def not_delivered(database: sqlite3.Connection, notice_id: str, *, next_at: str | None, sentence: str) -> None:
    """Keep that a try failed, and when the next one is; None: it is given up."""
    database.execute(
        "UPDATE outbox SET next_at = ?, attempts = attempts + 1, sentence = ? WHERE notice_id = ?",
        (next_at, sentence, notice_id),
    )


def hold_back(database: sqlite3.Connection, hook_id: str, until: str) -> None:
    """Have a hook's waiting notices wait at least until then: they keep their order behind one that failed."""
    database.execute(
        "UPDATE outbox SET next_at = ? WHERE hook_id = ? AND delivered_at IS NULL AND next_at < ?",
        (until, hook_id, until),
    )


def notices_of(database: sqlite3.Connection, hook_id: str, *, most: int) -> tuple[OutboxRow, ...]:
    """Return a hook's latest notices, the newest first."""
    rows = database.execute(
        f"SELECT {_NOTICE} FROM outbox WHERE hook_id = ? ORDER BY at DESC, rowid DESC LIMIT ?",  # noqa: S608
        (hook_id, most),
    )
    return tuple(_notice(row) for row in rows)


def dead_counts(database: sqlite3.Connection) -> dict[str, int]:
    """Return how many notices were given up, by hook."""
    rows = database.execute(
        "SELECT hook_id, count(*) FROM outbox WHERE delivered_at IS NULL AND next_at IS NULL GROUP BY hook_id"
    )
    return {row[0]: row[1] for row in rows}


def revive(database: sqlite3.Connection, hook_id: str, now: str) -> int:
    """Have a hook's notices that were given up tried again, as if announced now; return how many."""
    return database.execute(
        "UPDATE outbox SET next_at = ?, at = ? WHERE hook_id = ? AND delivered_at IS NULL AND next_at IS NULL",
        (now, now, hook_id),
    ).rowcount


def forget_delivered(database: sqlite3.Connection, before: str) -> None:
    """Remove what was taken, or given up, before then."""
    database.execute("DELETE FROM outbox WHERE next_at IS NULL AND at < ?", (before,))


def reminders(database: sqlite3.Connection) -> dict[str, str]:
    """Return what people were reminded of, by key, and when last."""
    return {row[0]: row[1] for row in database.execute("SELECT key, reminded_at FROM reminders")}


def set_reminder(database: sqlite3.Connection, key: str, reminded_at: str) -> None:
    """Keep that people were reminded of something."""
    database.execute(
        "INSERT INTO reminders (key, reminded_at) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET reminded_at = excluded.reminded_at",
        (key, reminded_at),
    )


def forget_reminder(database: sqlite3.Connection, key: str) -> None:
    """Forget what is over: if it comes again, a notice goes out at once."""
    database.execute("DELETE FROM reminders WHERE key = ?", (key,))


def _changeable(hook: HookRow) -> tuple[str | None, ...]:
    state = "paused" if hook.is_paused else "active"
    return hook.name, hook.form, hook.target, hook.secret_name, json.dumps(hook.kinds), json.dumps(hook.sites), state


def _hook(row: sqlite3.Row) -> HookRow:
    return HookRow(
        hook_id=row["hook_id"],
        name=row["name"],
        form=row["form"],
        target=row["target"],
        secret_name=row["secret_name"],
        kinds=names_in(row["kinds"]),
        sites=names_in(row["sites"]),
        is_paused=row["state"] == "paused",
        audit_seq=row["audit_seq"],
    )


def _notice(row: sqlite3.Row) -> OutboxRow:
    return OutboxRow(**{name: row[name] for name in _NOTICE.split(", ")})

"""Hooks, and the queue of notices to be sent to them.

A hook's secret is not stored: `secret_name` is the section of the configuration that says where to find it.
"""

from __future__ import annotations

import json
import sqlite3

from msgspec import Struct

from flashferry.store.service.database import names_in


class HookRow(Struct, frozen=True, kw_only=True):
    """A hook.

    Attributes:
        name: Unique display name.
        form: `webhook`, `slack`, `teams`, `mail` or `syslog`.
        target: Such as `https://ops.example/hook`; no secret.
        secret_name: Name of the section `[hooks.NAME]`; None for no secret.
        kinds: Kinds of notices that it receives.
        sites: Only notices that concern one of these sites; empty for all.
        is_paused: Whether nothing is sent; notices are not queued meanwhile.
        audit_seq: Number of the last audit entry sent to it.
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


class OutboxRow(Struct, frozen=True, kw_only=True):
    """A queued notice.

    Attributes:
        notice_id: Identifier, and idempotency key of all attempts.
        body: JSON.
        at: When it was queued.
        attempts: Number of attempts.
        next_at: Time of the next attempt; None for none.
        delivered_at: When it was accepted; None if it was not.
        sentence: Why the last attempt failed; empty for none.
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
        sqlite3.IntegrityError: The name is taken.
    """
    database.execute(
        f"INSERT INTO hooks ({_HOOK}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 -- our columns
        (hook.hook_id, *_changeable(hook), hook.audit_seq),
    )


def change_hook(database: sqlite3.Connection, hook: HookRow) -> None:
    """Replace a hook, except for its position in the audit.

    Raises:
        sqlite3.IntegrityError: The name is taken.
    """
    database.execute(
        "UPDATE hooks SET name = ?, form = ?, target = ?, secret_name = ?, kinds = ?, sites = ?, state = ? "
        "WHERE hook_id = ?",
        (*_changeable(hook), hook.hook_id),
    )


def remove_hook(database: sqlite3.Connection, hook_id: str) -> None:
    """Remove a hook and its notices."""
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
    """Store the number of the last audit entry sent to a hook."""
    database.execute("UPDATE hooks SET audit_seq = ? WHERE hook_id = ?", (seq, hook_id))


def put_out(database: sqlite3.Connection, notice: OutboxRow) -> None:
    """Queue a notice."""
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
    """Return the notices to send now, the oldest first, without those of paused hooks.

    Args:
        database: The connection.
        now: Notices due until then.
        latest: Latest valid `next_at`; later ones result from a clock that was set back, and are due.
        most: Maximum number.
    """
    rows = database.execute(
        f"SELECT {_NOTICE} FROM outbox WHERE delivered_at IS NULL AND (next_at <= ? OR next_at > ?) "  # noqa: S608
        "AND hook_id IN (SELECT hook_id FROM hooks WHERE state = 'active') ORDER BY at, rowid LIMIT ?",
        (now, latest, most),
    )
    return tuple(_notice(row) for row in rows)


def notice_of(database: sqlite3.Connection, notice_id: str) -> OutboxRow | None:
    """Return a notice by its identifier."""
    row = database.execute(f"SELECT {_NOTICE} FROM outbox WHERE notice_id = ?", (notice_id,)).fetchone()  # noqa: S608
    return None if row is None else _notice(row)


def delivered(database: sqlite3.Connection, notice_id: str, at: str) -> None:
    """Record that a notice was accepted."""
    database.execute(
        "UPDATE outbox SET delivered_at = ?, next_at = NULL, attempts = attempts + 1, sentence = '' "
        "WHERE notice_id = ?",
        (at, notice_id),
    )


def not_delivered(database: sqlite3.Connection, notice_id: str, *, next_at: str | None, sentence: str) -> None:
    """Record a failed attempt and the time of the next; None gives up."""
    database.execute(
        "UPDATE outbox SET next_at = ?, attempts = attempts + 1, sentence = ? WHERE notice_id = ?",
        (next_at, sentence, notice_id),
    )


def hold_back(database: sqlite3.Connection, hook_id: str, until: str) -> None:
    """Delay a hook's notices until a time, so that they keep their order after one that failed."""
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
    """Return the number of given-up notices by hook."""
    rows = database.execute(
        "SELECT hook_id, count(*) FROM outbox WHERE delivered_at IS NULL AND next_at IS NULL GROUP BY hook_id"
    )
    return {row[0]: row[1] for row in rows}


def revive(database: sqlite3.Connection, hook_id: str, now: str) -> int:
    """Queue a hook's given-up notices again; return how many."""
    return database.execute(
        "UPDATE outbox SET next_at = ?, at = ? WHERE hook_id = ? AND delivered_at IS NULL AND next_at IS NULL",
        (now, now, hook_id),
    ).rowcount


def forget_delivered(database: sqlite3.Connection, before: str) -> None:
    """Delete notices from before a time that were delivered or given up."""
    database.execute("DELETE FROM outbox WHERE next_at IS NULL AND at < ?", (before,))


def reminders(database: sqlite3.Connection) -> dict[str, str]:
    """Return the time of the last reminder by key."""
    return {row[0]: row[1] for row in database.execute("SELECT key, reminded_at FROM reminders")}


def set_reminder(database: sqlite3.Connection, key: str, reminded_at: str) -> None:
    """Store the time of a reminder."""
    database.execute(
        "INSERT INTO reminders (key, reminded_at) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET reminded_at = excluded.reminded_at",
        (key, reminded_at),
    )


def forget_reminder(database: sqlite3.Connection, key: str) -> None:
    """Delete a reminder, so that the next occurrence is notified at once."""
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

"""Rows of `sessions` and `tokens`, kept by the SHA-256 of the secret, never the secret itself.

What is shown are 256 random bits, so that a plain digest suffices; a password's would not.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A sign-in that lasts.

    Attributes:
        hash: SHA-256 of its id, in hex; `header:NAME` for whom a proxy signs in, which is the digest of nothing.
        person: Whose it is.
        csrf: What a form must bring back.
        created_at: When it began, as the tables keep times.
        expires_at: When it ends, likewise.
        seen_at: When he last did something, likewise; not kept to the second.
        address: From where he signed in.
    """

    hash: str
    person: str
    csrf: str = field(repr=False)
    created_at: str
    expires_at: str
    seen_at: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A token for programs.

    Attributes:
        token_id: Its id, which is no secret.
        person: Whose it is.
        name: What he called it.
        grants: The grants that it is limited to, as JSON; None: all that its person has.
        created_at: When it was made, as the tables keep times.
        expires_at: When it ends, likewise.
        last_used_at: When it was last shown, likewise; not kept to the second.
        revoked_at: When it was taken back, likewise.
    """

    token_id: str
    person: str
    name: str
    grants: str | None = None
    created_at: str
    expires_at: str
    last_used_at: str | None = None
    revoked_at: str | None = None


_OF_TOKENS = (
    "SELECT token_id, person, tokens.name, grants, tokens.created_at, expires_at, last_used_at, revoked_at"
    " FROM tokens JOIN people ON people.name = person"
)


def session(database: sqlite3.Connection, hash_: str, *, at: str) -> SessionRow | None:
    """Return a session that has not ended, of a person who is not disabled; else None."""
    row = database.execute(
        "SELECT sessions.* FROM sessions JOIN people ON name = person"
        " WHERE hash = ? AND expires_at > ? AND state = 'active'",
        (hash_, at),
    ).fetchone()
    return None if row is None else SessionRow(**dict(row))


def sessions_of(database: sqlite3.Connection, name: str, *, at: str) -> tuple[SessionRow, ...]:
    """Return a person's sessions that have not ended, the newest first."""
    rows = database.execute(
        "SELECT * FROM sessions WHERE person = ? AND expires_at > ? ORDER BY created_at DESC", (name, at)
    )
    return tuple(SessionRow(**dict(row)) for row in rows)


def insert_session(database: sqlite3.Connection, new: SessionRow) -> None:
    """Begin a session; one of the same hash is replaced."""
    database.execute(
        "INSERT OR REPLACE INTO sessions (hash, person, csrf, created_at, expires_at, seen_at, address)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (new.hash, new.person, new.csrf, new.created_at, new.expires_at, new.seen_at, new.address),
    )


def touch_session(database: sqlite3.Connection, hash_: str, *, at: str) -> None:
    """Record activity in a session."""
    database.execute("UPDATE sessions SET seen_at = ? WHERE hash = ?", (at, hash_))


def end_session(database: sqlite3.Connection, hash_: str) -> bool:
    """End a session; return whether there was one."""
    return database.execute("DELETE FROM sessions WHERE hash = ?", (hash_,)).rowcount == 1


def end_sessions_of(database: sqlite3.Connection, name: str, *, but: str = "") -> int:
    """End all sessions of a person but one; return how many."""
    return database.execute("DELETE FROM sessions WHERE person = ? AND hash <> ?", (name, but)).rowcount


def forget_ended_sessions(database: sqlite3.Connection, *, at: str) -> int:
    """Delete sessions that are over; return how many."""
    return database.execute("DELETE FROM sessions WHERE expires_at <= ?", (at,)).rowcount


def insert_token(database: sqlite3.Connection, new: TokenRow, *, hash_: str) -> None:
    """Keep a token by the SHA-256 of what is shown."""
    database.execute(
        "INSERT INTO tokens (token_id, person, name, hash, grants, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (new.token_id, new.person, new.name, hash_, new.grants, new.created_at, new.expires_at),
    )


def token(database: sqlite3.Connection, hash_: str, *, at: str) -> TokenRow | None:
    """Return a token that has not ended nor been taken back, of a person who is not disabled; else None."""
    row = database.execute(
        f"{_OF_TOKENS} WHERE hash = ? AND expires_at > ? AND revoked_at IS NULL AND state = 'active'",
        (hash_, at),
    ).fetchone()
    return None if row is None else TokenRow(**dict(row))


def tokens_of(database: sqlite3.Connection, name: str) -> tuple[TokenRow, ...]:
    """Return a person's tokens, those taken back too, the oldest first."""
    rows = database.execute(f"{_OF_TOKENS} WHERE person = ? ORDER BY tokens.created_at, token_id", (name,))
    return tuple(TokenRow(**dict(row)) for row in rows)


def all_tokens(database: sqlite3.Connection) -> tuple[TokenRow, ...]:
    """Return everybody's tokens, those taken back too, by person."""
    rows = database.execute(f"{_OF_TOKENS} ORDER BY person, tokens.created_at, token_id")
    return tuple(TokenRow(**dict(row)) for row in rows)


def touch_token(database: sqlite3.Connection, token_id: str, *, at: str) -> None:
    """Keep that a token was shown."""
    database.execute("UPDATE tokens SET last_used_at = ? WHERE token_id = ?", (at, token_id))


def revoke_token(database: sqlite3.Connection, token_id: str, *, at: str) -> bool:
    """Take a token back; return whether it was there and not taken back before."""
    done = database.execute(
        "UPDATE tokens SET revoked_at = ? WHERE token_id = ? AND revoked_at IS NULL", (at, token_id)
    )
    return done.rowcount == 1

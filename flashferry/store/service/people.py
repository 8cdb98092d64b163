"""Users of the service, with their roles, sessions and tokens."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from msgspec import Struct

LOCAL = "local"

ACTIVE = "active"


class Person(Struct, frozen=True, kw_only=True):
    """A user.

    Attributes:
        name: Unique, never changed.
        source: `local`, `oidc`, `header` or `system`.
        subject: Identifier at the provider; None for local accounts.
        display: Display name; may be empty.
        email: May be empty.
        state: `active` or `disabled`.
        created_at: As the tables store times.
        failed_logins: Wrong passwords since the last correct one.
        locked_until: No password is accepted until then; None for no lock.
        has_password: Whether the user can sign in with a password.
    """

    name: str
    source: str
    subject: str | None = None
    display: str = ""
    email: str = ""
    state: str = ACTIVE
    created_at: str
    failed_logins: int = 0
    locked_until: str | None = None
    has_password: bool = False


class GivenGrant(Struct, frozen=True, kw_only=True):
    """A role of a user.

    Attributes:
        site: The site, or `*`.
        given_by: Who granted it; `oidc` and `header` if it follows from groups.
        given_at: As the tables store times.
    """

    role: str
    site: str
    given_by: str
    given_at: str


_PERSON = (
    "SELECT name, source, subject, display, email, state, created_at, failed_logins, locked_until,"
    " password IS NOT NULL AS has_password FROM people"
)


def person(database: sqlite3.Connection, name: str) -> Person | None:
    """Return a user by name; None if there is none."""
    return _one(database.execute(f"{_PERSON} WHERE name = ?", (name,)).fetchone())


def person_of(database: sqlite3.Connection, *, source: str, subject: str) -> Person | None:
    """Return a user by the provider's subject; None if there is none."""
    return _one(database.execute(f"{_PERSON} WHERE source = ? AND subject = ?", (source, subject)).fetchone())


def people(database: sqlite3.Connection) -> tuple[Person, ...]:
    """Return all users but `system`, by name."""
    rows = database.execute(f"{_PERSON} WHERE source <> 'system' ORDER BY name")
    return tuple(found for row in rows if (found := _one(row)) is not None)


def insert_person(database: sqlite3.Connection, new: Person, *, password: str | None) -> None:
    """Add a user.

    Args:
        database: The caller's transaction.
        new: The user.
        password: Hash of the password; None for none.

    Raises:
        sqlite3.IntegrityError: The name or the subject is taken.
    """
    database.execute(
        "INSERT INTO people (name, source, subject, display, email, password, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (new.name, new.source, new.subject, new.display, new.email, password, new.created_at),
    )


def password_hash(database: sqlite3.Connection, name: str) -> str | None:
    """Return the hash of a user's password; None for none."""
    row = database.execute("SELECT password FROM people WHERE name = ?", (name,)).fetchone()
    return None if row is None else row["password"]


def set_password_hash(database: sqlite3.Connection, name: str, password: str) -> None:
    """Set the hash of a user's password."""
    database.execute("UPDATE people SET password = ? WHERE name = ?", (password, name))


def set_state(database: sqlite3.Connection, name: str, state: str) -> None:
    """Set a user `active` or `disabled`."""
    database.execute("UPDATE people SET state = ? WHERE name = ?", (state, name))


def set_names(database: sqlite3.Connection, name: str, *, display: str, email: str) -> None:
    """Update display name and email address from the provider."""
    database.execute("UPDATE people SET display = ?, email = ? WHERE name = ?", (display, email, name))


def time_zone(database: sqlite3.Connection, name: str) -> str:
    """Return the IANA name of the time zone in which a person reads times: `UTC` until they choose one."""
    row = database.execute("SELECT time_zone FROM people WHERE name = ?", (name,)).fetchone()
    return "UTC" if row is None else str(row["time_zone"])


def set_time_zone(database: sqlite3.Connection, name: str, zone: str) -> None:
    """Store the time zone in which a person reads times, by its IANA name."""
    database.execute("UPDATE people SET time_zone = ? WHERE name = ?", (zone, name))


def count_failure(database: sqlite3.Connection, name: str) -> int:
    """Count a wrong password; return how many there were in a row."""
    row = database.execute(
        "UPDATE people SET failed_logins = failed_logins + 1 WHERE name = ? RETURNING failed_logins", (name,)
    ).fetchone()
    return int(row[0])


def lock(database: sqlite3.Connection, name: str, until: str) -> None:
    """Lock a user's password until a time, and reset the count of failures."""
    database.execute("UPDATE people SET locked_until = ?, failed_logins = 0 WHERE name = ?", (until, name))


def clear_failures(database: sqlite3.Connection, name: str) -> None:
    """Reset the count of wrong passwords and the lock."""
    database.execute("UPDATE people SET locked_until = NULL, failed_logins = 0 WHERE name = ?", (name,))


def grants_of(database: sqlite3.Connection, name: str) -> tuple[GivenGrant, ...]:
    """Return a user's roles, by role and site."""
    rows = database.execute(
        "SELECT role, site, given_by, given_at FROM grants WHERE person = ? ORDER BY role, site", (name,)
    )
    return tuple(GivenGrant(**dict(row)) for row in rows)


def insert_grant(database: sqlite3.Connection, name: str, new: GivenGrant) -> bool:
    """Grant a role; return whether it is new."""
    done = database.execute(
        "INSERT INTO grants (person, role, site, given_by, given_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (name, new.role, new.site, new.given_by, new.given_at),
    )
    return done.rowcount == 1


def delete_grant(database: sqlite3.Connection, name: str, *, role: str, site: str) -> bool:
    """Revoke a role; return whether the user had it."""
    done = database.execute("DELETE FROM grants WHERE person = ? AND role = ? AND site = ?", (name, role, site))
    return done.rowcount == 1


def active_admins(database: sqlite3.Connection) -> frozenset[str]:
    """Return the admins that are not disabled."""
    rows = database.execute(
        "SELECT DISTINCT name FROM people JOIN grants ON person = name WHERE role = 'admin' AND state = 'active'"
    )
    return frozenset(row["name"] for row in rows)


def roles_lost(database: sqlite3.Connection, name: str, role: str, sites: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the sites at which a user lacks a role; None if the user is disabled or unknown.

    Args:
        database: A connection.
        name: User name.
        role: The role.
        sites: Sites; an empty name means devices without a site, which needs the role everywhere.
    """
    found = person(database, name)
    if found is None or found.state != ACTIVE:
        return None
    his = {one.site for one in grants_of(database, name) if one.role == role}
    return () if "*" in his else tuple(site for site in sites if not site or site not in his)


def _one(row: sqlite3.Row | None) -> Person | None:
    return None if row is None else Person(**{**dict(row), "has_password": bool(row["has_password"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session.

    Attributes:
        hash: SHA-256 of its id, in hex; `header:NAME` for a user signed in by a proxy.
        person: The user.
        csrf: Token that forms must return.
        created_at: As the tables store times.
        expires_at: When it ends.
        seen_at: Last activity; not exact to the second.
        address: Client address at sign-in.
    """

    hash: str
    person: str
    csrf: str = field(repr=False)
    created_at: str
    expires_at: str
    seen_at: str
    address: str


class TokenRow(Struct, frozen=True, kw_only=True):
    """An API token.

    Attributes:
        token_id: Identifier; no secret.
        person: The user.
        name: Display name.
        grants: Roles that it is limited to, as JSON; None for all of the user's.
        created_at: As the tables store times.
        expires_at: When it ends.
        last_used_at: Not exact to the second; None if never used.
        revoked_at: None if it is not revoked.
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
    """Return a valid session of an active user; else None."""
    row = database.execute(
        "SELECT sessions.* FROM sessions JOIN people ON name = person"
        " WHERE hash = ? AND expires_at > ? AND state = 'active'",
        (hash_, at),
    ).fetchone()
    return None if row is None else SessionRow(**dict(row))


def sessions_of(database: sqlite3.Connection, name: str, *, at: str) -> tuple[SessionRow, ...]:
    """Return a user's valid sessions, the newest first."""
    rows = database.execute(
        "SELECT * FROM sessions WHERE person = ? AND expires_at > ? ORDER BY created_at DESC", (name, at)
    )
    return tuple(SessionRow(**dict(row)) for row in rows)


def insert_session(database: sqlite3.Connection, new: SessionRow) -> None:
    """Add a session, replacing one of the same hash."""
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
    """End all sessions of a user but one; return how many."""
    return database.execute("DELETE FROM sessions WHERE person = ? AND hash <> ?", (name, but)).rowcount


def forget_ended_sessions(database: sqlite3.Connection, *, at: str) -> int:
    """Delete ended sessions; return how many."""
    return database.execute("DELETE FROM sessions WHERE expires_at <= ?", (at,)).rowcount


def insert_token(database: sqlite3.Connection, new: TokenRow, *, hash_: str) -> None:
    """Add a token with the SHA-256 of its secret."""
    database.execute(
        "INSERT INTO tokens (token_id, person, name, hash, grants, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (new.token_id, new.person, new.name, hash_, new.grants, new.created_at, new.expires_at),
    )


def token(database: sqlite3.Connection, hash_: str, *, at: str) -> TokenRow | None:
    """Return a valid token of an active user; else None."""
    row = database.execute(
        f"{_OF_TOKENS} WHERE hash = ? AND expires_at > ? AND revoked_at IS NULL AND state = 'active'",
        (hash_, at),
    ).fetchone()
    return None if row is None else TokenRow(**dict(row))


def tokens_of(database: sqlite3.Connection, name: str) -> tuple[TokenRow, ...]:
    """Return a user's tokens, revoked ones included, the oldest first."""
    rows = database.execute(f"{_OF_TOKENS} WHERE person = ? ORDER BY tokens.created_at, token_id", (name,))
    return tuple(TokenRow(**dict(row)) for row in rows)


def all_tokens(database: sqlite3.Connection) -> tuple[TokenRow, ...]:
    """Return all tokens, revoked ones included, by user."""
    rows = database.execute(f"{_OF_TOKENS} ORDER BY person, tokens.created_at, token_id")
    return tuple(TokenRow(**dict(row)) for row in rows)


def touch_token(database: sqlite3.Connection, token_id: str, *, at: str) -> None:
    """Record the use of a token."""
    database.execute("UPDATE tokens SET last_used_at = ? WHERE token_id = ?", (at, token_id))


def revoke_token(database: sqlite3.Connection, token_id: str, *, at: str) -> bool:
    """Revoke a token; return whether it was valid."""
    done = database.execute(
        "UPDATE tokens SET revoked_at = ? WHERE token_id = ? AND revoked_at IS NULL", (at, token_id)
    )
    return done.rowcount == 1

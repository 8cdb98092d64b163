"""People of the service, their roles, sessions and tokens."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

LOCAL = "local"

ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One of the service's people.

    Attributes:
        name: What he is known by everywhere; never changed.
        source: `local`, `oidc`, `header` or `system`.
        subject: What his provider knows him by; None for local accounts.
        display: His name for people; may be empty.
        email: His address; may be empty.
        state: `active` or `disabled`.
        created_at: When he was entered, as the tables keep times.
        failed_logins: Wrong passwords since the last right one.
        locked_until: Until then no password is taken; None where there is no lock.
        has_password: Whether he may sign in with a password.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenGrant:
    """A role that a person was given.

    Attributes:
        role: The role's word.
        site: The site, or `*`.
        given_by: Who gave it; `oidc` and `header` for what follows from groups.
        given_at: When, as the tables keep times.
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
    """Return one of the people, or None."""
    return _one(database.execute(f"{_PERSON} WHERE name = ?", (name,)).fetchone())


def person_of(database: sqlite3.Connection, *, source: str, subject: str) -> Person | None:
    """Return whom a provider knows by a subject, or None."""
    return _one(database.execute(f"{_PERSON} WHERE source = ? AND subject = ?", (source, subject)).fetchone())


def people(database: sqlite3.Connection) -> tuple[Person, ...]:
    """Return all people but the system, by name."""
    rows = database.execute(f"{_PERSON} WHERE source <> 'system' ORDER BY name")
    return tuple(found for row in rows if (found := _one(row)) is not None)


def insert_person(database: sqlite3.Connection, new: Person, *, password: str | None) -> None:
    """Add a person.

    Args:
        database: The caller's transaction.
        new: Who.
        password: The hash of his password; None for who has none here.

    Raises:
        sqlite3.IntegrityError: There is one of that name, or with that subject.
    """
    database.execute(
        "INSERT INTO people (name, source, subject, display, email, password, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (new.name, new.source, new.subject, new.display, new.email, password, new.created_at),
    )


def password_hash(database: sqlite3.Connection, name: str) -> str | None:
    """Return the hash of a person's password, or None where he has none here."""
    row = database.execute("SELECT password FROM people WHERE name = ?", (name,)).fetchone()
    return None if row is None else row["password"]


def set_password_hash(database: sqlite3.Connection, name: str, password: str) -> None:
    """Give a person another password, by its hash."""
    database.execute("UPDATE people SET password = ? WHERE name = ?", (password, name))


def set_state(database: sqlite3.Connection, name: str, state: str) -> None:
    """Make a person `active` or `disabled`."""
    database.execute("UPDATE people SET state = ? WHERE name = ?", (state, name))


def set_names(database: sqlite3.Connection, name: str, *, display: str, email: str) -> None:
    """Keep what a provider says that a person is called, and where he gets mail."""
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
    """Take no password of a person until a time; the count begins again."""
    database.execute("UPDATE people SET locked_until = ?, failed_logins = 0 WHERE name = ?", (until, name))


def clear_failures(database: sqlite3.Connection, name: str) -> None:
    """Forget wrong passwords and the lock that they led to."""
    database.execute("UPDATE people SET locked_until = NULL, failed_logins = 0 WHERE name = ?", (name,))


def grants_of(database: sqlite3.Connection, name: str) -> tuple[GivenGrant, ...]:
    """Return what a person was given, by role and site."""
    rows = database.execute(
        "SELECT role, site, given_by, given_at FROM grants WHERE person = ? ORDER BY role, site", (name,)
    )
    return tuple(GivenGrant(**dict(row)) for row in rows)


def insert_grant(database: sqlite3.Connection, name: str, new: GivenGrant) -> bool:
    """Give a person a role; return whether he did not have it."""
    done = database.execute(
        "INSERT INTO grants (person, role, site, given_by, given_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (name, new.role, new.site, new.given_by, new.given_at),
    )
    return done.rowcount == 1


def delete_grant(database: sqlite3.Connection, name: str, *, role: str, site: str) -> bool:
    """Take a role from a person; return whether he had it."""
    done = database.execute("DELETE FROM grants WHERE person = ? AND role = ? AND site = ?", (name, role, site))
    return done.rowcount == 1


def active_admins(database: sqlite3.Connection) -> frozenset[str]:
    """Return who is an admin and not disabled."""
    rows = database.execute(
        "SELECT DISTINCT name FROM people JOIN grants ON person = name WHERE role = 'admin' AND state = 'active'"
    )
    return frozenset(row["name"] for row in rows)


def roles_lost(database: sqlite3.Connection, name: str, role: str, sites: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return at which of some sites a person has not, or no longer, a role; None: he is disabled, or unknown.

    Args:
        database: A connection.
        name: His name.
        role: The role.
        sites: Names of sites; an empty one stands for what has no site, which takes the role everywhere.
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

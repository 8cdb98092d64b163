"""People of the service and what they were given: rows of `people` and `grants`. No person is ever deleted.

A password's hash is handed out by one function alone, so that no value which is printed or compared has it in it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

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

"""People whom a provider or a proxy signs in: entered at first sight, and their groups made into grants.

What follows from groups is marked with who said so, and follows them: what is no longer said is taken away. What was
given here besides stays. A name that is somebody else's here is never taken for his: `admin` at the provider is not
the admin of this service.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flashferry.service.errors import Forbidden
from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import shown
from flashferry.service.auditing import note
from flashferry.service.principal import ANONYMOUS, EVERYWHERE, SYSTEM, WHOLE_ROLES, Grant, Role
from flashferry.service.service import Service
from flashferry.store.service import people as rows
from flashferry.store.service.database import moment

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
RESERVED = frozenset({SYSTEM.name, ANONYMOUS, "oidc", "header"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPerson:
    """Somebody as a provider tells of him.

    Attributes:
        source: `oidc` or `header`.
        subject: What the provider knows him by, for ever.
        name: What he is to be called here, when he is seen first.
        display: His name for people.
        email: His address.
        grants: What follows from his groups; None: groups say nothing here, roles are given by an admin.
    """

    source: str
    subject: str
    name: str
    display: str = ""
    email: str = ""
    grants: frozenset[Grant] | None = None


def grants_for(groups: Iterable[str], roles: Mapping[str, tuple[str, ...]]) -> frozenset[Grant]:
    """Return what follows from a person's groups.

    Raises:
        ConfigInvalid: A group is given something that is no role.
    """
    return frozenset(grant_of(word) for group in set(groups) for word in roles.get(group, ()))


def grant_of(word: str) -> Grant:
    """Return the grant that `role` or `role@site` means.

    Raises:
        ConfigInvalid: There is no such role, no site behind `@`, or the role is not given by site.
    """
    name, at, site = word.partition("@")
    if name not in {role.value for role in Role}:
        raise ConfigInvalid(
            f"expected a role, found {name!r}", hint=f"Roles are {', '.join(Role)}; 'role@site' for one site alone"
        )
    if at and not site:
        # A variable of the shell that is not set must not make a role of one site one of all.
        raise ConfigInvalid(
            f"expected a site behind {word!r}, found none", hint=f"Give '{name}@SITE', or '{name}' alone for all sites"
        )
    grant = Grant(role=Role(name), site=site or EVERYWHERE)
    if grant.role in WHOLE_ROLES and grant.site != EVERYWHERE:
        raise ConfigInvalid(
            f"expected {name} to be given for all sites, found site {site!r}",
            hint=f"What {name} is about has no site: give '{name}' alone",
        )
    return grant


def told_grant(grant: Grant) -> dict[str, str]:
    """Return a grant as programs are told."""
    return {"role": grant.role.value, "site": grant.site}


def is_as_told(database: sqlite3.Connection, found: rows.Person, told: MappedPerson) -> bool:
    """Return whether nothing has to be written for what a provider says now of somebody."""
    if told.grants is None:
        return True
    had = {(one.role, one.site) for one in rows.grants_of(database, found.name) if one.given_by == told.source}
    local = {(one.role, one.site) for one in rows.grants_of(database, found.name) if one.given_by != told.source}
    return had == {(one.role.value, one.site) for one in told.grants} - local


def enter(service: Service, database: sqlite3.Connection, told: MappedPerson) -> rows.Person:
    """Return whom a provider means, entered where he is new, his grants as his groups say; within a transaction.

    Raises:
        ServiceError: His name cannot be had here, or is somebody else's.
    """
    found = rows.person_of(database, source=told.source, subject=told.subject)
    if found is None:
        found = _new(service, database, told)
    elif (told.display, told.email) != (found.display, found.email) and (told.display or told.email):
        rows.set_names(database, found.name, display=told.display, email=told.email)
    if not is_as_told(database, found, told):
        _follow(service, database, found, told)
    return found


def _new(service: Service, database: sqlite3.Connection, told: MappedPerson) -> rows.Person:
    if NAME.fullmatch(told.name) is None or told.name in RESERVED:
        raise Forbidden(
            f"expected a name of small letters, digits and . _ @ + -, found {shown(told.name[:64])!r}",
            hint="Have the provider send another claim or header for the name",
        )
    if rows.person(database, told.name) is not None:
        raise Forbidden(
            f"{told.name} is the name of somebody else here, so that nobody is signed in by it from outside",
            hint="Ask an admin: the local account needs another name, or the provider must send another one",
        )
    new = rows.Person(
        name=told.name,
        source=told.source,
        subject=told.subject,
        display=told.display,
        email=told.email,
        created_at=moment(service.now()),
    )
    rows.insert_person(database, new, password=None)
    note(service, database, SYSTEM, "user.made", f"user:{new.name}", after={"source": new.source})
    return new


def _follow(service: Service, database: sqlite3.Connection, found: rows.Person, told: MappedPerson) -> None:
    assert told.grants is not None
    given = rows.grants_of(database, found.name)
    wanted = {(one.role.value, one.site) for one in told.grants}
    before = sorted(f"{one.role}@{one.site}" for one in given)
    for one in given:
        if one.given_by == told.source and (one.role, one.site) not in wanted:
            rows.delete_grant(database, found.name, role=one.role, site=one.site)
    at = moment(service.now())
    for role, site in sorted(wanted):
        rows.insert_grant(
            database, found.name, rows.GivenGrant(role=role, site=site, given_by=told.source, given_at=at)
        )
    after = sorted(f"{one.role}@{one.site}" for one in rows.grants_of(database, found.name))
    note(service, database, SYSTEM, "user.granted", f"user:{found.name}", reason="groups", before=before, after=after)

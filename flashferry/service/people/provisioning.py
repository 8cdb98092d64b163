"""Users from a provider or proxy: added at their first sign-in, with grants from their groups.

Such grants are stored with their source and follow the groups; grants given by admins stay. A name that belongs to
another user is refused: `admin` at the provider is not the admin of this service.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
from flashferry.service.errors import Forbidden
from flashferry.service.principal import ANONYMOUS, EVERYWHERE, SYSTEM, WHOLE_ROLES, Grant, Role
from flashferry.service.service import Service
from flashferry.store.service import people as rows

NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
RESERVED = frozenset({SYSTEM.name, ANONYMOUS, "oidc", "header"})


class MappedPerson(Struct, frozen=True, kw_only=True):
    """A user as a provider describes one.

    Attributes:
        subject: The provider's permanent identifier.
        grants: Grants from groups; None: admins give roles.
    """

    source: str
    subject: str
    name: str
    display: str = ""
    email: str = ""
    grants: frozenset[Grant] | None = None


def grants_for(groups: Iterable[str], roles: Mapping[str, tuple[str, ...]]) -> frozenset[Grant]:
    """Return the grants of groups. Raises `ConfigInvalid` for a role that is not valid."""
    return frozenset(grant_of(word) for group in set(groups) for word in roles.get(group, ()))


def grant_of(word: str) -> Grant:
    """Parse `role` or `role@site`.

    Raises:
        ConfigInvalid: The role is unknown or not given by site, or there is no site after `@`.
    """
    name, at, site = word.partition("@")
    if name not in {role.value for role in Role}:
        raise ConfigInvalid(
            f"expected a role, found {name!r}", hint=f"Roles are {', '.join(Role)}; 'role@site' for one site alone"
        )
    if at and not site:
        # `role@` (an unset shell variable) must not become a role at all sites.
        raise ConfigInvalid(
            f"expected a site after {word!r}, found none", hint=f"Give '{name}@SITE', or '{name}' alone for all sites"
        )
    grant = Grant(role=Role(name), site=site or EVERYWHERE)
    if grant.role in WHOLE_ROLES and grant.site != EVERYWHERE:
        raise ConfigInvalid(
            f"expected {name} to be given for all sites, found site {site!r}",
            hint=f"What {name} is about has no site: give '{name}' alone",
        )
    return grant


def grant_json(grant: Grant) -> dict[str, str]:
    """Return a grant as JSON types."""
    return {"role": grant.role.value, "site": grant.site}


def is_up_to_date(database: sqlite3.Connection, found: rows.Person, details: MappedPerson) -> bool:
    """Return whether a user's stored name, address and grants are those of the provider."""
    if details.grants is None:
        return True
    had = {(one.role, one.site) for one in rows.grants_of(database, found.name) if one.given_by == details.source}
    local = {(one.role, one.site) for one in rows.grants_of(database, found.name) if one.given_by != details.source}
    return had == {(one.role.value, one.site) for one in details.grants} - local


def enter(service: Service, database: sqlite3.Connection, details: MappedPerson) -> rows.Person:
    """Return a provider's user with current grants, added if new; in the caller's transaction.

    Raises:
        Forbidden: The name is not valid, or belongs to another user, or the user is disabled.
    """
    found = rows.person_of(database, source=details.source, subject=details.subject)
    if found is None:
        found = _new(service, database, details)
    elif (details.display, details.email) != (found.display, found.email) and (details.display or details.email):
        rows.set_names(database, found.name, display=details.display, email=details.email)
    if found.state != rows.ACTIVE:
        raise Forbidden("expected an active user, found one who is disabled", hint="Ask an admin of the service")
    if not is_up_to_date(database, found, details):
        _follow(service, database, found, details)
    return found


def _new(service: Service, database: sqlite3.Connection, details: MappedPerson) -> rows.Person:
    if NAME.fullmatch(details.name) is None or details.name in RESERVED:
        raise Forbidden(
            f"expected a name of small letters, digits and . _ @ + -, found {sanitize(details.name[:64])!r}",
            hint="Have the provider send another claim or header for the name",
        )
    if rows.person(database, details.name) is not None:
        raise Forbidden(
            f"{details.name} is the name of another user here, so a provider cannot sign in by it",
            hint="Ask an admin: the local account needs another name, or the provider must send another one",
        )
    new = rows.Person(
        name=details.name,
        source=details.source,
        subject=details.subject,
        display=details.display,
        email=details.email,
        created_at=service.moment(),
    )
    rows.insert_person(database, new, password=None)
    service.note(database, SYSTEM, "user.made", f"user:{new.name}", after={"source": new.source})
    return new


def _follow(service: Service, database: sqlite3.Connection, found: rows.Person, details: MappedPerson) -> None:
    assert details.grants is not None
    given = rows.grants_of(database, found.name)
    requested = {(one.role.value, one.site) for one in details.grants}
    before = sorted(f"{one.role}@{one.site}" for one in given)
    for one in given:
        if one.given_by == details.source and (one.role, one.site) not in requested:
            rows.delete_grant(database, found.name, role=one.role, site=one.site)
    at = service.moment()
    for role, site in sorted(requested):
        rows.insert_grant(
            database, found.name, rows.GivenGrant(role=role, site=site, given_by=details.source, given_at=at)
        )
    after = sorted(f"{one.role}@{one.site}" for one in rows.grants_of(database, found.name))
    service.note(database, SYSTEM, "user.granted", f"user:{found.name}", reason="groups", before=before, after=after)

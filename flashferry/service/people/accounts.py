"""People entered, disabled and given roles, by an admin or from the command line; each change is in the audit with it.

Nobody is deleted: what he made and approved names him. The last admin is neither disabled nor demoted, by himself least
of all. An admin may give himself other roles, and the audit has it: no role holds another by itself.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from flashferry.service.errors import Conflict, InvalidRequest, NotFound, ServiceError
from flashferry.core.outside import shown
from flashferry.service.auditing import deciding, note
from flashferry.service.known_names import check_names, site_filters
from flashferry.service.people.passwords import Passwords
from flashferry.service.people.provisioning import NAME, RESERVED
from flashferry.service.principal import EVERYWHERE, WHOLE_ROLES, Actor, Grant
from flashferry.service.service import Service
from flashferry.store.service import people as rows
from flashferry.store.service.database import moment
from flashferry.store.service.people import GivenGrant, Person
from flashferry.store.service.sessions import end_sessions_of
from inventory.selection import Selection

DISABLED = "disabled"
MAPPED = frozenset({"oidc", "header"})
"""Who gave what follows from groups."""
_SITE = re.compile(r"[^\x00-\x20\x7f@,]{1,64}")
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPerson:
    """Somebody to be entered with a local account.

    Attributes:
        name: What he is known by: small letters, digits and `. _ @ + -`, at most 64.
        display: His name for people.
        email: His address.
        password: His password; None: he cannot sign in with one, and has tokens at most.
        grants: What he is given at once.
    """

    name: str
    display: str = ""
    email: str = ""
    password: str | None = field(default=None, repr=False)
    grants: tuple[Grant, ...] = ()


def add_person(service: Service, actor: Actor, new: NewPerson, passwords: Passwords) -> Person:
    """Enter somebody.

    Raises:
        ServiceError: The name, the password or a grant will not do, or there is one of that name (409).
    """
    if NAME.fullmatch(new.name) is None or new.name in RESERVED:
        raise _wrong(
            f"expected a name of small letters, digits and . _ @ + - that is none of {', '.join(sorted(RESERVED))}, "
            f"found {shown(new.name[:64])!r}",
            "Choose another name",
        )
    if len(new.display) > _MOST_TEXT or len(new.email) > _MOST_TEXT:
        raise _wrong(f"expected names and addresses of at most {_MOST_TEXT} characters", "Shorten them")
    for grant in new.grants:
        check_grant(grant)
    _check_sites(service, new.grants)
    hash_ = _hashed(new.password, new.name, passwords) if new.password is not None else None
    person = Person(
        name=new.name,
        source=rows.LOCAL,
        display=new.display,
        email=new.email,
        created_at=moment(service.now()),
        has_password=hash_ is not None,
    )
    with _deciding(service, actor, "user.made", new.name) as database:
        if rows.person(database, new.name) is not None:
            raise Conflict(f"there is somebody of the name {new.name} already", hint="Choose another name")
        rows.insert_person(database, person, password=hash_)
        for grant in new.grants:
            _give(service, database, actor, new.name, grant)
        note(
            service,
            database,
            actor,
            "user.made",
            f"user:{new.name}",
            after={"source": rows.LOCAL, "has_password": hash_ is not None, "grants": _words(database, new.name)},
        )
    return person


def set_password(
    service: Service, actor: Actor, name: str, password: str, passwords: Passwords, *, but_session: str = ""
) -> None:
    """Give somebody another password, undo a lock, and end his sessions but one; tokens stay.

    Args:
        service: The service.
        actor: Who does it.
        name: Whose password it is.
        password: The new one.
        passwords: What hashes it.
        but_session: Hash of the session that goes on.

    Raises:
        ServiceError: There is nobody of that name (404), he signs in elsewhere (409), or the password will not do.
    """
    hash_ = _hashed(password, name, passwords)
    with _deciding(service, actor, "user.password", name) as database:
        if found_person(database, name).source != rows.LOCAL:
            raise Conflict(f"{name} signs in elsewhere, and has no password here", hint="Change it where he signs in")
        rows.set_password_hash(database, name, hash_)
        rows.clear_failures(database, name)
        ended = end_sessions_of(database, name, but=but_session)
        note(service, database, actor, "user.password", f"user:{name}", after={"sessions_ended": ended})


def set_active(service: Service, actor: Actor, name: str, *, is_active: bool, reason: str = "") -> None:
    """Enable or disable somebody; with the next request his sessions and tokens are worth nothing.

    Raises:
        ServiceError: There is nobody of that name (404), or he is the last admin (409).
    """
    verb = "user.enabled" if is_active else "user.disabled"
    with _deciding(service, actor, verb, name) as database:
        before = found_person(database, name).state
        admins = rows.active_admins(database)
        rows.set_state(database, name, rows.ACTIVE if is_active else DISABLED)
        rows.clear_failures(database, name)
        if not is_active:
            end_sessions_of(database, name)
            _check_admin_left(database, admins)
        after = rows.ACTIVE if is_active else DISABLED
        note(service, database, actor, verb, f"user:{name}", reason=reason, before=before, after=after)


def give_grants(service: Service, actor: Actor, name: str, grants: Iterable[Grant]) -> None:
    """Give somebody roles besides those that he has.

    Raises:
        ServiceError: There is nobody of that name (404), or a grant will not do.
    """
    wanted = tuple(grants)
    _check_sites(service, wanted)
    with _changing_grants(service, actor, name) as database:
        for grant in wanted:
            _give(service, database, actor, name, grant)


def take_grants(service: Service, actor: Actor, name: str, grants: Iterable[Grant]) -> None:
    """Take roles from somebody; what he does not have is passed over.

    Raises:
        ServiceError: There is nobody of that name (404), he is the last admin, or a role follows from his groups (409).
    """
    wanted = tuple(grants)
    with _changing_grants(service, actor, name) as database:
        for grant in wanted:
            _take(database, name, grant)


def set_grants(service: Service, actor: Actor, name: str, grants: Iterable[Grant]) -> None:
    """Give somebody these roles and take the others; what follows from his groups stays as it is.

    Raises:
        ServiceError: There is nobody of that name (404), a grant will not do, or he is the last admin (409).
    """
    wanted = frozenset(grants)
    with service.database.reading() as database:
        had_sites = {one.site for one in rows.grants_of(database, name)}
    # A site that was given up meanwhile must not keep the other roles from being changed.
    _check_sites(service, (one for one in wanted if one.site not in had_sites))
    with _changing_grants(service, actor, name) as database:
        for had in rows.grants_of(database, name):
            if had.given_by not in MAPPED and (had.role, had.site) not in {(one.role, one.site) for one in wanted}:
                rows.delete_grant(database, name, role=had.role, site=had.site)
        for grant in sorted(wanted, key=lambda one: (one.role, one.site)):
            _give(service, database, actor, name, grant)


def check_grant(grant: Grant) -> None:
    """Check that a grant can be given.

    Raises:
        ServiceError: Its site is none, or the role is not given by site.
    """
    if grant.site != EVERYWHERE and _SITE.fullmatch(grant.site) is None:
        raise _wrong(f"expected a site or '*', found {shown(grant.site[:64])!r}", "Name a site as the inventory does")
    if grant.site != EVERYWHERE and grant.role in WHOLE_ROLES:
        raise _wrong(
            f"expected {grant.role} for all sites, found it for {shown(grant.site)!r}",
            "What this role is about has no site: give it for '*'",
        )


def _check_sites(service: Service, grants: Iterable[Grant]) -> None:
    """Check that the inventory has the sites of some grants: a role at a misspelt one would be worth nothing.

    Raises:
        ServiceError: It has not.
    """
    sites = [grant.site for grant in grants if grant.site != EVERYWHERE]
    check_names(service, Selection(filters=site_filters(dict.fromkeys(sites))))


def found_person(database: sqlite3.Connection, name: str) -> Person:
    """Return one of the people; the system is none.

    Raises:
        ServiceError: There is nobody of that name (404).
    """
    found = rows.person(database, name)
    if found is None or found.name in RESERVED:
        raise NotFound(f"there is nobody of the name {shown(name[:64])!r}", hint="GET /api/v1/users lists people")
    return found


@contextmanager
def _changing_grants(service: Service, actor: Actor, name: str) -> Iterator[sqlite3.Connection]:
    with _deciding(service, actor, "user.granted", name) as database:
        found_person(database, name)
        before, admins = _words(database, name), rows.active_admins(database)
        yield database
        _check_admin_left(database, admins)
        after = _words(database, name)
        if after != before:
            note(service, database, actor, "user.granted", f"user:{name}", before=before, after=after)


def _deciding(service: Service, actor: Actor, action: str, name: str) -> AbstractContextManager[sqlite3.Connection]:
    return deciding(service, actor, action, f"user:{shown(name[:64])}")


def _check_admin_left(database: sqlite3.Connection, before: frozenset[str]) -> None:
    if before and not rows.active_admins(database):
        raise Conflict(
            "expected an admin to be left, found that this was the last one", hint="Make somebody else an admin first"
        )


def _give(service: Service, database: sqlite3.Connection, actor: Actor, name: str, grant: Grant) -> None:
    check_grant(grant)
    given = GivenGrant(role=grant.role.value, site=grant.site, given_by=actor.name, given_at=moment(service.now()))
    rows.insert_grant(database, name, given)


def _take(database: sqlite3.Connection, name: str, grant: Grant) -> None:
    for had in rows.grants_of(database, name):
        if (had.role, had.site) == (grant.role.value, grant.site) and had.given_by in MAPPED:
            raise Conflict(
                f"{grant.role} at {shown(grant.site)} follows from the groups that {name} is in",
                hint="Take him out of the group where he signs in, or map it to another role",
            )
    rows.delete_grant(database, name, role=grant.role.value, site=grant.site)


def _words(database: sqlite3.Connection, name: str) -> list[str]:
    return [f"{one.role}@{one.site}" for one in rows.grants_of(database, name)]


def _hashed(password: str, name: str, passwords: Passwords) -> str:
    passwords.check(password, name=name)
    return passwords.hash(password)


def _wrong(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)

"""Changes to users, their roles and tokens; each is in the audit."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from flashferry.core.redaction import keep_secret, sanitize
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, listed
from flashferry.service.known_names import check_sites
from flashferry.service.people.identity import Identity, digest_of, new_secret
from flashferry.service.people.provisioning import NAME, RESERVED
from flashferry.service.principal import EVERYWHERE, WHOLE_ROLES, Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.store.service import people as rows
from flashferry.store.service.people import (
    GivenGrant,
    Person,
    TokenRow,
    all_tokens,
    end_sessions_of,
    insert_token,
    revoke_token,
    tokens_of,
)

if TYPE_CHECKING:
    from flashferry.service.people.sign_in import Passwords

DISABLED = "disabled"
MAPPED = frozenset({"oidc", "header"})
"""Givers of roles that follow from groups."""
_SITE = re.compile(r"[^\x00-\x20\x7f@,]{1,64}")
_MOST_TEXT = 200
_PASSWORD_BYTES = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPerson:
    """A user with a local account to be added.

    Attributes:
        name: Lower-case letters, digits and `. _ @ + -`, at most 64 characters.
        password: None: no sign-in by password, tokens only.
    """

    name: str
    display: str = ""
    email: str = ""
    password: str | None = field(default=None, repr=False)
    grants: tuple[Grant, ...] = ()


def made_password() -> str:
    """Return a random password of 24 characters."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def passwords_of(service: Service) -> Passwords:
    """Return the hasher of passwords with a service's settings."""
    # Late: it needs the extra `service`, which the help of the commands about users does not.
    from flashferry.service.people.sign_in import Passwords

    return Passwords(service.settings.people)


def add_person(service: Service, actor: Actor, new: NewPerson, passwords: Passwords) -> Person:
    """Add a user.

    Raises:
        InvalidRequest: Name, password or a grant is not valid.
        Conflict: The name is taken.
    """
    if NAME.fullmatch(new.name) is None or new.name in RESERVED:
        raise _wrong(
            f"expected a name of small letters, digits and . _ @ + - that is none of {', '.join(sorted(RESERVED))}, "
            f"found {sanitize(new.name[:64])!r}",
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
        created_at=service.moment(),
        has_password=hash_ is not None,
    )
    with _deciding(service, actor, "user.made", new.name) as database:
        if rows.person(database, new.name) is not None:
            raise Conflict(f"there is a user of the name {new.name} already", hint="Choose another name")
        rows.insert_person(database, person, password=hash_)
        for grant in new.grants:
            _give(service, database, actor, new.name, grant)
        service.note(
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
    """Set a user's password, remove a lock, and end all sessions but `but_session`; tokens stay.

    Raises:
        NotFound: There is no such user.
        Conflict: The user signs in by a provider or a proxy.
        InvalidRequest: The password is not valid.
    """
    hash_ = _hashed(password, name, passwords)
    with _deciding(service, actor, "user.password", name) as database:
        if found_person(database, name).source != rows.LOCAL:
            raise Conflict(f"{name} signs in elsewhere, and has no password here", hint="Change it where they sign in")
        rows.set_password_hash(database, name, hash_)
        rows.clear_failures(database, name)
        ended = end_sessions_of(database, name, but=but_session)
        service.note(database, actor, "user.password", f"user:{name}", after={"sessions_ended": ended})


def set_active(service: Service, actor: Actor, name: str, *, is_active: bool, reason: str = "") -> None:
    """Enable or disable a user; a disabled one's sessions and tokens are refused from the next request on.

    Raises:
        NotFound, Conflict: There is no such user, or it is the last admin.
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
        service.note(database, actor, verb, f"user:{name}", reason=reason, before=before, after=after)


def give_grants(service: Service, actor: Actor, name: str, grants: Iterable[Grant]) -> None:
    """Add roles to a user. Raises `NotFound`; `InvalidRequest` for a grant that is not valid."""
    requested = tuple(grants)
    _check_sites(service, requested)
    with _changing_grants(service, actor, name) as database:
        for grant in requested:
            _give(service, database, actor, name, grant)


def take_grants(service: Service, actor: Actor, name: str, grants: Iterable[Grant]) -> None:
    """Remove roles from a user; roles that the user lacks are ignored.

    Raises:
        NotFound, Conflict: There is no such user, it is the last admin, or a role comes from groups.
    """
    requested = tuple(grants)
    with _changing_grants(service, actor, name) as database:
        for grant in requested:
            _take(database, name, grant)


def set_grants(service: Service, actor: Actor, name: str, grants: Iterable[Grant]) -> None:
    """Replace the roles of a user; roles that come from groups stay.

    Raises:
        NotFound, InvalidRequest, Conflict: There is no such user, a grant is not valid, or it is the last admin.
    """
    requested = frozenset(grants)
    with service.database.reading() as database:
        had_sites = {one.site for one in rows.grants_of(database, name)}
    # Check new roles only: a site removed meanwhile must not block a change of other roles.
    _check_sites(service, (one for one in requested if one.site not in had_sites))
    with _changing_grants(service, actor, name) as database:
        for had in rows.grants_of(database, name):
            if had.given_by not in MAPPED and (had.role, had.site) not in {(one.role, one.site) for one in requested}:
                rows.delete_grant(database, name, role=had.role, site=had.site)
        for grant in sorted(requested, key=lambda one: (one.role, one.site)):
            _give(service, database, actor, name, grant)


def check_grant(grant: Grant) -> None:
    """Check that a grant is valid. Raises `InvalidRequest`."""
    if grant.site != EVERYWHERE and _SITE.fullmatch(grant.site) is None:
        raise _wrong(
            f"expected a site or '*', found {sanitize(grant.site[:64])!r}", "Name a site as the inventory does"
        )
    if grant.site != EVERYWHERE and grant.role in WHOLE_ROLES:
        raise _wrong(
            f"expected {grant.role} for all sites, found it for {sanitize(grant.site)!r}",
            "What this role is about has no site: give it for '*'",
        )


def _check_sites(service: Service, grants: Iterable[Grant]) -> None:
    """Check that the inventory has the sites of grants: a role at a misspelled site would have no effect."""
    sites = [grant.site for grant in grants if grant.site != EVERYWHERE]
    check_sites(service, sites)


def found_person(database: sqlite3.Connection, name: str) -> Person:
    """Return a user; the system's own row is none. Raises `NotFound`."""
    found = rows.person(database, name)
    if found is None or found.name in RESERVED:
        raise NotFound(f"there is no user of the name {sanitize(name[:64])!r}", hint=listed("users"))
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
            service.note(database, actor, "user.granted", f"user:{name}", before=before, after=after)


def _deciding(service: Service, actor: Actor, action: str, name: str) -> AbstractContextManager[sqlite3.Connection]:
    return service.deciding(actor, action, f"user:{sanitize(name[:64])}")


def _check_admin_left(database: sqlite3.Connection, before: frozenset[str]) -> None:
    if before and not rows.active_admins(database):
        raise Conflict(
            "expected an admin to be left, found that this was the last one", hint="Make another user an admin first"
        )


def _give(service: Service, database: sqlite3.Connection, actor: Actor, name: str, grant: Grant) -> None:
    check_grant(grant)
    given = GivenGrant(role=grant.role.value, site=grant.site, given_by=actor.name, given_at=service.moment())
    rows.insert_grant(database, name, given)


def _take(database: sqlite3.Connection, name: str, grant: Grant) -> None:
    for had in rows.grants_of(database, name):
        if (had.role, had.site) == (grant.role.value, grant.site) and had.given_by in MAPPED:
            raise Conflict(
                f"{grant.role} at {sanitize(grant.site)} follows from the groups that {name} is in",
                hint="Remove the user from the group, or map it to another role",
            )
    rows.delete_grant(database, name, role=grant.role.value, site=grant.site)


def _words(database: sqlite3.Connection, name: str) -> list[str]:
    return [f"{one.role}@{one.site}" for one in rows.grants_of(database, name)]


def _hashed(password: str, name: str, passwords: Passwords) -> str:
    passwords.check(password, name=name)
    return passwords.hash(password)


def _wrong(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)


PREFIX = "ffy_"
"""Recognisable for people and for secret scanners."""
DAY_S = 86400.0
_MOST_NAME = 100
_MOST_TOKENS = 50
"""Active tokens of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token: its row, and its secret text, which is not stored."""

    row: TokenRow
    text: str = field(repr=False)


def demand_person(actor: Actor) -> None:
    """Refuse callers that use a token. Raises `Forbidden`."""
    if actor.via is Via.TOKEN:
        raise Forbidden(
            "expected a user signed in by a browser, found a token",
            hint="Sign in with a browser: a token can neither create tokens nor change a password",
        )


def end_other_sessions(service: Service, identity: Identity) -> None:
    """End all other sessions of the caller. Raises `Forbidden` for a token."""
    demand_person(identity.actor)
    name = identity.actor.name
    with service.database.writing() as database:
        ended = rows.end_sessions_of(database, name, but=identity.session)
        service.note(database, identity.actor, "sessions.ended", f"user:{name}", after={"sessions": ended})


def make_token(
    service: Service, actor: Actor, *, name: str, days: float, limits: Collection[Grant] | None = None
) -> NewToken:
    """Create a token for the caller, valid for `days`; `limits` None: all grants of the user.

    Raises:
        Forbidden: The caller used a token.
        InvalidRequest, Conflict: A value is not valid, or the user has too many.
    """
    demand_person(actor)
    most_days = service.settings.people.token_s / DAY_S
    if not 0 < len(name.strip()) <= _MOST_NAME or not name.isprintable():
        raise _wrong(
            f"expected a name of 1 to {_MOST_NAME} characters, found {len(name.strip())}", "Say what it is for"
        )
    if not 0 < days <= most_days:
        raise _wrong(f"expected 1 to {most_days:.0f} days, found {days:g}", "Create another one when it expires")
    for limit in limits or ():
        check_grant(limit)
    row = TokenRow(
        token_id=secrets.token_hex(4),
        person=actor.name,
        name=name.strip(),
        grants=None if limits is None else json.dumps(sorted([one.role.value, one.site] for one in set(limits))),
        created_at=service.moment(),
        expires_at=service.moment(timedelta(days=days)),
    )
    text = PREFIX + new_secret()
    keep_secret(text, is_random=True)
    with service.database.writing() as database:
        good = [one for one in tokens_of(database, actor.name) if is_good(one, service.moment())]
        if len(good) >= _MOST_TOKENS:
            raise Conflict(f"expected fewer than {_MOST_TOKENS} tokens, found {len(good)}", hint="Revoke some")
        insert_token(database, row, hash_=digest_of(text))
        details = {"name": row.name, "expires_at": row.expires_at, "limits": row.grants}
        service.note(database, actor, "token.made", f"token:{row.token_id}", after=details)
    return NewToken(row=row, text=text)


def take_back(service: Service, actor: Actor, token_id: str) -> None:
    """Revoke a token of the caller, or any for an admin; refused from the next request on. Raises `NotFound`."""
    with service.database.writing() as database:
        mine = tokens_of(database, actor.name) if not actor.has({Role.ADMIN}) else all_tokens(database)
        row = next((one for one in mine if one.token_id == token_id), None)
        if row is not None and revoke_token(database, token_id, at=service.moment()):
            details = {"name": row.name, "person": row.person}
            service.note(database, actor, "token.revoked", f"token:{token_id}", before=details)
            return
    object_ = f"token:{sanitize(token_id[:16])}"
    service.note_refusal(actor, "token.revoked", object_, "there is no such token")
    raise NotFound("expected the id of an active token, found none", hint=listed("tokens"))


def is_good(row: TokenRow, at: str) -> bool:
    """Return whether a token is neither expired nor revoked."""
    return row.revoked_at is None and row.expires_at > at

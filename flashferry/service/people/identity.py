"""Identification of the caller by token, trusted proxy or session cookie; sessions."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from flashferry.core.redaction import keep_secret
from flashferry.core.units import counted
from flashferry.service.errors import BadForm, ServiceError, Unauthenticated
from flashferry.service.people.provisioning import MappedPerson, enter, grants_for, is_up_to_date
from flashferry.service.principal import ANONYMOUS, Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.service.settings import ProxySettings, ServiceSettings
from flashferry.store.service import people as rows
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.people import (
    SessionRow,
    TokenRow,
    end_session,
    forget_ended_sessions,
    insert_session,
    session,
    token,
    touch_session,
    touch_token,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_ID_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A new session: its id and its CSRF token, both secret."""

    session_id: str = field(repr=False)
    csrf: str = field(repr=False)


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a session id or token in hexadecimal, which is stored in its place."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return 256 random bits as text, which logs mask from now on."""
    made = secrets.token_urlsafe(_ID_BYTES)
    keep_secret(made, is_random=True)
    return made


def begin_session(
    service: Service, database: sqlite3.Connection, name: str, *, address: str, before: str | None = None
) -> NewSession:
    """Start a session and end the browser's previous one (`before`), in the caller's transaction."""
    now = service.now()
    forget_ended_sessions(database, at=moment(now))
    if before:
        end_session(database, digest_of(before))
    made = NewSession(session_id=new_secret(), csrf=new_secret())
    row = SessionRow(
        hash=digest_of(made.session_id),
        person=name,
        csrf=made.csrf,
        created_at=moment(now),
        expires_at=moment(now + timedelta(seconds=service.settings.session_s)),
        seen_at=moment(now),
        address=address,
    )
    insert_session(database, row)
    return made


def cookie_name(settings: ServiceSettings) -> str:
    """Return the name of the session cookie."""
    return "__Host-flashferry" if settings.is_secure else "flashferry"


def set_cookie(response: Response, settings: ServiceSettings, session_id: str) -> None:
    """Set the session cookie."""
    response.set_cookie(
        cookie_name(settings),
        session_id,
        max_age=int(settings.session_s),
        path="/",
        secure=settings.is_secure,
        httponly=True,
        samesite="lax",
    )


def drop_cookie(response: Response, settings: ServiceSettings) -> None:
    """Delete the session cookie."""
    response.delete_cookie(cookie_name(settings), path="/", secure=settings.is_secure, httponly=True, samesite="lax")


TOUCH_S = 60.0
"""How often the last use of a session or token is stored."""
CLOCK_SLACK_S = 300.0
"""A clock set back by less ends no session."""
_FOR_EVER = "9999-12-31T00:00:00.000Z"
_SIGN_IN = "Sign in, or send 'Authorization: Bearer' with a token"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuth:
    """Credentials and origin of a request.

    Attributes:
        address: Client address; for a request through a trusted proxy, as the proxy reports it.
        is_watch: Whether a page's script sent it; such requests do not keep a session active.
    """

    address: str
    bearer: str | None = field(default=None, repr=False)
    session_id: str | None = field(default=None, repr=False)
    user: str | None = None
    groups: tuple[str, ...] = ()
    is_watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identified caller.

    Attributes:
        csrf: CSRF token of forms; empty without a session.
        is_idle: Whether the session was idle too long to change anything.
    """

    actor: Actor
    csrf: str = field(default="", repr=False)
    session: str = field(default="", repr=False)
    is_idle: bool = False


def anonymous(address: str) -> Actor:
    """Return the actor for a request without credentials."""
    return Actor(name=ANONYMOUS, via=Via.NONE, address=address)


def auth_of(request: Request, service: Service) -> RequestAuth:
    """Return credentials and origin of a request. Raises `BadForm` if a header of the proxy is present twice."""
    proxy = service.settings.proxy
    peer = request.client.host if request.client is not None else ""
    is_proxy = _is_within(peer, proxy)
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    user = _once(request, proxy.user_header) if is_proxy and proxy.user_header else None
    groups = _once(request, proxy.groups_header) if user and proxy.groups_header else None
    return RequestAuth(
        address=_forwarded(request, proxy) or peer if is_proxy else peer,
        bearer=bearer.strip() if scheme.lower() == "bearer" else None,
        session_id=request.cookies.get(cookie_name(service.settings)),
        user=user or None,
        groups=tuple(word.strip() for word in (groups or "").split(",") if word.strip()),
        is_watch="text/event-stream" in request.headers.get("accept", "") or "x-watch" in request.headers,
    )


def is_scraper(request: Request, asked: RequestAuth, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Return whether a request without credentials comes from one of the networks.

    A request through an untrusted proxy does not count: it can come from anywhere.
    """
    is_forwarded = "x-forwarded-for" in request.headers or "forwarded" in request.headers
    peer = request.client.host if request.client is not None else ""
    is_visible_to_caller = asked.bearer is not None or asked.session_id is not None or asked.user is not None
    return not is_visible_to_caller and not (is_forwarded and asked.address == peer) and _is_in(asked.address, networks)


def identify(service: Service, asked: RequestAuth) -> Identity:
    """Identify the caller by token, proxy header or session. Raises `Unauthenticated`."""
    if asked.bearer is not None:
        return _by_token(service, asked, asked.bearer)
    if asked.user is not None:
        return _by_header(service, asked, asked.user)
    if asked.session_id:
        return _by_session(service, asked, asked.session_id)
    raise _unknown("expected a signed-in user, found none")


def token_grants(row: TokenRow, has: frozenset[Grant]) -> frozenset[Grant]:
    """Return the grants of a token: the intersection of its limits and its user's present grants."""
    if row.grants is None:
        return has
    limited = (Grant(role=Role(role), site=site) for role, site in json.loads(row.grants))
    return frozenset(both for one in limited for own in has if (both := one.within(own)) is not None)


def grants(database: sqlite3.Connection, name: str) -> frozenset[Grant]:
    """Return the grants of a user."""
    return frozenset(Grant(role=Role(one.role), site=one.site) for one in rows.grants_of(database, name))


def _by_token(service: Service, asked: RequestAuth, shown: str) -> Identity:
    now = service.now()
    with service.database.reading() as database:
        row = token(database, digest_of(shown), at=moment(now))
        has = grants(database, row.person) if row is not None else frozenset()
    if row is None:
        raise _unknown("expected an active token, found one that is unknown, expired or revoked")
    keep_secret(shown, is_random=True)
    if row.last_used_at is None or not _is_lately(service, row.last_used_at):
        with _ignoring_full_disk(), service.database.writing() as database:
            touch_token(database, row.token_id, at=moment(now))
    return Identity(actor=Actor(name=row.person, via=Via.TOKEN, address=asked.address, grants=token_grants(row, has)))


def _by_session(service: Service, asked: RequestAuth, shown: str) -> Identity:
    with service.database.reading() as database:
        row = session(database, digest_of(shown), at=service.moment())
        has = grants(database, row.person) if row is not None else frozenset()
    if row is None:
        raise _unknown("expected a session that lasts, found one that is unknown or over")
    keep_secret(shown, is_random=True)
    actor = Actor(name=row.person, via=Via.SESSION, address=asked.address, grants=has)
    return _in_session(service, asked, row, actor)


def _by_header(service: Service, asked: RequestAuth, user: str) -> Identity:
    proxy = service.settings.proxy
    follows = grants_for(asked.groups, proxy.roles) if proxy.groups_header else None
    details = MappedPerson(source="header", subject=user, name=user.lower(), grants=follows)
    now = service.moment()
    with service.database.reading() as database:
        found = rows.person_of(database, source="header", subject=user)
        is_known = found is not None and is_up_to_date(database, found, details)
        row = session(database, _header_session(user), at=now) if is_known else None
        has = grants(database, found.name) if found is not None else frozenset()
    if found is not None and found.state != rows.ACTIVE:
        raise _unknown("expected an active user, found one who is disabled")
    if row is None:
        with service.database.writing() as database:
            found = enter(service, database, details)
            has = grants(database, found.name)
            row = session(database, _header_session(user), at=now) or _stand_for(database, found.name, user, asked, now)
    actor = Actor(name=row.person, via=Via.HEADER, address=asked.address, grants=has)
    return _in_session(service, asked, row, actor)


def _header_session(user: str) -> str:
    """Return the session key of a user signed in by a proxy; it cannot equal the digest of a cookie."""
    return f"header:{user}"


def _stand_for(database: sqlite3.Connection, name: str, user: str, asked: RequestAuth, now: str) -> SessionRow:
    row = SessionRow(
        hash=_header_session(user),
        person=name,
        csrf=new_secret(),
        created_at=now,
        expires_at=_FOR_EVER,
        seen_at=now,
        address=asked.address,
    )
    insert_session(database, row)
    return row


def _in_session(service: Service, asked: RequestAuth, row: SessionRow, actor: Actor) -> Identity:
    keep_secret(row.csrf, is_random=True)
    past_s = (service.now() - moment_of(row.seen_at)).total_seconds()
    if actor.via is Via.SESSION and past_s < -CLOCK_SLACK_S:
        # It would last longer than a session is allowed to.
        raise _unknown("expected a session of the past, found one from the future: the clock was set back")
    is_idle = actor.via is Via.SESSION and past_s > service.settings.idle_s
    # After the idle time another person may sit at the browser: changes need a new sign-in.
    if not is_idle and not asked.is_watch and past_s > min(TOUCH_S, service.settings.idle_s / 4):
        with _ignoring_full_disk(), service.database.writing() as database:
            touch_session(database, row.hash, at=service.moment())
    return Identity(actor=actor, csrf=row.csrf, session=row.hash, is_idle=is_idle)


def _ignoring_full_disk() -> AbstractContextManager[None]:
    """Return a context manager that ignores a full disk, on which reading must still work."""
    return suppress(sqlite3.OperationalError)


def _is_lately(service: Service, at: str) -> bool:
    return timedelta() <= service.now() - moment_of(at) < timedelta(seconds=TOUCH_S)


def _unknown(sentence: str) -> ServiceError:
    return Unauthenticated(sentence, hint=_SIGN_IN)


def _once(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise BadForm(
            f"expected the header {name} once, found it {counted(len(values), 'time')}",
            hint="Have the proxy replace what clients send under that name, not add to it",
        )
    return values[0].strip() if values else None


def _forwarded(request: Request, proxy: ProxySettings) -> str:
    """Return the client address that a proxy reports: the last one in the header that is not a proxy of ours."""
    said = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    for one in reversed([word.strip() for word in said if word.strip()]):
        if _parsed(one) is None:
            return ""
        if not _is_within(one, proxy):
            return one
    return ""


def _is_within(address: str, proxy: ProxySettings) -> bool:
    return _is_in(address, proxy.networks)


def _is_in(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in networks)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed

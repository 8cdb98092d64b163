"""Tokens for programs: shown once, stored as a digest, with at most the present grants of their user."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from flashferry.core.outside import keep_secret, shown
from flashferry.service.auditing import note, note_refusal
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, listed
from flashferry.service.people.accounts import check_grant
from flashferry.service.people.sessions import digest_of, new_secret
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.sessions import (
    TokenRow,
    all_tokens,
    insert_token,
    revoke_token,
    tokens_of,
)

PREFIX = "ffy_"
"""Recognisable for people and for secret scanners."""
DAY_S = 86400.0
_MOST_NAME = 100
_MOST_TOKENS = 50
"""Active tokens of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token: its row, and its text, a secret shown this once."""

    row: TokenRow
    text: str = field(repr=False)


def demand_person(actor: Actor) -> None:
    """Refuse tokens. Raises `Forbidden`."""
    if actor.via is Via.TOKEN:
        raise Forbidden(
            "expected a user signed in by a browser, found a token",
            hint="Sign in with a browser: a token can neither create tokens nor change a password",
        )


def make_token(
    service: Service, actor: Actor, *, name: str, days: float, limits: Collection[Grant] | None = None
) -> NewToken:
    """Create a token for the caller, for some days; `limits` None: all that its user has.

    Raises:
        Forbidden: The caller used a token.
        InvalidRequest, Conflict: A value is not valid, or the user has too many.
    """
    demand_person(actor)
    now = service.now()
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
        created_at=moment(now),
        expires_at=moment(now + timedelta(days=days)),
    )
    text = PREFIX + new_secret()
    keep_secret(text, is_random=True)
    with service.database.writing() as database:
        good = [one for one in tokens_of(database, actor.name) if is_good(one, moment(now))]
        if len(good) >= _MOST_TOKENS:
            raise Conflict(f"expected fewer than {_MOST_TOKENS} tokens, found {len(good)}", hint="Revoke some")
        insert_token(database, row, hash_=digest_of(text))
        details = {"name": row.name, "expires_at": row.expires_at, "limits": row.grants}
        note(service, database, actor, "token.made", f"token:{row.token_id}", after=details)
    return NewToken(row=row, text=text)


def take_back(service: Service, actor: Actor, token_id: str) -> None:
    """Revoke a token of the caller, or any for an admin; it is invalid from the next request on. Raises `NotFound`."""
    with service.database.writing() as database:
        mine = tokens_of(database, actor.name) if not actor.has({Role.ADMIN}) else all_tokens(database)
        row = next((one for one in mine if one.token_id == token_id), None)
        if row is not None and revoke_token(database, token_id, at=moment(service.now())):
            details = {"name": row.name, "person": row.person}
            note(service, database, actor, "token.revoked", f"token:{token_id}", before=details)
            return
    object_ = f"token:{shown(token_id[:16])}"
    note_refusal(service, actor, "token.revoked", object_, "there is no such token")
    raise NotFound("expected the id of an active token, found none", hint=listed("tokens"))


def is_good(row: TokenRow, at: str) -> bool:
    """Return whether a token is neither expired nor revoked."""
    return row.revoked_at is None and row.expires_at > at


def _wrong(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)

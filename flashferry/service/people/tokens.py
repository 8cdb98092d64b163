"""Tokens for programs: shown once, kept as a digest, with at most what their person has at each moment."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, listed
from flashferry.core.outside import keep_secret, shown
from flashferry.service.auditing import note, note_refusal
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
"""So that who finds one in a file, or a scanner that looks for them, knows what it is."""
DAY_S = 86400.0
_MOST_NAME = 100
_MOST_TOKENS = 50
"""So many that are good, for each person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token just made: the only time that it is shown.

    Attributes:
        row: What is kept of it.
        text: The token, a secret.
    """

    row: TokenRow
    text: str = field(repr=False)


def demand_person(actor: Actor) -> None:
    """Refuse what only somebody himself does, and none of his programs.

    Raises:
        ServiceError: A token was shown.
    """
    if actor.via is Via.TOKEN:
        raise Forbidden(
            "expected somebody who signed in himself, found a token",
            hint="Sign in with a browser: a token makes no tokens, and changes no password",
        )


def make_token(
    service: Service, actor: Actor, *, name: str, days: float, limits: Collection[Grant] | None = None
) -> NewToken:
    """Make a token for whoever asks.

    Args:
        service: The service.
        actor: Who asks.
        name: What he calls it.
        days: How long it lasts.
        limits: What it is limited to; None: it has all that its person has.

    Raises:
        ServiceError: A token asks, he has too many, or what was given will not do.
    """
    demand_person(actor)
    now = service.now()
    most_days = service.settings.people.token_s / DAY_S
    if not 0 < len(name.strip()) <= _MOST_NAME or not name.isprintable():
        raise _wrong(
            f"expected a name of 1 to {_MOST_NAME} characters, found {len(name.strip())}", "Say what it is for"
        )
    if not 0 < days <= most_days:
        raise _wrong(f"expected 1 to {most_days:.0f} days, found {days:g}", "Make another one when it is over")
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
            raise Conflict(f"expected fewer than {_MOST_TOKENS} tokens, found {len(good)}", hint="Take some back")
        insert_token(database, row, hash_=digest_of(text))
        told = {"name": row.name, "expires_at": row.expires_at, "limits": row.grants}
        note(service, database, actor, "token.made", f"token:{row.token_id}", after=told)
    return NewToken(row=row, text=text)


def take_back(service: Service, actor: Actor, token_id: str) -> None:
    """Take a token back: whoever has it, or an admin; it is worth nothing with the next request.

    Raises:
        ServiceError: He has none of that id, or it was taken back before (404).
    """
    with service.database.writing() as database:
        mine = tokens_of(database, actor.name) if not actor.has({Role.ADMIN}) else all_tokens(database)
        row = next((one for one in mine if one.token_id == token_id), None)
        if row is not None and revoke_token(database, token_id, at=moment(service.now())):
            told = {"name": row.name, "person": row.person}
            note(service, database, actor, "token.revoked", f"token:{token_id}", before=told)
            return
    object_ = f"token:{shown(token_id[:16])}"
    note_refusal(service, actor, "token.revoked", object_, "there is no such token")
    raise NotFound("expected the id of a token that is good, found none", hint=listed("tokens"))


def is_good(row: TokenRow, at: str) -> bool:
    """Return whether a token is neither over nor taken back."""
    return row.revoked_at is None and row.expires_at > at


def _wrong(sentence: str, hint: str) -> ServiceError:
    return InvalidRequest(sentence, hint=hint)

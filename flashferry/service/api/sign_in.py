"""Sign-in API: sessions, and the caller's own tokens and password."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import (
    MOST_NAMES,
    Name,
    Password,
    TheActor,
    TheIdentity,
    ThePasswordLogin,
    TheService,
)
from flashferry.service.errors import Forbidden
from flashferry.service.people.accounts import demand_person, is_good, make_token, set_password, take_back
from flashferry.service.people.identity import Identity, auth_of, cookie_name, drop_cookie, set_cookie
from flashferry.service.people.provisioning import grant_json
from flashferry.service.people.sign_in import PasswordLogin, SignIn
from flashferry.service.principal import Actor, Grant, Role
from flashferry.store.service.people import TokenRow, all_tokens, end_session, tokens_of

router = APIRouter(prefix="/api/v1", tags=["people"])


class Credentials(BaseModel):
    """Body with name and password of a local account."""

    name: Name
    password: Password


class PasswordChange(BaseModel):
    """Body with the caller's present and new password."""

    old: Password
    new: Password


class GrantBody(BaseModel):
    """A role at a site; `*` for all sites."""

    role: Role
    site: Name = "*"

    @property
    def grant(self) -> Grant:
        """Return the grant."""
        return Grant(role=self.role, site=self.site)


class TokenBody(BaseModel):
    """Body that describes a new token."""

    name: Name = Field(description="What it is for.")
    days: float = Field(90, description="How long it lasts.")
    grants: list[GrantBody] | None = Field(
        None, max_length=MOST_NAMES, description="What it is limited to; null: all that its person has."
    )


@router.post("/login")
def login(
    given: Credentials, request: Request, response: Response, service: TheService, password_login: ThePasswordLogin
) -> dict[str, str]:
    """Sign in with a local account: sets a session cookie; later changes must send `X-CSRF-Token`."""
    session = password_login.sign_in(sign_in_of(request, service, given.name, given.password))
    set_cookie(response, service.settings, session.session_id)
    return {"name": given.name, "csrf": session.csrf}


@router.post("/logout", status_code=HTTPStatus.NO_CONTENT)
def logout(response: Response, service: TheService, identity: TheIdentity) -> None:
    """End the session; tokens stay valid."""
    end(service, identity)
    drop_cookie(response, service.settings)


@router.get("/me")
def me(identity: TheIdentity) -> dict[str, object]:
    """Return the caller with roles."""
    return me_json(identity)


@router.put("/me/password", status_code=HTTPStatus.NO_CONTENT)
def change_password(
    given: PasswordChange, service: TheService, identity: TheIdentity, password_login: ThePasswordLogin
) -> None:
    """Change the caller's password; other sessions end."""
    change_own_password(service, identity, password_login, old=given.old, new=given.new)


@router.get("/tokens")
def tokens(
    service: TheService,
    actor: TheActor,
    everybodys: Annotated[bool, Query(alias="all", description="Everybody's; for admins.")] = False,
) -> list[dict[str, object]]:
    """Return the caller's tokens, or all tokens, without their secrets."""
    if everybodys and not actor.has({Role.ADMIN}):
        raise Forbidden("expected an admin, for everybody's tokens", hint="Leave out 'all'")
    with service.database.reading() as database:
        found = all_tokens(database) if everybodys else tokens_of(database, actor.name)
    return [token_json(service, row) for row in found]


@router.post("/tokens", status_code=HTTPStatus.CREATED)
def new_token(given: TokenBody, response: Response, service: TheService, actor: TheActor) -> dict[str, object]:
    """Create a token; its secret, `token`, is returned only in this answer."""
    limits = None if given.grants is None else [one.grant for one in given.grants]
    made = make_token(service, actor, name=given.name, days=given.days, limits=limits)
    response.headers["Location"] = f"{router.prefix}/tokens/{made.row.token_id}"
    return {**token_json(service, made.row), "token": made.text}


@router.delete("/tokens/{token_id}", status_code=HTTPStatus.NO_CONTENT)
def revoke(token_id: str, service: TheService, actor: TheActor) -> None:
    """Revoke a token: the caller's own, or any for an admin."""
    take_back(service, actor, token_id)


def sign_in_of(request: Request, service: TheService, name: str, password: str) -> SignIn:
    """Return the sign-in attempt of a request, with its address and the browser's previous session."""
    asked = auth_of(request, service)
    return SignIn(
        name=name,
        password=password,
        address=asked.address,
        before=request.cookies.get(cookie_name(service.settings)),
    )


def end(service: TheService, identity: Identity) -> None:
    """End a session and write the audit entry."""
    if not identity.session:
        return
    with service.database.writing() as database:
        if end_session(database, identity.session):
            service.note(database, identity.actor, "logout", f"user:{identity.actor.name}")


def change_own_password(
    service: TheService, identity: Identity, password_login: PasswordLogin, *, old: str, new: str
) -> None:
    """Change the caller's password.

    Raises:
        Forbidden: The present password is wrong. Others as `set_password`.
    """
    actor: Actor = identity.actor
    demand_person(actor)
    if not password_login.is_right(actor.name, old, address=actor.address):
        raise Forbidden("expected your current password, found another one", hint="Type it again")
    set_password(service, actor, actor.name, new, password_login.passwords, but_session=identity.session)


def me_json(identity: Identity) -> dict[str, object]:
    """Return the caller as JSON types."""
    actor = identity.actor
    return {
        "name": actor.name,
        "via": actor.via.value,
        "address": actor.address,
        "grants": sorted((grant_json(one) for one in actor.grants), key=str),
        "csrf": identity.csrf,
        "may_change": not identity.is_idle,
    }


def token_json(service: TheService, row: TokenRow) -> dict[str, object]:
    """Return a token as JSON types, without its secret."""
    limits = None if row.grants is None else [{"role": role, "site": site} for role, site in json.loads(row.grants)]
    return {
        "token_id": row.token_id,
        "person": row.person,
        "name": row.name,
        "grants": limits,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
        "is_good": is_good(row, service.moment()),
    }

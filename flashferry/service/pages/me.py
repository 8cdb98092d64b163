"""Page of the signed-in user: roles, tokens, password, sessions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.depends import TheActor, TheIdentity, ThePasswordLogin, TheService
from flashferry.service.api.people import person_json
from flashferry.service.api.sign_in import change_own_password, me_json, token_json
from flashferry.service.local_time import choose_time_zone, zone_names
from flashferry.service.pages.frame import page, view_page
from flashferry.service.people.accounts import end_other_sessions, make_token, take_back
from flashferry.service.people.identity import Identity
from flashferry.service.people.provisioning import grant_of
from flashferry.service.principal import Role
from flashferry.service.service import Service
from flashferry.service.texts import FormName, FormPassword, FormProse
from flashferry.store.service.people import sessions_of, tokens_of

router = APIRouter(include_in_schema=False)
_BACK = "/me"


@view_page(router, "/me", "me.html")
def me(service: TheService, identity: TheIdentity) -> object:
    """Return the caller's roles, tokens and sessions."""
    return _view(service, identity)


@router.post("/me/tokens")
def new_token(
    request: Request,
    service: TheService,
    identity: TheIdentity,
    name: FormName,
    days: Annotated[float, Form()] = 90,
    limits: FormProse = "",
) -> Response:
    """Create a token and show its secret, only on this page."""
    grants = [grant_of(word) for word in limits.replace(",", " ").split()] or None
    made = make_token(service, identity.actor, name=name, days=days, limits=grants)
    # Our own token contains no HTML; `page` would mask it as a known secret.
    view = {**_view(service, identity), "shown_once": Markup(made.text), "shown_name": made.row.name}  # noqa: S704
    return page(request, "me.html", view, status=HTTPStatus.CREATED)


@router.post("/me/tokens/{token_id}/revoke")
def revoke(token_id: str, service: TheService, actor: TheActor) -> Response:
    """Revoke a token."""
    take_back(service, actor, token_id)
    return RedirectResponse(_BACK, HTTPStatus.SEE_OTHER)


@router.post("/me/password")
def change_password(
    service: TheService,
    identity: TheIdentity,
    password_login: ThePasswordLogin,
    old: FormPassword,
    new: FormPassword,
) -> Response:
    """Change the caller's password."""
    change_own_password(service, identity, password_login, old=old, new=new)
    return RedirectResponse(_BACK, HTTPStatus.SEE_OTHER)


@router.post("/me/time-zone")
def set_time_zone(service: TheService, actor: TheActor, time_zone: FormName) -> Response:
    """Choose the time zone in which pages show times."""
    choose_time_zone(service, actor, time_zone)
    return RedirectResponse(_BACK, HTTPStatus.SEE_OTHER)


@router.post("/me/sessions/end")
def end_others(service: TheService, identity: TheIdentity) -> Response:
    """End all other sessions of the caller."""
    end_other_sessions(service, identity)
    return RedirectResponse(_BACK, HTTPStatus.SEE_OTHER)


def _view(service: Service, identity: Identity) -> dict[str, object]:
    name = identity.actor.name
    with service.database.reading() as database:
        tokens = [token_json(service, row) for row in tokens_of(database, name)]
        sessions = [
            {
                "created_at": row.created_at,
                "seen_at": row.seen_at,
                "address": row.address,
                "is_this": row.hash == identity.session,
            }
            for row in sessions_of(database, name, at=service.moment())
        ]
    details = {key: value for key, value in me_json(identity).items() if key != "csrf"}
    return {
        **details,
        "person": person_json(service, name),
        "tokens": tokens,
        "sessions": sessions,
        "zones": zone_names(),
        "roles": [role.value for role in Role],
        "most_days": int(service.settings.people.token_s // 86400),
        "least_password": service.settings.people.least_password,
    }

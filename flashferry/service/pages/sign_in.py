"""Pages for sign-in by password or OpenID Connect provider, sign-out, and the signed-in user's own page."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.depends import (
    FormName,
    FormPassword,
    FormProse,
    TheActor,
    TheIdentity,
    ThePasswordLogin,
    TheService,
)
from flashferry.service.api.guard import safe_next
from flashferry.service.api.people import person_json
from flashferry.service.api.problems import status_of
from flashferry.service.api.sign_in import change_own_password, end, me_json, sign_in_of, token_json
from flashferry.service.errors import NotFound, ServiceError
from flashferry.service.local_time import choose_time_zone, zone_names
from flashferry.service.pages.frame import page, view_page
from flashferry.service.people.accounts import end_other_sessions, make_token, take_back
from flashferry.service.people.identity import (
    Identity,
    anonymous,
    auth_of,
    begin_session,
    cookie_name,
    drop_cookie,
    set_cookie,
)
from flashferry.service.people.oidc import CALLBACK, STARTED_S, Provider
from flashferry.service.people.provisioning import enter, grant_of
from flashferry.service.people.sign_in import FAILED, network_of
from flashferry.service.principal import Actor, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.people import sessions_of, tokens_of

router = APIRouter(include_in_schema=False)

_STARTED = "-oidc"
_ABOUT, _SIGN_IN = "what the provider says of itself", "sign-in at the provider"


@router.get("/login")
def login_page(
    request: Request, service: TheService, requested: Annotated[str, Query(alias="next", max_length=4000)] = "/"
) -> Response:
    """Show the sign-in page."""
    return _page(request, service, requested)


@router.post("/login")
def login(
    request: Request,
    service: TheService,
    password_login: ThePasswordLogin,
    name: FormName,
    password: FormPassword,
    requested: Annotated[str, Form(alias="next", max_length=4000)] = "/",
) -> Response:
    """Sign in with name and password, and redirect to the requested page."""
    try:
        session = password_login.sign_in(sign_in_of(request, service, name.strip(), password))
    except ServiceError as problem:
        return _page(request, service, requested, problem)
    response = RedirectResponse(safe_next(requested), HTTPStatus.SEE_OTHER)
    set_cookie(response, service.settings, session.session_id)
    return response


@router.post("/logout")
def logout(service: TheService, identity: TheIdentity) -> Response:
    """End the session and show the sign-in page."""
    end(service, identity)
    response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    drop_cookie(response, service.settings)
    return response


@router.get("/login/oidc")
async def begin_oidc(
    request: Request, service: TheService, requested: Annotated[str, Query(alias="next", max_length=4000)] = "/"
) -> Response:
    """Redirect a browser to the provider."""
    provider = _provider(request)
    # One shared call to the provider: unauthenticated requests must not take threads from sign-ins that return.
    about = provider.known_about()
    if about is None:
        about = await service.outbound.once(_ABOUT, provider.about)
    started = provider.begin(safe_next(requested), about["authorization_endpoint"])
    response = RedirectResponse(started.url, HTTPStatus.SEE_OTHER)
    response.set_cookie(
        _started_cookie(service),
        started.cookie,
        max_age=STARTED_S,
        path="/",
        secure=service.settings.is_secure,
        httponly=True,
        samesite="lax",
    )
    return response


@router.get(CALLBACK)
async def finish_oidc(request: Request, service: TheService) -> Response:
    """Receive the provider's answer and sign the user in."""
    work = partial(_finish, request, service)
    if not _provider(request).is_started_here(request.query_params, request.cookies.get(_started_cookie(service))):
        # Refused without contacting the provider.
        return await run_in_threadpool(work)
    return await service.outbound.run(_SIGN_IN, work, share=network_of(auth_of(request, service).address))


def _finish(request: Request, service: Service) -> Response:
    name = _started_cookie(service)
    address = auth_of(request, service).address
    try:
        details, requested = _provider(request).finish(dict(request.query_params), request.cookies.get(name))
        with service.database.writing() as database:
            person = enter(service, database, details)
            actor = Actor(name=person.name, via=Via.SESSION, address=address)
            service.note(database, actor, "login.ok", f"user:{person.name}", reason="OpenID Connect")
            before = request.cookies.get(cookie_name(service.settings))
            session = begin_session(service, database, person.name, address=address, before=before)
    except ServiceError as problem:
        request.app.state.refusals.note(anonymous(address), FAILED, "user:oidc", problem.sentence)
        raise
    response = RedirectResponse(requested, HTTPStatus.SEE_OTHER)
    set_cookie(response, service.settings, session.session_id)
    response.delete_cookie(name, path="/", secure=service.settings.is_secure, httponly=True, samesite="lax")
    return response


def _started_cookie(service: Service) -> str:
    return cookie_name(service.settings) + _STARTED


def _provider(request: Request) -> Provider:
    provider = request.app.state.provider
    if not isinstance(provider, Provider):
        raise NotFound("no OpenID Connect provider is set", hint="Sign in with a password, or set [oidc]")
    return provider


def _page(request: Request, service: Service, requested: str, problem: ServiceError | None = None) -> Response:
    view = {
        "next": safe_next(requested),
        "has_provider": service.settings.oidc is not None,
        "problem": None if problem is None else {"sentence": problem.sentence, "hint": problem.hint},
    }
    return page(request, "login.html", view, status=HTTPStatus.OK if problem is None else status_of(problem))


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

"""The page where people sign in, by password or at the provider, and the way out."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.problems import status_of
from flashferry.service.errors import Forbidden, NotFound, ServiceError
from flashferry.service.api.depends import TheDoor, TheIdentity, TheService
from flashferry.service.api.forms import safe_next
from flashferry.service.api.sign_in import end, sign_in_of
from flashferry.service.auditing import note
from flashferry.service.pages.frame import page
from flashferry.service.people.identity import anonymous, asked_of
from flashferry.service.people.login_rate_limit import home
from flashferry.service.people.oidc import BEGUN_S, Provider
from flashferry.service.people.provisioning import enter
from flashferry.service.people.sessions import begin_session, cookie_name, drop_cookie, set_cookie
from flashferry.service.people.sign_in import FAILED
from flashferry.service.principal import Actor, Via
from flashferry.service.service import Service
from flashferry.service.texts import FormName, FormPassword
from flashferry.store.service.people import ACTIVE

router = APIRouter(include_in_schema=False)

CALLBACK = "/login/oidc/callback"
_BEGUN = "-oidc"
_ABOUT, _SIGN_IN = "what the provider says of itself", "sign-in at the provider"


@router.get("/login")
def login_page(
    request: Request, service: TheService, wanted: Annotated[str, Query(alias="next", max_length=4000)] = "/"
) -> Response:
    """Show where to sign in."""
    return _page(request, service, wanted)


@router.post("/login")
def login(
    request: Request,
    service: TheService,
    door: TheDoor,
    name: FormName,
    password: FormPassword,
    wanted: Annotated[str, Form(alias="next", max_length=4000)] = "/",
) -> Response:
    """Sign in with name and password, and go on to the page that was wanted."""
    try:
        session = door.sign_in(sign_in_of(request, service, name.strip(), password))
    except ServiceError as problem:
        return _page(request, service, wanted, problem)
    response = RedirectResponse(safe_next(wanted), HTTPStatus.SEE_OTHER)
    set_cookie(response, service.settings, session.session_id)
    return response


@router.post("/logout")
def logout(service: TheService, identity: TheIdentity) -> Response:
    """End the session and lead to the sign-in."""
    end(service, identity)
    response = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    drop_cookie(response, service.settings)
    return response


@router.get("/login/oidc")
async def begin_oidc(
    request: Request, service: TheService, wanted: Annotated[str, Query(alias="next", max_length=4000)] = "/"
) -> Response:
    """Send a browser to the provider."""
    provider = _provider(request)
    # However many ask, the provider is asked once: a stranger takes no thread from a sign-in that comes back from it.
    about = provider.known_about()
    if about is None:
        about = await service.outbound.once(_ABOUT, provider.about)
    begun = provider.begin(safe_next(wanted), about["authorization_endpoint"])
    response = RedirectResponse(begun.url, HTTPStatus.SEE_OTHER)
    response.set_cookie(
        _begun_cookie(service),
        begun.cookie,
        max_age=BEGUN_S,
        path="/",
        secure=service.settings.is_secure,
        httponly=True,
        samesite="lax",
    )
    return response


@router.get(CALLBACK)
async def finish_oidc(request: Request, service: TheService) -> Response:
    """Take back from the provider who somebody is."""
    work = partial(_finish, request, service)
    if not _provider(request).is_begun_here(request.query_params, request.cookies.get(_begun_cookie(service))):
        # Refused without a word to the provider.
        return await run_in_threadpool(work)
    return await service.outbound.run(_SIGN_IN, work, share=home(asked_of(request, service).address))


def _finish(request: Request, service: Service) -> Response:
    name = _begun_cookie(service)
    address = asked_of(request, service).address
    try:
        told, wanted = _provider(request).finish(dict(request.query_params), request.cookies.get(name))
        with service.database.writing() as database:
            person = enter(service, database, told)
            if person.state != ACTIVE:
                raise Forbidden(
                    "expected somebody who may sign in, found a person who is disabled",
                    hint="Ask an admin of the service",
                )
            actor = Actor(name=person.name, via=Via.SESSION, address=address)
            note(service, database, actor, "login.ok", f"user:{person.name}", reason="OpenID Connect")
            before = request.cookies.get(cookie_name(service.settings))
            session = begin_session(service, database, person.name, address=address, before=before)
    except ServiceError as problem:
        request.app.state.refusals.note(anonymous(address), FAILED, "user:oidc", problem.sentence)
        raise
    response = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
    set_cookie(response, service.settings, session.session_id)
    response.delete_cookie(name, path="/", secure=service.settings.is_secure, httponly=True, samesite="lax")
    return response


def _begun_cookie(service: Service) -> str:
    return cookie_name(service.settings) + _BEGUN


def _provider(request: Request) -> Provider:
    provider = request.app.state.provider
    if not isinstance(provider, Provider):
        raise NotFound("no OpenID Connect provider is set", hint="Sign in with a password, or set [oidc]")
    return provider


def _page(request: Request, service: Service, wanted: str, problem: ServiceError | None = None) -> Response:
    view = {
        "next": safe_next(wanted),
        "has_provider": service.settings.oidc is not None,
        "problem": None if problem is None else {"sentence": problem.sentence, "hint": problem.hint},
    }
    return page(request, "login.html", view, status=HTTPStatus.OK if problem is None else status_of(problem))

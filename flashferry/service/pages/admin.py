"""Pages for admins: users and their tokens."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.depends import TheActor, ThePasswordLogin, TheService
from flashferry.service.api.people import people_json, person_json
from flashferry.service.api.sign_in import token_json
from flashferry.service.pages.frame import link, view_page
from flashferry.service.people import accounts
from flashferry.service.people.accounts import NewPerson, take_back
from flashferry.service.people.provisioning import grant_of
from flashferry.service.principal import Grant, Role
from flashferry.service.texts import FormName, FormPassword, FormProse
from flashferry.store.service.people import all_tokens, tokens_of

router = APIRouter(include_in_schema=False)
_PEOPLE = "/admin/people"


@view_page(router, "/admin", "admin.html")
def admin(service: TheService) -> object:
    """Return the users and all active tokens."""
    with service.database.reading() as database:
        tokens = [token_json(service, row) for row in all_tokens(database)]
    return {
        "people": people_json(service),
        "tokens": [one for one in tokens if one["is_good"]],
        "roles": [role.value for role in Role],
        "least_password": service.settings.people.least_password,
    }


@router.post(_PEOPLE)
def enter(
    service: TheService,
    actor: TheActor,
    password_login: ThePasswordLogin,
    name: FormName,
    display: FormName = "",
    email: FormName = "",
    password: FormPassword = "",
    grants: FormName = "",
) -> Response:
    """Add a user with a local account."""
    new = NewPerson(name=name.strip(), display=display, email=email, password=password or None, grants=_grants(grants))
    accounts.add_person(service, actor, new, password_login.passwords)
    return _back(new.name)


@view_page(router, "/admin/people/{name}", "admin_person.html")
def person(name: str, service: TheService) -> object:
    """Return a user with grants and tokens."""
    found = person_json(service, name)
    with service.database.reading() as database:
        tokens = [token_json(service, row) for row in tokens_of(database, name)]
    return {
        "person": found,
        "tokens": tokens,
        "roles": [role.value for role in Role],
        "least_password": service.settings.people.least_password,
    }


@router.post("/admin/people/{name}/grants")
def set_grants(name: str, service: TheService, actor: TheActor, grants: FormName = "") -> Response:
    """Replace the roles of a user."""
    accounts.set_grants(service, actor, name, _grants(grants))
    return _back(name)


@router.post("/admin/people/{name}/password")
def set_password(
    name: str, service: TheService, actor: TheActor, password_login: ThePasswordLogin, password: FormPassword
) -> Response:
    """Set the password of a user."""
    accounts.set_password(service, actor, name, password, password_login.passwords)
    return _back(name)


@router.post("/admin/people/{name}/disable")
def disable(name: str, service: TheService, actor: TheActor, reason: FormProse = "") -> Response:
    """Disable a user."""
    accounts.set_active(service, actor, name, is_active=False, reason=reason)
    return _back(name)


@router.post("/admin/people/{name}/enable")
def enable(name: str, service: TheService, actor: TheActor, reason: FormProse = "") -> Response:
    """Enable a user again."""
    accounts.set_active(service, actor, name, is_active=True, reason=reason)
    return _back(name)


@router.post("/admin/tokens/{token_id}/revoke")
def revoke(token_id: str, service: TheService, actor: TheActor) -> Response:
    """Revoke any token."""
    take_back(service, actor, token_id)
    return RedirectResponse("/admin", HTTPStatus.SEE_OTHER)


def _grants(words: str) -> tuple[Grant, ...]:
    return tuple(grant_of(word) for word in words.replace(",", " ").split())


def _back(name: str) -> Response:
    return RedirectResponse(link(_PEOPLE, name), HTTPStatus.SEE_OTHER)

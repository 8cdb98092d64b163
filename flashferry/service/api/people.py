"""Users API, for admins: list, add and disable users; set roles and passwords."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import MOST_NAMES, Name, Password, Prose, TheActor, ThePasswordLogin, TheService
from flashferry.service.api.sign_in import GrantBody
from flashferry.service.people import accounts
from flashferry.service.people.accounts import NewPerson
from flashferry.service.service import Service
from flashferry.store.service import people as rows

router = APIRouter(prefix="/api/v1/users", tags=["people"])
Grants = Annotated[list[GrantBody], Field(max_length=MOST_NAMES)]


class PersonBody(BaseModel):
    """Body that describes a new user."""

    name: Name
    display: Name = ""
    email: Name = ""
    password: Password | None = Field(None, description="null: they sign in without a password.")
    grants: Grants = Field(default_factory=list)


class PasswordBody(BaseModel):
    """Body with a new password."""

    password: Password


class ReasonBody(BaseModel):
    """Body with the reason of an action."""

    reason: Prose = ""


@router.get("")
def people(service: TheService) -> list[dict[str, object]]:
    """Return all users with their grants, including disabled ones."""
    return people_json(service)


@router.post("", status_code=HTTPStatus.CREATED)
def enter(
    given: PersonBody, response: Response, service: TheService, actor: TheActor, password_login: ThePasswordLogin
) -> dict[str, object]:
    """Add a user with a local account."""
    new = NewPerson(
        name=given.name,
        display=given.display,
        email=given.email,
        password=given.password,
        grants=tuple(one.grant for one in given.grants),
    )
    accounts.add_person(service, actor, new, password_login.passwords)
    response.headers["Location"] = f"{router.prefix}/{given.name}"
    return person_json(service, given.name)


@router.get("/{name}")
def person(name: str, service: TheService) -> dict[str, object]:
    """Return a user with the user's grants."""
    return person_json(service, name)


@router.put("/{name}/grants")
def set_grants(name: str, given: Grants, service: TheService, actor: TheActor) -> dict[str, object]:
    """Replace the roles of a user; roles that come from groups stay."""
    accounts.set_grants(service, actor, name, [one.grant for one in given])
    return person_json(service, name)


@router.put("/{name}/password", status_code=HTTPStatus.NO_CONTENT)
def set_password(
    name: str, given: PasswordBody, service: TheService, actor: TheActor, password_login: ThePasswordLogin
) -> None:
    """Set a user's password; this ends the user's sessions and removes a lock."""
    accounts.set_password(service, actor, name, given.password, password_login.passwords)


@router.post("/{name}/disable")
def disable(name: str, given: ReasonBody, service: TheService, actor: TheActor) -> dict[str, object]:
    """Disable a user; sessions and tokens are refused from the next request on."""
    accounts.set_active(service, actor, name, is_active=False, reason=given.reason)
    return person_json(service, name)


@router.post("/{name}/enable")
def enable(name: str, given: ReasonBody, service: TheService, actor: TheActor) -> dict[str, object]:
    """Enable a user again and remove a lock."""
    accounts.set_active(service, actor, name, is_active=True, reason=given.reason)
    return person_json(service, name)


def people_json(service: Service) -> list[dict[str, object]]:
    """Return all users as JSON types."""
    with service.database.reading() as database:
        return [_details(one, rows.grants_of(database, one.name)) for one in rows.people(database)]


def person_json(service: Service, name: str) -> dict[str, object]:
    """Return a user as JSON types. Raises `NotFound`."""
    with service.database.reading() as database:
        found = accounts.found_person(database, name)
        return _details(found, rows.grants_of(database, name))


def _details(one: rows.Person, grants: tuple[rows.GivenGrant, ...]) -> dict[str, object]:
    return {
        "name": one.name,
        "source": one.source,
        "display": one.display,
        "email": one.email,
        "state": one.state,
        "has_password": one.has_password,
        "created_at": one.created_at,
        "locked_until": one.locked_until,
        "grants": [
            {"role": grant.role, "site": grant.site, "given_by": grant.given_by, "given_at": grant.given_at}
            for grant in grants
        ],
    }

"""People for admins: listed, entered, given roles, disabled; everything that a program needs to keep them in step."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import TheActor, TheDoor, TheService
from flashferry.service.api.sign_in import GrantBody
from flashferry.service.people import accounts
from flashferry.service.people.accounts import NewPerson
from flashferry.service.service import Service
from flashferry.service.texts import MOST_NAMES, Name, Password, Prose
from flashferry.store.service import people as rows

router = APIRouter(prefix="/api/v1/users", tags=["people"])

Grants = Annotated[list[GrantBody], Field(max_length=MOST_NAMES)]


class PersonBody(BaseModel):
    """Somebody to be entered."""

    name: Name
    display: Name = ""
    email: Name = ""
    password: Password | None = Field(None, description="null: he signs in with no password.")
    grants: Grants = Field(default_factory=list)


class PasswordBody(BaseModel):
    """A new password."""

    password: Password


class ReasonBody(BaseModel):
    """Why something is done."""

    reason: Prose = ""


@router.get("")
def people(service: TheService) -> list[dict[str, object]]:
    """Return all people with what they were given; those disabled, too."""
    return told_people(service)


@router.post("", status_code=HTTPStatus.CREATED)
def enter(
    given: PersonBody, response: Response, service: TheService, actor: TheActor, door: TheDoor
) -> dict[str, object]:
    """Enter somebody with a local account."""
    new = NewPerson(
        name=given.name,
        display=given.display,
        email=given.email,
        password=given.password,
        grants=tuple(one.grant for one in given.grants),
    )
    accounts.add_person(service, actor, new, door.passwords)
    response.headers["Location"] = f"{router.prefix}/{given.name}"
    return told_person(service, given.name)


@router.get("/{name}")
def person(name: str, service: TheService) -> dict[str, object]:
    """Return somebody with what he was given."""
    return told_person(service, name)


@router.put("/{name}/grants")
def set_grants(name: str, given: Grants, service: TheService, actor: TheActor) -> dict[str, object]:
    """Give somebody these roles and no others; what follows from his groups stays."""
    accounts.set_grants(service, actor, name, [one.grant for one in given])
    return told_person(service, name)


@router.put("/{name}/password", status_code=HTTPStatus.NO_CONTENT)
def set_password(name: str, given: PasswordBody, service: TheService, actor: TheActor, door: TheDoor) -> None:
    """Give somebody another password; his sessions end, and so does a lock."""
    accounts.set_password(service, actor, name, given.password, door.passwords)


@router.post("/{name}/disable")
def disable(name: str, given: ReasonBody, service: TheService, actor: TheActor) -> dict[str, object]:
    """Disable somebody; his sessions and tokens are worth nothing with the next request."""
    accounts.set_active(service, actor, name, is_active=False, reason=given.reason)
    return told_person(service, name)


@router.post("/{name}/enable")
def enable(name: str, given: ReasonBody, service: TheService, actor: TheActor) -> dict[str, object]:
    """Enable somebody again, and undo a lock."""
    accounts.set_active(service, actor, name, is_active=True, reason=given.reason)
    return told_person(service, name)


def told_people(service: Service) -> list[dict[str, object]]:
    """Return all people as programs are told."""
    with service.database.reading() as database:
        return [_told(one, rows.grants_of(database, one.name)) for one in rows.people(database)]


def told_person(service: Service, name: str) -> dict[str, object]:
    """Return somebody as programs are told.

    Raises:
        ServiceError: There is nobody of that name.
    """
    with service.database.reading() as database:
        found = accounts.found_person(database, name)
        return _told(found, rows.grants_of(database, name))


def _told(one: rows.Person, grants: tuple[rows.GivenGrant, ...]) -> dict[str, object]:
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

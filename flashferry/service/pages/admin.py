"""Pages for admins: users, their tokens, and the audit log."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from starlette.responses import RedirectResponse, Response

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import json_text
from flashferry.service.api.depends import FormName, FormPassword, FormProse, TheActor, ThePasswordLogin, TheService
from flashferry.service.api.people import people_json, person_json
from flashferry.service.api.sign_in import token_json
from flashferry.service.audit import OUTCOMES, audit_filter, facts_of, verify
from flashferry.service.pages.frame import link, view_page
from flashferry.service.people import accounts
from flashferry.service.people.accounts import NewPerson, take_back
from flashferry.service.people.provisioning import grant_of
from flashferry.service.principal import Grant, Role
from flashferry.store.service.audit import AuditFilter, ChainedEntry, entries, last
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


MOST = 100
_TONES = {"asked": "", "done": "", "refused": "warn", "failed": "bad"}
_Text = Annotated[str, Query(max_length=200)]


def asked(
    since: _Text = "",
    until: _Text = "",
    actor: _Text = "",
    action: _Text = "",
    object_: Annotated[str, Query(alias="object", max_length=200)] = "",
    outcome: _Text = "",
) -> dict[str, str]:
    """Return the filter as the user typed it."""
    given = {"since": since, "until": until, "actor": actor, "action": action, "object": object_, "outcome": outcome}
    return {name: value.strip() for name, value in given.items()}


RequestAuth = Annotated[dict[str, str], Depends(asked)]


# A page of its own, because it reads every entry.
@view_page(router, "/audit/verify", "audit_verify.html")
def verified(service: TheService) -> object:
    """Verify all entries."""
    with service.database.reading() as database:
        found = verify(database)
    return {
        "is_whole": found.is_whole,
        "entries": found.count,
        "head": str(found.head) if found.head is not None else "",
        "faults": list(found.faults),
    }


@view_page(router, "/audit", "audit.html")
def audit(service: TheService, asked: RequestAuth, before: Annotated[int | None, Query(ge=1)] = None) -> object:
    """Return a page of entries, newest first."""
    requested, trouble = _requested(asked)
    with service.database.reading() as database:
        found = list(entries(database, matching=requested, before_seq=before, is_newest_first=True, most=MOST + 1))
        newest = last(database)
    given = {name: value for name, value in asked.items() if value}
    older = {**given, "before": str(found[MOST - 1].seq)} if len(found) > MOST else None
    return {
        "asked": asked,
        "trouble": trouble,
        "entries": [_details(one) for one in found[:MOST]],
        "older": urlencode(older) if older is not None else "",
        "query": urlencode(given),
        "count": newest.seq if newest is not None else 0,
        "outcomes": list(OUTCOMES),
    }


def _requested(asked: dict[str, str]) -> tuple[AuditFilter, str]:
    """Return the filter and an empty text; or, if it is not valid, a filter that matches all and the reason."""
    values = {"object_" if name == "object" else name: value for name, value in asked.items()}
    try:
        return audit_filter(**values), ""
    except ConfigInvalid as error:
        return AuditFilter(), str(error)


def _details(chained: ChainedEntry) -> dict[str, object]:
    entry = chained.entry
    return facts_of(chained) | {
        "tone": _TONES.get(entry.outcome, ""),
        "before": _lines(entry.before),
        "after": _lines(entry.after),
    }


def _lines(text: str) -> list[str]:
    """Return JSON text as lines, one value each."""
    if not text:
        return []
    try:
        return json_text(json.loads(text), indent=1).splitlines()
    except ValueError:
        return [text]

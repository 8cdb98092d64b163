"""Parameters of routes: the service, the caller, and texts, lists and numbers that are safe to store and show."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Annotated

from fastapi import Depends, Form, Request
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from flashferry.core.value_description import control_character
from flashferry.service.local_time import LocalTime, time_zone
from flashferry.service.people.identity import Identity
from flashferry.service.people.sign_in import PasswordLogin
from flashferry.service.principal import Actor, Via
from flashferry.service.service import Service

LONGEST_NAME = 500
"""Characters of a name, or of another text of one line."""
LONGEST_PROSE = 2000
LONGEST_PASSWORD = 1024
MOST_NAMES = 10_000
"""Entries of a list."""
LARGEST = 2**63 - 1
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def why_unfit(text: str, *, is_name: bool = False) -> str:
    """Return why a text is not acceptable; empty if it is. A name is one line without bidi controls."""
    if "\0" in text:
        return "NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half a character (a lone surrogate)"
    if not is_name:
        return ""
    return "a control of the direction of writing" if _BIDI & set(text) else control_character(text) or ""


def _name(text: str) -> str:
    return _fit(text, is_name=True)


def _fit(text: str, *, is_name: bool = False) -> str:
    if found := why_unfit(text, is_name=is_name):
        raise PydanticCustomError("text", "expected text without {found}, found it", {"found": found})
    return text


Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME), AfterValidator(_name)]
"""A name, or another text of one line."""
Prose = Annotated[str, StringConstraints(max_length=LONGEST_PROSE), AfterValidator(_fit)]
"""A reason or a comment."""
Password = Annotated[str, StringConstraints(max_length=LONGEST_PASSWORD), AfterValidator(_fit)]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES)]
Number = Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)]

FormName = Annotated[Name, Form()]
FormProse = Annotated[Prose, Form()]
FormPassword = Annotated[Password, Form()]
FormNames = Annotated[Names, Form()]


def service_of(request: Request) -> Service:
    """Return the service object."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def actor_of(request: Request) -> Actor:
    """Return the caller, as admitted by the guard."""
    actor = request.state.actor
    assert isinstance(actor, Actor)
    return actor


def zone_of(request: Request) -> tzinfo:
    """Return the time zone in which the caller reads times; UTC without a sign-in."""
    actor = getattr(request.state, "actor", None)
    return UTC if actor is None or actor.via is Via.NONE else time_zone(service_of(request), actor)


def local_time_of(request: Request) -> LocalTime:
    """Return what shows times to the caller."""
    return LocalTime(service_of(request), zone_of(request))


def csrf_of(request: Request) -> str:
    """Return the session's CSRF token for the form field `csrf`; empty without a session."""
    return str(getattr(request.state, "csrf", ""))


def identity_of(request: Request) -> Identity:
    """Return the caller's identity, with the session."""
    identity = request.state.identity
    assert isinstance(identity, Identity)
    return identity


def password_login_of(request: Request) -> PasswordLogin:
    """Return the object that signs users in by password."""
    password_login = request.app.state.password_login
    assert isinstance(password_login, PasswordLogin)
    return password_login


TheService = Annotated[Service, Depends(service_of)]
TheActor = Annotated[Actor, Depends(actor_of)]
TheZone = Annotated[tzinfo, Depends(zone_of)]
TheIdentity = Annotated[Identity, Depends(identity_of)]
ThePasswordLogin = Annotated[PasswordLogin, Depends(password_login_of)]

"""FastAPI dependencies of routes: the service and the caller."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Annotated

from fastapi import Depends, Request

from flashferry.service.local_time import LocalTime, time_zone
from flashferry.service.people.identity import Identity
from flashferry.service.people.sign_in import PasswordLogin
from flashferry.service.principal import Actor, Via
from flashferry.service.service import Service


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

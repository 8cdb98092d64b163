"""What routes ask for: the service, and who is asking."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from flashferry.service.people.identity import Identity
from flashferry.service.people.sign_in import PasswordLogin
from flashferry.service.principal import Actor
from flashferry.service.service import Service


def service_of(request: Request) -> Service:
    """Return the service."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def actor_of(request: Request) -> Actor:
    """Return who asks, as the table of access let him in."""
    actor = request.state.actor
    assert isinstance(actor, Actor)
    return actor


def csrf_of(request: Request) -> str:
    """Return what the forms of a page have in their field `csrf`; empty where nobody is signed in, or by a token."""
    return str(getattr(request.state, "csrf", ""))


def identity_of(request: Request) -> Identity:
    """Return how who asks has shown who he is: his session, too."""
    identity = request.state.identity
    assert isinstance(identity, Identity)
    return identity


def door_of(request: Request) -> PasswordLogin:
    """Return where people sign in with a password."""
    door = request.app.state.door
    assert isinstance(door, PasswordLogin)
    return door


TheService = Annotated[Service, Depends(service_of)]
TheActor = Annotated[Actor, Depends(actor_of)]
TheIdentity = Annotated[Identity, Depends(identity_of)]
TheDoor = Annotated[PasswordLogin, Depends(door_of)]

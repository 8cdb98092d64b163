"""What routes ask for: the service, and who is asking."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from flashferry.service.actor import Actor
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


TheService = Annotated[Service, Depends(service_of)]
TheActor = Annotated[Actor, Depends(actor_of)]

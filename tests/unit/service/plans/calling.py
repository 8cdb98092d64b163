"""Routes of a subject, called by whoever a test says; who may call them at all is the guard's tests' business."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request

from flashferry.service.access import routes_in
from flashferry.service.api.problems import problem_response
from flashferry.service.errors import ServiceError
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from tests.unit.service.client import TestClient


def client(service: Service, actor: Actor, *routers: APIRouter) -> TestClient:
    """Return a client of some routes, signed in as an actor."""
    app = FastAPI()
    app.state.service = service
    app.state.reader = SnapshotReader(service)
    app.state.routes = routes_in(routers)
    app.state.problem_page = None

    @app.middleware("http")
    async def signed_in(request: Request, call_next):
        request.state.actor = actor
        request.state.csrf = "c-s-r-f"
        return await call_next(request)

    for router in routers:
        app.include_router(router)
    app.add_exception_handler(ServiceError, problem_response)
    return TestClient(app, follow_redirects=False)

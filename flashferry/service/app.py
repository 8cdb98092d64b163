"""The ASGI application: all routes of API and pages, each checked against the access table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from flashferry.service import api, pages
from flashferry.service.access import ROUTES, Access, routes_in
from flashferry.service.api.guard import guarded
from flashferry.service.api.limits import Bodies
from flashferry.service.api.middleware import AccessLog, SecurityHeaders
from flashferry.service.api.problems import answer_problems
from flashferry.service.background import BackgroundTasks
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.live.stream import Streams
from flashferry.service.metrics.collector import Figures
from flashferry.service.pages.frame import problem_page
from flashferry.service.people.oidc import provider_of
from flashferry.service.people.sign_in import DenialLog, PasswordLogin
from flashferry.service.service import Service


def _routers() -> Iterator[APIRouter]:
    """Yield the routers that the modules of `api` and `pages` define."""
    for package in (api, pages):
        for found in iter_modules(package.__path__, f"{package.__name__}."):
            yield from (one for one in vars(import_module(found.name)).values() if isinstance(one, APIRouter))


ROUTERS = tuple(_routers())
"""Of all subjects."""


def build_app(
    service: Service,
    routers: Sequence[APIRouter] | None = None,
    table: Mapping[tuple[str, str], Access] = ROUTES,
    *,
    background_tasks: BackgroundTasks | None = None,
    book: DenialLog | None = None,
    figures: Figures | None = None,
) -> FastAPI:
    """Return the application with these routers (None: `ROUTERS`).

    `background_tasks` are reported by `/readyz`, `book` logs refusals, `figures` is the source of `/metrics`. Raises
    `LookupError` if a route has no row in the table.
    """
    # No redirect of trailing slashes: it would be built from the client's Host header.
    app = _Application(title="flashferry", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.service = service
    app.state.background_tasks = background_tasks
    app.state.reader = SnapshotReader(service)
    app.state.streams = Streams(app.state.reader, service.settings.site_names, stopping=service.stopping)
    app.state.problem_page = problem_page
    app.state.figures = figures or Figures(service)
    app.state.refusals = book or DenialLog(service)
    app.state.password_login = PasswordLogin(service, app.state.refusals)
    app.state.provider = provider_of(service)
    bodies = Bodies()
    for router in routers or ROUTERS:
        # Not `include_router`, which hides paths and methods in one object.
        app.router.routes += guarded(router.routes, table, service, app.state.refusals, bodies)
    app.state.routes = routes_in(routers or ROUTERS)
    answer_problems(app)
    return app


class _Application(FastAPI):
    """FastAPI application with security headers on every answer; middleware of FastAPI misses unexpected errors."""

    def build_middleware_stack(self) -> ASGIApp:
        settings = self.state.service.settings
        stack = SecurityHeaders(super().build_middleware_stack(), settings)
        return AccessLog(stack) if settings.log.has_access else stack

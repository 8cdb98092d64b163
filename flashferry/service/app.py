"""The application: every route of API and pages, with the table of access in front of all of them."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from flashferry.service.access import ROUTES
from flashferry.service.api import health
from flashferry.service.problems import Problem, problem_response
from flashferry.service.service import Service

ROUTERS = (health.router,)
"""Of all subjects."""


def build_app(service: Service) -> FastAPI:
    """Return the application.

    Raises:
        LookupError: A route has no row in `flashferry.service.access.ROUTES`; nobody could say who may call it.
    """
    app = FastAPI(title="flashferry", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(Problem, _tell)
    for route in app.routes:
        _check_row(route)
    return app


def _tell(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem_response(request, problem)


def _check_row(route: BaseRoute) -> None:
    path = getattr(route, "path", "")
    for method in getattr(route, "methods", None) or ():
        if method != "HEAD" and (method, path) not in ROUTES:
            raise LookupError(f"route {method} {path} has no row in the table of access")

"""The application: every route of API and pages, with the table of access in front of all of them."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from flashferry.service.access import ROUTES, routes_in
from flashferry.service.api import health, plans
from flashferry.service.pages import assets, tonight
from flashferry.service.pages.frame import problem_page
from flashferry.service.problems import Problem, problem_response
from flashferry.service.service import Service

ROUTERS = (health.router, plans.router, assets.router, tonight.router)
"""Of all subjects."""


def build_app(service: Service) -> FastAPI:
    """Return the application.

    Raises:
        LookupError: A route has no row in `flashferry.service.access.ROUTES`; nobody could say who may call it.
    """
    app = FastAPI(title="flashferry", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    app.state.problem_page = problem_page
    for router in ROUTERS:
        app.include_router(router)
    app.state.routes = routes_in(ROUTERS)
    app.add_exception_handler(Problem, _tell)
    for method, path in sorted(app.state.routes - ROUTES.keys()):
        raise LookupError(f"route {method} {path} has no row in the table of access")
    return app


def _tell(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem_response(request, problem)

"""The application: every route of API and pages, with the table of access in front of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from flashferry.service.access import ROUTES, Access, routes_in
from flashferry.service.api import health, plans
from flashferry.service.pages import assets, tonight
from flashferry.service.pages.frame import problem_page
from flashferry.service.people.guard import guarded
from flashferry.service.people.headers import SecurityHeaders
from flashferry.service.people.refusals import RefusalBook
from flashferry.service.problems import Problem, problem_response
from flashferry.service.service import Service

ROUTERS = (health.router, plans.router, assets.router, tonight.router)
"""Of all subjects."""


def build_app(
    service: Service,
    routers: Sequence[APIRouter] | None = None,
    table: Mapping[tuple[str, str], Access] = ROUTES,
) -> FastAPI:
    """Return the application.

    Args:
        service: The service.
        routers: Those of its subjects; None: `ROUTERS`.
        table: Who may call what.

    Raises:
        LookupError: A route has no row in the table; nobody could say who may call it.
    """
    # A redirect to the path with or without its slash is made of the Host that a client sent.
    app = FastAPI(title="flashferry", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.service = service
    app.state.problem_page = problem_page
    app.state.refusals = RefusalBook(service)
    for router in routers or ROUTERS:
        # Not by `include_router`, which puts them behind one object that shows neither paths nor methods.
        app.router.routes += guarded(router.routes, table, service, app.state.refusals)
    app.state.routes = routes_in(routers or ROUTERS)
    app.add_exception_handler(Problem, _tell)
    app.add_exception_handler(HTTPException, _tell_of_http)
    app.add_exception_handler(RequestValidationError, _tell_of_input)
    app.add_middleware(SecurityHeaders, settings=service.settings)
    return app


def _tell(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem_response(request, problem)


def _tell_of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    response = problem_response(
        request,
        Problem(status, f"{request.method} here: {status.phrase}", hint="Read docs/service.md for what there is"),
    )
    response.headers.update(error.headers or {})
    return response


def _tell_of_input(request: Request, error: Exception) -> Response:
    """Say where the input is wrong and how, yet never what it was: it may be a password."""
    assert isinstance(error, RequestValidationError)
    found = "; ".join(f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()[:5])
    problem = Problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"expected other input: {found}",
        hint="Send what the API's description asks for",
    )
    return problem_response(request, problem)

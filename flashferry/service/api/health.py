"""Routes about the service itself: liveness, readiness, Prometheus metrics, and the OpenAPI document.

The public routes name the failing check without its reason. Metrics need a role at all sites, or an address in
`[metrics] networks`, because totals of jobs, plans and notices cannot be split by site.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from flashferry.service.access import ROUTES, SCRAPES, Access
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.api.problems import MEDIA_TYPE
from flashferry.service.background import BackgroundTasks, checks_of
from flashferry.service.errors import Forbidden
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.metrics.collector import Figures
from flashferry.service.principal import Actor, Via

router = APIRouter()

FIGURES_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format, which every release reads."""


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Report that the process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request, response: Response, service: TheService) -> dict[str, object]:
    """Report whether database and journal are readable, disk space is left and all background tasks succeed."""
    checks = checks_of(service)
    background_tasks = request.app.state.background_tasks
    if isinstance(background_tasks, BackgroundTasks):
        checks |= {f"keeper {state.name}": state.is_good for state in background_tasks.states()}
    is_ready = all(checks.values())
    response.status_code = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return {"status": "ready" if is_ready else "not ready", "looks": checks}


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, actor: TheActor) -> Response:
    """Return all metrics, at most a few seconds old."""
    _check_whole(actor)
    state = request.app.state
    figures, reader, background_tasks = state.figures, state.reader, state.background_tasks
    assert isinstance(figures, Figures)
    assert isinstance(reader, SnapshotReader)
    states = background_tasks.states() if isinstance(background_tasks, BackgroundTasks) else ()
    return Response(figures.text(reader, states), media_type=FIGURES_TYPE)


def _check_whole(actor: Actor) -> None:
    """Refuse callers whose roles are limited to some sites."""
    if actor.via is not Via.NONE and not actor.may(SCRAPES.roles, ()):
        raise Forbidden(
            "expected a role at all sites, found one at some: metrics cover all sites",
            hint="Scrape with the token of a viewer of all sites",
        )


PROBLEM = {
    "type": "object",
    "description": "What went wrong, and what to do about it (RFC 9457).",
    "required": ["type", "title", "status", "detail", "hint"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence: what was expected, what was found."},
        "hint": {"type": "string", "description": "What to do."},
        "instance": {"type": "string"},
    },
}
_RETRY_AFTER = {
    "description": "Of each 429, and of a 503 that passes: seconds after which to ask again.",
    "schema": {"type": "integer"},
}
_FASTAPIS_OWN = ("HTTPValidationError", "ValidationError")
_METHODS = frozenset({"get", "post", "put", "patch", "delete"})
_DESCRIPTION = (
    "The API of flashferry's staging service. Programs send `Authorization: Bearer` with a token from "
    "the page /me; steering a run takes a reason, and starting one an `Idempotency-Key`. "
    "See docs/service.md."
)


@router.get("/api/v1/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return Response(openapi_text(request.app.routes), media_type="application/json")


def openapi_text(routes: Iterable[BaseRoute]) -> str:
    """Return the document as text with sorted keys, so that any difference is a real change."""
    return json.dumps(document(routes), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of some routes."""
    made = get_openapi(
        title="flashferry staging service",
        version="1",
        description=_DESCRIPTION,
        routes=list(routes),
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name in _FASTAPIS_OWN:
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    made["components"]["headers"] = {"RetryAfter": _RETRY_AFTER}
    made["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-flashferry"},
    }
    rows = {(method, written(path)): row for (method, path), row in ROUTES.items()}
    for path, item in made["paths"].items():
        for method in _METHODS & item.keys():
            _complete(item[method], rows.get((method.upper(), path), Access()))
    return made


def written(path: str) -> str:
    """Return a route's path without converters, as OpenAPI writes it."""
    return path.replace(":path}", "}")


def _complete(operation: dict[str, Any], access: Access) -> None:
    """Add the roles and the error schema to an operation."""
    answers: dict[str, Any] = operation["responses"]
    # FastAPI's own error schema, which is never used.
    answers.pop("422", None)
    answers["default"] = {
        "description": "A problem",
        "headers": {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}},
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    operation["security"] = [] if access.is_public else [{"token": []}, {"session": []}]
    operation["x-access"] = _details(access)


def _details(access: Access) -> Mapping[str, object]:
    return {
        "roles": sorted(access.roles),
        "is_public": access.is_public,
        "is_per_site": access.is_per_site,
        "not_own": access.not_own,
    }

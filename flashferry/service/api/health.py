"""Liveness and readiness for probes, and metrics for Prometheus.

The public routes name the failing check without its reason. Metrics need a role at all sites, or an address in
`[metrics] networks`, because totals of jobs, plans and notices cannot be split by site.
"""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from flashferry.service.access import SCRAPES
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.background import BackgroundTasks
from flashferry.service.errors import Forbidden
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.metrics.collector import Figures
from flashferry.service.principal import Actor, Via
from flashferry.service.readiness import checks_of

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

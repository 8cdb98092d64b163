"""Liveness and readiness for probes, and metrics for Prometheus.

The public routes name the failing check without its reason. Metrics need a role at all sites, or an address in
`[metrics] networks`, because totals of jobs, plans and notices cannot be split by site.
"""

from __future__ import annotations

import shutil
import sqlite3
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from flashferry.core.errors import FlashferryError
from flashferry.service.access import SCRAPES
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.background import BackgroundTasks
from flashferry.service.errors import Forbidden
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.metrics.collector import Figures
from flashferry.service.principal import Actor, Via
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.audit import entries
from flashferry.store.tables import latest_runs

router = APIRouter()

LEAST_FREE_BYTES = 64 * 2**20
"""With less space on the state folder's disk the service is not ready."""

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


def checks_of(service: Service) -> dict[str, bool]:
    """Return each readiness check by name, and whether it passes."""
    return {
        "database": _has_database(service),
        "journal": _has_journal(service),
        "disk": shutil.disk_usage(service.state).free >= LEAST_FREE_BYTES,
    }


def _has_database(service: Service) -> bool:
    try:
        with service.database.reading() as database:
            next(entries(database, most=1), None)
    except sqlite3.Error:
        return False
    return True


def _has_journal(service: Service) -> bool:
    """Return whether the journal can be read, or does not exist yet (before the first run)."""
    try:
        with reading(service.state) as journal:
            if journal is not None:
                latest_runs(journal, 1)
    except FlashferryError:
        return False
    return True

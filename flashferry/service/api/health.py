"""Whether the service is there and fit to work, for proxies, supervisors and probes; and its figures, for Prometheus.

Anybody may ask for the first two, so they name what is wrong and tell nothing of why: the log and the page of the
service's health do. Who scrapes figures sends the token of somebody with a role everywhere, or comes from one of
`[metrics] networks`, which the guard has looked at. Who may see some sites only is refused here: sums of jobs, plans
and notices cannot be told apart by site, and a part of them would be a wrong figure.
"""

from __future__ import annotations

import shutil
import sqlite3
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from flashferry.service.errors import Forbidden
from flashferry.core.errors import FlashferryError
from flashferry.service.access import SCRAPES
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.background import Keepers
from flashferry.service.live.collect import Looker
from flashferry.service.metrics.collector import Figures
from flashferry.service.principal import Actor, Via
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.audit import entries
from flashferry.store.tables import latest_runs

router = APIRouter()

LEAST_FREE_BYTES = 64 * 2**20
"""With less room on the disk of the state folder the service is not ready."""

FIGURES_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' own text format, which every release of it reads."""


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """Say that the process answers; nothing else is looked at."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request, response: Response, service: TheService) -> dict[str, object]:
    """Say whether database and journal can be read, the disk has room, and no background thread's last look failed."""
    looks = looks_of(service)
    keepers = request.app.state.keepers
    if isinstance(keepers, Keepers):
        looks |= {f"keeper {state.name}": state.is_good for state in keepers.states()}
    is_ready = all(looks.values())
    response.status_code = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return {"status": "ready" if is_ready else "not ready", "looks": looks}


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, actor: TheActor) -> Response:
    """Tell all figures as Prometheus reads them, some seconds old at most."""
    _check_whole(actor)
    state = request.app.state
    figures, looker, keepers = state.figures, state.looker, state.keepers
    assert isinstance(figures, Figures)
    assert isinstance(looker, Looker)
    states = keepers.states() if isinstance(keepers, Keepers) else ()
    return Response(figures.text(looker, states), media_type=FIGURES_TYPE)


def _check_whole(actor: Actor) -> None:
    """Refuse who may look at some sites only; nobody without a role comes here but from the networks.

    Raises:
        ServiceError: He may not look at all sites.
    """
    if actor.via is not Via.NONE and not actor.may(SCRAPES.roles, ()):
        raise Forbidden(
            "expected a role for all sites, found one for some: figures are of all of them",
            hint="Scrape with the token of somebody who is a viewer everywhere",
        )


def looks_of(service: Service) -> dict[str, bool]:
    """Return what the service cannot work without, and whether it is as it must be."""
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
    """Tell whether the journal can be read; one that no run has made yet can."""
    try:
        with reading(service.state) as journal:
            if journal is not None:
                latest_runs(journal, 1)
    except FlashferryError:
        return False
    return True

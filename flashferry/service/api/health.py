"""Whether the service is there, and whether it is fit to work: for proxies, supervisors and probes.

Anybody may ask, so the answers name what is wrong and tell nothing of why: the log and the page of the service's health
do.
"""

from __future__ import annotations

import shutil
import sqlite3
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from flashferry.core.errors import FlashferryError
from flashferry.service.api.depends import TheService
from flashferry.service.keepers import Keepers
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.audit import entries
from flashferry.store.tables import latest_runs

router = APIRouter()

LEAST_FREE_BYTES = 64 * 2**20
"""With less room on the disk of the state folder the service is not ready."""


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

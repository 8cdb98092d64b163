"""Readiness checks of the service: database, journal and disk space."""

from __future__ import annotations

import shutil
import sqlite3

from flashferry.core.errors import FlashferryError
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.audit import entries
from flashferry.store.tables import latest_runs

LEAST_FREE_BYTES = 64 * 2**20
"""With less space on the state folder's disk the service is not ready."""


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

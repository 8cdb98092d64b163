"""The service's database: its file and its tables."""

from __future__ import annotations

from flashferry.store.own_database import OwnDatabase, moment, moment_of
from flashferry.store.service.schema import FILE, STEPS

__all__ = ["ServiceDatabase", "moment", "moment_of"]


class ServiceDatabase(OwnDatabase):
    """The service's tables in a state folder."""

    file, steps = FILE, STEPS
    called = "the service's database"
    kept = "runs and their journal are untouched"

"""The service's database: its file and its tables."""

from __future__ import annotations

import json

from flashferry.store.own_database import OwnDatabase, moment, moment_of
from flashferry.store.service.schema import FILE, STEPS

__all__ = ["ServiceDatabase", "moment", "moment_of", "names_in"]


class ServiceDatabase(OwnDatabase):
    """The service's tables in a state folder."""

    file, steps = FILE, STEPS
    called = "the service's database"
    kept = "runs and their journal are untouched"


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that a column keeps as JSON.

    A half character, which was taken in once, is written as Python writes it: no answer can hold it.
    """
    return tuple(name.encode("utf-8", "backslashreplace").decode() for name in json.loads(text))

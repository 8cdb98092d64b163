"""The journal opened to be read, and which run an operator means: an identifier, a part of one, or `latest`.

Asking neither makes nor changes a journal (sqlite.org/uri.html, `mode=ro`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.store.database_file import OtherSchema, is_empty, open_to_read
from flashferry.store.schema import FILE, another_hint, checked_schema
from flashferry.store.tables import runs_by_age

LATEST_RUNS = 10
"""Runs that are shown by default."""


@contextmanager
def reading(directory: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield the journal's database at one moment, to be read only, or None where there is none.

    Raises:
        ConfigInvalid: There is one and it cannot be read, or it is of another schema.
    """
    try:
        with open_to_read(directory / FILE) as database:
            # Another run of this instant may have made the file, and not its tables yet.
            if database is not None and is_empty(database):
                database = None
            if database is not None:
                checked_schema(database)
                # What a run writes meanwhile belongs to the next look: the tables fit one another.
                database.execute("BEGIN")
            yield database
    except OtherSchema as error:
        raise ConfigInvalid(f"the journal in {directory} was {error}", hint=another_hint(directory)) from None
    except (OSError, sqlite3.Error) as error:
        raise ConfigInvalid(
            f"the journal in {directory} cannot be read: {error}", hint="Check --state-dir and the file's rights"
        ) from None


LATEST = "latest"
_NAMED = 5


def find_run(directory: Path, given: str, *, verb: str | None = None) -> str:
    """Return the identifier of the run that is meant.

    Args:
        directory: State directory.
        given: An identifier, its beginning or end where that is unique, or `latest`.
        verb: Only runs of this verb count.

    Raises:
        ConfigInvalid: No run, or more than one, is meant; or the journal cannot be read.
    """
    with reading(directory) as database:
        rows = runs_by_age(database) if database is not None else []
        known = [run_id for run_id, its_verb in rows if verb is None or its_verb == verb]
    return chosen(given, known, verb)


def chosen(given: str, known: Sequence[str], verb: str | None = None) -> str:
    """Return the run that is meant, of those known, the oldest first. Errors as in `find_run`."""
    what = f"{verb} run" if verb else "run"
    if given == LATEST and known:
        return known[-1]
    if given in known:
        return given
    found = [run_id for run_id in known if given and (run_id.startswith(given) or run_id.endswith(given))]
    if len(found) > 1:
        raise ConfigInvalid(
            f"{what} {given!r} could be {len(found)} runs: {', '.join(found[-_NAMED:])}",
            hint="Give more of its name",
        )
    if not found:
        raise unknown_run(given, known, what)
    return found[0]


def unknown_run(given: str, known: Sequence[str], what: str = "run") -> ConfigInvalid:
    """Return the error for an unknown run; `known` has the oldest first."""
    if not known:
        who = "" if given == LATEST else f"unknown {what} {given!r}: "
        return ConfigInvalid(f"{who}the journal has no {what} yet", hint="Check --state-dir")
    return ConfigInvalid(
        f"unknown {what} {given!r}: the newest is {known[-1]}",
        hint="'flashferry run list' shows them; check --state-dir",
    )

"""Read-only access to the journal, and the state of a run by its row and its lock file.

A live run holds a lock on its file; the kernel releases it however the process ends.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.state_folder import lock, open_private
from flashferry.model.states import RunState
from flashferry.store.database import OtherSchema, is_empty, open_to_read
from flashferry.store.schema import FILE, another_hint, checked_schema
from flashferry.store.tables import runs_by_age

_TRIES = 20

_PAUSE_S = 0.01


def lock_of(directory: Path, run_id: str) -> Path:
    """Return the lock file of a run."""
    return directory / "runs" / f"{run_id}.lock"


def taken_lock(directory: Path, run_id: str) -> IO[str]:
    """Take a run's lock and return the open file that holds it.

    Raises:
        BlockingIOError: It is taken.
        OSError: The file cannot be created.
    """
    for tries_left in reversed(range(_TRIES)):
        held = open_private(lock_of(directory, run_id), "a")
        if not lock(held):
            held.close()
            # A process that only checks the run holds the lock for a moment.
            if not tries_left:
                raise BlockingIOError(f"the lock of run {run_id} is taken")
            time.sleep(_PAUSE_S)
            continue
        if _is_in_place(held, lock_of(directory, run_id)):
            return held
        # Its owner removed the file between our open and our lock.
        held.close()
    raise BlockingIOError(f"the lock of run {run_id} does not come to rest")


def is_run_alive(directory: Path, run_id: str) -> bool:
    """Return whether the process of a run is alive."""
    try:
        with open_private(lock_of(directory, run_id), "r") as probe:
            # Shared, so that two concurrent checks do not take each other for the run.
            return not lock(probe, is_shared=True)
    except FileNotFoundError:
        return False


def locked_runs(directory: Path) -> tuple[str, ...]:
    """Return the runs that have a lock file, alive or dead; a run that finishes removes it."""
    try:
        return tuple(sorted(path.stem for path in (directory / "runs").glob("*.lock")))
    except OSError:
        return ()


def _is_in_place(held: IO[str], path: Path) -> bool:
    try:
        return path.stat().st_ino == os.fstat(held.fileno()).st_ino
    except FileNotFoundError:
        return False


def run_state(directory: Path, run_id: str, finished_at: str | None) -> RunState:
    """Return the state of a run.

    Args:
        directory: State directory.
        run_id: The run.
        finished_at: When it finished, or None.
    """
    if finished_at is not None:
        return RunState.FINISHED
    return RunState.ALIVE if is_run_alive(directory, run_id) else RunState.DIED


LATEST_RUNS = 10
"""Number of runs shown by default."""


@contextmanager
def reading(directory: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a read-only connection to the journal in one consistent state; None if there is no journal.

    Raises:
        ConfigInvalid: It cannot be read, or is of another schema.
    """
    try:
        with open_to_read(directory / FILE) as database:
            # Another run may just have created the file, and not its tables yet.
            if database is not None and is_empty(database):
                database = None
            if database is not None:
                checked_schema(database)
                # One transaction, so that the tables are consistent while a run writes.
                database.execute("BEGIN")
            yield database
    except OtherSchema as error:
        raise ConfigInvalid(f"the journal in {directory} was {error}", hint=another_hint(directory)) from None
    except (OSError, sqlite3.Error) as error:
        raise ConfigInvalid(
            f"the journal in {directory} cannot be read: {reason_of(error)}",
            hint="Check --state-dir and the file's permissions",
        ) from None


LATEST = "latest"

_NAMED = 5


def find_run(directory: Path, given: str, *, verb: str | None = None) -> str:
    """Return the identifier of a run.

    Args:
        directory: State directory.
        given: An identifier, its beginning or end if unique, or `latest`.
        verb: Only consider runs of this verb.

    Raises:
        ConfigInvalid: No run or several match, or the journal cannot be read.
    """
    with reading(directory) as database:
        rows = runs_by_age(database) if database is not None else []
        known = [run_id for run_id, its_verb in rows if verb is None or its_verb == verb]
    return chosen(given, known, verb)


def chosen(given: str, known: Sequence[str], verb: str | None = None) -> str:
    """Return the matching run of those known, the oldest first; see `find_run`."""
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

"""Where a run stands, by its row and by the lock that it holds on a file while it lives, whatever ends it."""

from __future__ import annotations

import os
import time
from enum import StrEnum
from pathlib import Path
from typing import IO

from flashferry.core.state_folder import lock, open_private

_TRIES = 20
_PAUSE_S = 0.01


def lock_of(directory: Path, run_id: str) -> Path:
    """Return the file whose lock a run holds."""
    return directory / "runs" / f"{run_id}.lock"


def taken_lock(directory: Path, run_id: str) -> IO[str]:
    """Take a run's lock and return the file that holds it until it is closed.

    Raises:
        BlockingIOError: Another process, or another journal of this one, holds it.
        OSError: The file cannot be made.
    """
    for tries_left in reversed(range(_TRIES)):
        held = open_private(lock_of(directory, run_id), "a")
        if not lock(held):
            held.close()
            # Who merely asks whether the run lives holds the lock for an instant.
            if not tries_left:
                raise BlockingIOError(f"the lock of run {run_id} is taken")
            time.sleep(_PAUSE_S)
            continue
        if _is_in_place(held, lock_of(directory, run_id)):
            return held
        # Its owner ended and removed the file between our opening and our locking it.
        held.close()
    raise BlockingIOError(f"the lock of run {run_id} does not come to rest")


def is_run_alive(directory: Path, run_id: str) -> bool:
    """Return whether the process that opened a run still lives."""
    try:
        with open_private(lock_of(directory, run_id), "r") as probe:
            # Shared, so that two who ask at the same time don't take each other for the run.
            return not lock(probe, is_shared=True)
    except FileNotFoundError:
        return False


def locked_runs(directory: Path) -> tuple[str, ...]:
    """Return the runs that have a lock file, alive or dead: one that ends in good order removes it."""
    try:
        return tuple(sorted(path.stem for path in (directory / "runs").glob("*.lock")))
    except OSError:
        return ()


def _is_in_place(held: IO[str], path: Path) -> bool:
    try:
        return path.stat().st_ino == os.fstat(held.fileno()).st_ino
    except FileNotFoundError:
        return False


class RunState(StrEnum):
    """Where a run stands."""

    ALIVE = "alive"
    FINISHED = "finished"
    DIED = "died"


def run_state(directory: Path, run_id: str, finished_at: str | None) -> RunState:
    """Return where a run stands.

    Args:
        directory: State directory.
        run_id: The run.
        finished_at: When it ended in good order, or None.
    """
    if finished_at is not None:
        return RunState.FINISHED
    return RunState.ALIVE if is_run_alive(directory, run_id) else RunState.DIED

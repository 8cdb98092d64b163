"""Where a run stands: by its row, and by the lock that it holds while it lives."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from staging.run_lock import is_run_alive


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

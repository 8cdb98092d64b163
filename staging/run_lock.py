"""Whether a run lives: it holds a lock on a file while it does, whatever ends it."""

from __future__ import annotations

import fcntl
from pathlib import Path


def is_run_alive(directory: Path, run_id: str) -> bool:
    """Return whether the process that opened a run still lives.

    Args:
        directory: State directory.
        run_id: The run.
    """
    try:
        with (directory / "runs" / f"{run_id}.lock").open("r") as probe:
            # Shared, so that two who ask at the same time don't take each other for the run.
            fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False

"""A small JSON file that may be missing, damaged or impossible to write: it costs time then, never a run."""

import contextlib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

_LOG = logging.getLogger("flashferry.ftpserver")


def load(path: Path, consequence: str) -> Any:
    """Return what a file holds; None if there is none or it cannot be read, which is logged with its consequence."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        complain(path, error, consequence)
        return None


def complain(path: Path, error: Exception, consequence: str) -> None:
    """Log that a file cannot be read, or holds something else than it should."""
    _LOG.warning("%s cannot be read (%s); %s", path, error, consequence)


def store(path: Path, data: Any, consequence: str) -> None:
    """Write a file anew; where that fails, it is logged with its consequence."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, data)
    except OSError as error:
        _LOG.warning("%s cannot be written (%s); %s", path, error, consequence)


def _put(path: Path, data: Any) -> None:
    # Written beside and renamed, so that a crash leaves the old file and not half of a new one.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(data, file)
        Path(temporary).replace(path)
    except BaseException:
        # On a full disk each of them would take room that is wanted, and nobody would clear them away.
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise

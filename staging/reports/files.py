"""Writing a report to a file: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from inventory.errors import ConfigInvalid


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it sees the old text or the new one, never a part; on disk when this returns.

    It gets the rights that a new file of this user gets: a report is there to be handed on.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise ConfigInvalid(
            f"--output {path}: cannot be written: {error.strerror or error}", hint="Give a file in a folder of yours"
        ) from None


def _umask() -> int:
    present = os.umask(0o077)
    os.umask(present)
    return present

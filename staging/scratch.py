"""Folders for files that a command needs only while it runs, below the state: what a kill leaves, the next one removes.

A folder of the system's for temporary files is cleaned by nobody we know of, may be small, and others write there.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from staging.state_files import make_private_directory, open_private

_FOLDER = "scratch"
_LOCK = ".lock"


@contextmanager
def scratch_folder(directory: Path) -> Iterator[Path]:
    """Yield an empty folder below a state directory, which ends with the block, or with the next command.

    Raises:
        ConfigInvalid: The state directory is not ours alone.
        OSError: The folder cannot be made.
    """
    make_private_directory(directory)
    sweep(directory)
    make_private_directory(directory / _FOLDER)
    folder = Path(tempfile.mkdtemp(dir=directory / _FOLDER))
    try:
        with open_private(folder / _LOCK, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / "files").mkdir()
            yield folder / "files"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(directory: Path) -> None:
    """Remove the folders of commands that were killed; those of commands that live stay."""
    try:
        folders = list((directory / _FOLDER).iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not _is_in_use(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_in_use(folder: Path) -> bool:
    """Tell whether a command that lives has a folder; one that is being made, and has no lock yet, counts as one."""
    try:
        with (folder / _LOCK).open("r") as probe:
            fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return any(folder.iterdir()) is False
    except OSError:
        return True
    return False

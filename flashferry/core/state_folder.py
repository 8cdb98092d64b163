"""The state folder: private to its owner, and none of its files is opened through a link.

Its content decides what is typed into routers. A user who could write there could have us type something else, and a
link instead of a lock or of the journal would have us write wherever it leads.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from flashferry.core.errors import ConfigInvalid

_FOLDER = "scratch"
_LOCK = ".lock"
_TRIES = 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private_directory(directory: Path) -> None:
    """Create a state directory if missing, and check an existing one.

    Raises:
        ConfigInvalid: It belongs to another user, others may write there, or it is no directory.
        OSError: It cannot be created.
    """
    # 0700: host names and configuration lines are not for other users.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)


def check_directory(directory: Path) -> None:
    """Check that only its owner may write in a state directory.

    Raises:
        ConfigInvalid: Others may, or it belongs to another user.
        OSError: It cannot be accessed.
    """
    found = directory.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigInvalid(
            f"state directory {directory}: expected one of our own, found one of user {found.st_uid}",
            hint="Give another one with --state-dir, or run flashferry as that user",
        )
    if found.st_mode & _OTHERS_WRITE:
        raise ConfigInvalid(
            f"state directory {directory}: expected one that its owner alone may write, found mode "
            f"{stat.S_IMODE(found.st_mode):04o}: what stands there is typed into devices",
            hint=f"Run 'chmod go-w {directory}' once you know who wrote there",
        )


def check_regular(path: Path) -> None:
    """Check that a state file, if it exists, is a regular file of this user.

    Raises:
        ConfigInvalid: It is a link, a pipe or the like, or another user's.
        OSError: It cannot be accessed.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), 0):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "something else"
        kind = f"a file of user {found.st_uid}" if stat.S_ISREG(found.st_mode) else kind
        raise ConfigInvalid(
            f"state file {path}: expected a file of our own, found {kind}",
            hint="Find out who put it there, and move it away",
        )


def open_private(path: Path, mode: str) -> IO[Any]:
    """Open a state file without following a link; a file that this creates is private.

    Args:
        path: The file.
        mode: As in `open`.

    Raises:
        ConfigInvalid: The path leads to a link or another kind of file.
        OSError: It cannot be opened.
    """
    check_regular(path)
    return open(path, mode, opener=_open_itself)


def _open_itself(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def lock(file: IO[Any], *, is_shared: bool = False, waits: bool = False) -> bool:
    """Lock an open file until it is closed, also by the end of the process.

    Args:
        file: The file.
        is_shared: Whether to take a shared lock, for example to test whether another process has an exclusive one.
        waits: Whether to wait until the lock is free.

    Returns:
        Whether the lock was taken; False if another process, or another open file of this one, has it.

    Raises:
        OSError: The file cannot be locked.
    """
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if waits else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def scratch_folder(directory: Path) -> Iterator[Path]:
    """Yield an empty folder in a state directory for temporary files; it is removed at the end of the block.

    If the command is killed, the next command removes it. The system's folder for temporary files is not used: it may
    be small or never cleaned, and other users write there.

    Raises:
        ConfigInvalid: The state directory is not private.
        OSError: The folder cannot be created.
    """
    make_private_directory(directory)
    sweep(directory)
    folder = _made_below(directory / _FOLDER)
    try:
        with open_private(folder / _LOCK, "w") as held:
            lock(held)
            (folder / "files").mkdir()
            yield folder / "files"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        # Another command's folder in it keeps it.
        with suppress(OSError):
            folder.parent.rmdir()


def _made_below(directory: Path) -> Path:
    """Create a folder in a directory that another command may meanwhile remove because it is empty."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            make_private_directory(directory)
            return Path(tempfile.mkdtemp(dir=directory))
    make_private_directory(directory)
    return Path(tempfile.mkdtemp(dir=directory))


def sweep(directory: Path) -> None:
    """Remove the scratch folders of killed commands; those of running commands stay."""
    try:
        folders = list((directory / _FOLDER).iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not _is_in_use(folder):
            shutil.rmtree(folder, ignore_errors=True)


def state_entries(directory: Path, *, besides: Path | None = None) -> Iterator[Path]:
    """Yield the files and folders in a state directory, after the scratch folders of killed commands were removed.

    Args:
        directory: The directory, which must exist.
        besides: A scratch folder of this command, which is not yielded.

    Raises:
        OSError: It cannot be accessed.
    """
    sweep(directory)
    for path in directory.iterdir():
        if path.name == _FOLDER and path.is_dir() and not path.is_symlink():
            yield from (one for one in path.iterdir() if besides is None or one != besides.parent)
        else:
            yield path


def _is_in_use(folder: Path) -> bool:
    """Return whether a running command uses a scratch folder; one that is being created has no lock yet, and counts."""
    try:
        with (folder / _LOCK).open("r") as probe:
            return not lock(probe, is_shared=True)
    except FileNotFoundError:
        return any(folder.iterdir()) is False
    except OSError:
        return True

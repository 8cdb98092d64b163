"""The folder that keeps our state: private to its owner, and no file of it is reached by a link.

What stands in it decides what is typed into routers. Who else could write there could have us type something else, and
a link in the place of a lock or of the journal would have us write wherever it leads.
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
    """Make a state directory where there is none, and check one that is there.

    Raises:
        ConfigInvalid: It belongs to another user, others may write there, or it is no directory.
        OSError: It cannot be made.
    """
    # 0700: host names and configuration lines are not for other users.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)


def check_directory(directory: Path) -> None:
    """Check that only its owner may write in a state directory.

    Raises:
        ConfigInvalid: Others may, or it belongs to another user.
        OSError: It cannot be looked at.
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
    """Check that a file of ours is one, if it is there: not a link, a pipe, or another user's.

    Raises:
        ConfigInvalid: It is something else.
        OSError: It cannot be looked at.
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
    """Open a file of ours by itself, never what a link in its place leads to; one that is made is private.

    Args:
        path: The file.
        mode: As `open` takes it.

    Raises:
        ConfigInvalid: There is a link or something else in its place.
        OSError: It cannot be opened.
    """
    check_regular(path)
    return open(path, mode, opener=_open_itself)


def _open_itself(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def lock(file: IO[Any], *, is_shared: bool = False, waits: bool = False) -> bool:
    """Take the lock of an open file, which ends when the file is closed, whatever ends its process.

    Args:
        file: The file.
        is_shared: Whether others may have it so too: for asking whether another process has it alone.
        waits: Whether to wait for who has it.

    Returns:
        Whether the lock is ours; False where another process, or another opening of this one, has it.

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
    """Yield an empty folder below a state directory, which ends with the block, or with the next command.

    Nothing of it stays behind, nor the folder above it, where no other command has one there.

    For files that a command needs only while it runs. A folder of the system's for temporary files is never cleaned
    we know of, may be small, and others write there.

    Raises:
        ConfigInvalid: The state directory is not ours alone.
        OSError: The folder cannot be made.
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
    """Make a folder in one that another command may remove as empty meanwhile."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            make_private_directory(directory)
            return Path(tempfile.mkdtemp(dir=directory))
    make_private_directory(directory)
    return Path(tempfile.mkdtemp(dir=directory))


def sweep(directory: Path) -> None:
    """Remove the folders of commands that were killed; those of commands that live stay."""
    try:
        folders = list((directory / _FOLDER).iterdir())
    except OSError:
        return
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not _is_in_use(folder):
            shutil.rmtree(folder, ignore_errors=True)


def found_in(directory: Path, *, besides: Path | None = None) -> Iterator[Path]:
    """Yield what is in a state directory; the scratch folders of commands that were killed are removed, and are none.

    Args:
        directory: The directory, which is there.
        besides: A scratch folder of this command, which is none either.

    Raises:
        OSError: It cannot be looked at.
    """
    sweep(directory)
    for path in directory.iterdir():
        if path.name == _FOLDER and path.is_dir() and not path.is_symlink():
            yield from (one for one in path.iterdir() if besides is None or one != besides.parent)
        else:
            yield path


def _is_in_use(folder: Path) -> bool:
    """Return whether a command that lives has a folder; one that is being made, and has no lock yet, counts as one."""
    try:
        with (folder / _LOCK).open("r") as probe:
            return not lock(probe, is_shared=True)
    except FileNotFoundError:
        return any(folder.iterdir()) is False
    except OSError:
        return True

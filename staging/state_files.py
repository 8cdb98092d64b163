"""The folder that keeps our state: private to its owner, and no file of it is reached by a link.

What stands in it decides what is typed into routers. Who else could write there could have us type something else, and
a link in the place of a lock or of the journal would have us write wherever it leads.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Any

from inventory.errors import ConfigInvalid

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private_directory(directory: Path) -> None:
    """Make a state directory where there is none, and check one that is there.

    Raises:
        ConfigInvalid: It is somebody else's, others may write there, or it is no directory.
        OSError: It cannot be made.
    """
    # 0700: host names and configuration lines are nobody else's business.
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory)


def check_directory(directory: Path) -> None:
    """Check that nobody but its owner may write in a state directory.

    Raises:
        ConfigInvalid: Others may, or it is somebody else's.
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
    """Check that a file of ours is one, if it is there: not a link, a pipe, or somebody else's.

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

"""Files that a user named: opened only where they are plain files, and only below folders that were given.

An inventory, a rule or a plan may name anything: a pipe that is waited for without end, a device whose opening does
something, a link that leads out of the folder. So a file is looked at before it is opened, opened without waiting, and
looked at again; folders are compared with all links followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegular(OSError):
    """What a path names is no regular file; its `strerror` says what it is.

    Attributes:
        found: The same in a word or two.
    """

    found = "something else"


def check_regular(path: Path, *, follow_links: bool = True, folder_fd: int | None = None) -> os.stat_result:
    """Return the status of a regular file; nothing is opened. See `descriptor_of` for the arguments.

    Raises:
        NotRegular: It is a folder, a pipe, a device or a socket; or a link, where links are not followed.
        OSError: It is not there, or out of reach.
    """
    name = path if folder_fd is None else path.name
    if "\0" in str(name):
        # A plan may say so; the system's own word for it is no OSError.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return _checked(os.stat(name, dir_fd=folder_fd, follow_symlinks=follow_links), path)


def descriptor_of(path: Path, *, follow_links: bool = True, folder_fd: int | None = None) -> int:
    """Return a descriptor to read a regular file by; never waits.

    Args:
        path: The file.
        follow_links: Whether a link in its place stands for the file it leads to.
        folder_fd: Descriptor of the folder it is in, where that has been looked at already; None goes by the path.

    Raises:
        NotRegular: It is a folder, a pipe, a device or a socket; or a link, where links are not followed.
        OSError: It cannot be read.
    """
    check_regular(path, follow_links=follow_links, folder_fd=folder_fd)
    flags = _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW
    descriptor = os.open(path if folder_fd is None else path.name, flags, dir_fd=folder_fd)
    try:
        # It may be another one by now.
        _checked(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for the time of a block; errors as those of `descriptor_of`."""
    with os.fdopen(descriptor_of(path), "rb") as file:
        yield file


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path lies below one of some folders, all links followed; it need not exist."""
    try:
        whole = path.resolve()
        return any(whole.is_relative_to(folder.resolve()) for folder in folders)
    except (OSError, RuntimeError):  # a circle of links; Python before 3.13 has an error of its own for it
        return False


def _checked(status: os.stat_result, path: Path) -> os.stat_result:
    if stat.S_ISREG(status.st_mode):
        return status
    found = next((word for fits, word in _KINDS if fits(status.st_mode)), NotRegular.found)
    error = NotRegular(errno.EINVAL, f"expected a regular file, found {found}", str(path))
    error.found = found
    raise error

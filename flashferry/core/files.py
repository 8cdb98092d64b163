"""Files that somebody else named: opened only where they are plain files, and only below folders that were given.

An inventory, a rule or a plan may name anything: a pipe that is waited for without end, a device whose opening does
something, a link that leads out of the folder. So a file is looked at before it is opened, opened without waiting, and
looked at again; folders are compared with all links followed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from flashferry.core.errors import ConfigInvalid

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


# Writing a report to a file: whole or not at all.


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


# A small JSON file that may be missing, damaged or impossible to write: it costs time then, never a run.

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

"""Safe reading and writing of files: only regular files are opened, and files are written completely or not at all."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from flashferry.core.errors import ConfigInvalid, reason_of

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
    """A path leads to something else than a regular file; `strerror` says to what.

    Attributes:
        found: The same in a word or two.
    """

    found = "something else"


def check_regular(path: Path, *, follow_links: bool = True, folder_fd: int | None = None) -> os.stat_result:
    """Return the status of a regular file without opening it. See `descriptor_of` for the arguments.

    Raises:
        NotRegular: It is a folder, a pipe, a device or a socket; or a link, if links are not followed.
        OSError: It does not exist, or is not accessible.
    """
    name = path if folder_fd is None else path.name
    if "\0" in str(name):
        # A path from a plan may contain a NUL character, for which Python raises no OSError.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return _checked(os.stat(name, dir_fd=folder_fd, follow_symlinks=follow_links), path)


def descriptor_of(path: Path, *, follow_links: bool = True, folder_fd: int | None = None) -> int:
    """Open a regular file for reading and return its descriptor; never blocks.

    Args:
        path: The file.
        follow_links: Whether a link is followed to its file.
        folder_fd: Descriptor of the file's folder, if that is open already; None resolves the whole path.

    Raises:
        NotRegular: It is a folder, a pipe, a device or a socket; or a link, if links are not followed.
        OSError: It cannot be read.
    """
    check_regular(path, follow_links=follow_links, folder_fd=folder_fd)
    flags = _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW
    descriptor = os.open(path if folder_fd is None else path.name, flags, dir_fd=folder_fd)
    try:
        # Another file may have replaced it since the check.
        _checked(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading during a block; errors as those of `descriptor_of`."""
    with os.fdopen(descriptor_of(path), "rb") as file:
        yield file


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path is below one of some folders, with all links resolved; it need not exist."""
    try:
        whole = path.resolve()
        return any(whole.is_relative_to(folder.resolve()) for folder in folders)
    except (OSError, RuntimeError):  # a loop of links, for which Python before 3.13 raises RuntimeError
        return False


def _checked(status: os.stat_result, path: Path) -> os.stat_result:
    if stat.S_ISREG(status.st_mode):
        return status
    found = next((word for fits, word in _KINDS if fits(status.st_mode)), NotRegular.found)
    error = NotRegular(errno.EINVAL, f"expected a regular file, found {found}", str(path))
    error.found = found
    raise error


_LOG = logging.getLogger("flashferry.ftpserver")


def write_whole(
    path: Path, text: str | bytes | Iterable[str] | Callable[[int], str], *, is_private: bool, is_durable: bool = True
) -> None:
    """Replace a file atomically, text in UTF-8 with line ends unchanged.

    Args:
        path: The file; its folder must exist.
        text: Its new content, whole or in pieces, or a function that returns it, called with the new file's inode
            number.
        is_private: Whether only its owner can read it; otherwise it gets the default mode of this user's files.
        is_durable: Whether to wait until it is on disk.

    Raises:
        OSError: It cannot be written; the old content is unchanged.
    """
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".part")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            content = text(os.fstat(out.fileno()).st_ino) if callable(text) else text
            pieces = (content,) if isinstance(content, str | bytes) else content
            out.writelines(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
            if is_durable:
                out.flush()
                os.fsync(out.fileno())
        if not is_private:
            fresh.chmod(0o666 & ~_umask())
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def write_output(path: Path, text: str, *, option: str) -> None:
    """Write a file that the operator requested by an option; other users may read it.

    Args:
        path: The file.
        text: Its new content.
        option: Name of the option, for the error message.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        write_whole(path, text, is_private=False)
    except OSError as error:
        raise ConfigInvalid(
            f"{option} {path}: cannot be written: {error.strerror or error}", hint="Give a file in a folder of yours"
        ) from None


def check_writable(path: Path, *, option: str) -> None:
    """Check that a file that an option asks for can be written, before the work whose result it is to keep.

    Raises:
        ConfigInvalid: Its folder is missing or not ours to write to, or a folder has its name.
    """
    found = "a folder" if path.is_dir() else "" if path.parent.is_dir() else f"no folder {path.parent}"
    if not found and not os.access(path if path.exists() else path.parent, os.W_OK):
        found = "no right to write there"
    if found:
        raise ConfigInvalid(
            f"{option} {path}: expected a file to write to, found {found}", hint="Name a file in a folder of yours"
        )


def write_new(path: Path, text: str) -> bool:
    """Create a private file; return False if one exists, which is left unchanged.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be written: {error.strerror}",
            hint="Check the folder and its permissions, or name another file",
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk; only then is the replacement of a file in it durable.

    Raises:
        OSError: It cannot be opened or synced.
    """
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _umask() -> int:
    present = os.umask(0o077)
    os.umask(present)
    return present


class JsonCache:
    """A small JSON file as a cache. A failure to read or write it is logged, and never raised.

    Args:
        path: The file; its folder is created if missing.
        unread: Consequence if it cannot be read, for the log.
        unwritten: Consequence if it cannot be written, for the log.
    """

    def __init__(self, path: Path, *, unread: str, unwritten: str) -> None:
        self._path, self._unread, self._unwritten = path, unread, unwritten

    def load(self) -> Any:
        """Return the file's JSON value; None if it does not exist or cannot be read, which is logged."""
        try:
            return json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.complain(error)
            return None

    def complain(self, error: Exception) -> None:
        """Log that the file cannot be read, or holds something else than it should."""
        _LOG.warning("%s cannot be read: %s; %s", self._path, reason_of(error), self._unread)

    def store(self, data: Any) -> None:
        """Replace the file's content; a failure is logged."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(data), is_private=True, is_durable=False)
        except OSError as error:
            _LOG.warning("%s cannot be written (%s); %s", self._path, error, self._unwritten)

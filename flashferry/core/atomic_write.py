"""Write files whole or not at all: a reader sees the old content or the new one, never a part.

What is new is written beside the file and put in its place. Nothing of it stays where that fails: on a full disk each
rest would take disk space, and nothing would clear it away.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid

_LOG = logging.getLogger("flashferry.ftpserver")


def write_whole(
    path: Path, text: str | bytes | Callable[[int], str], *, is_private: bool, is_durable: bool = True
) -> None:
    r"""Write a file, text in UTF-8; line ends stay as they are.

    Args:
        path: The file; its folder must exist.
        text: Its new content, or what returns it, given the new file's own number in the file system (inode).
        is_private: Whether its owner alone may read it; else it gets the rights that a new file of this user gets.
        is_durable: Whether it is on disk when this returns.

    Raises:
        OSError: It cannot be written; what was there is there still.
    """
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.", suffix=".part")
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            content = text if isinstance(text, str | bytes) else text(os.fstat(out.fileno()).st_ino)
            out.write(content.encode() if isinstance(content, str) else content)
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


def write_asked(path: Path, text: str, *, option: str) -> None:
    """Write a file that an option asked for; others may read it, for it is there to be handed on.

    Args:
        path: The file.
        text: Its new content.
        option: The option, for complaints.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        write_whole(path, text, is_private=False)
    except OSError as error:
        raise ConfigInvalid(
            f"{option} {path}: cannot be written: {error.strerror or error}", hint="Give a file in a folder of yours"
        ) from None


def write_new(path: Path, text: str) -> bool:
    """Write a file to begin with, for its owner alone; return False where one is there, which stays as it is.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be written: {error.strerror}", hint="Check the folder and its rights, or name another file"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk: a file that was put in another's place is in it for good only then.

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
    """A small JSON file that may be missing, damaged or impossible to write: it costs time then, never a run.

    Args:
        path: The file; its folder is made if need be.
        unread: What follows where it cannot be read, for the log.
        unwritten: What follows where it cannot be written.
    """

    def __init__(self, path: Path, *, unread: str, unwritten: str) -> None:
        self._path, self._unread, self._unwritten = path, unread, unwritten

    def load(self) -> Any:
        """Return what the file holds; None if there is none or it cannot be read, which is logged."""
        try:
            return json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self.complain(error)
            return None

    def complain(self, error: Exception) -> None:
        """Log that the file cannot be read, or holds something else than it should."""
        _LOG.warning("%s cannot be read (%s); %s", self._path, error, self._unread)

    def store(self, data: Any) -> None:
        """Write the file anew; where that fails, it is logged."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(data), is_private=True, is_durable=False)
        except OSError as error:
            _LOG.warning("%s cannot be written (%s); %s", self._path, error, self._unwritten)

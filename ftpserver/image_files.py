"""Files that may be images: regular ones inside the folder on offer, opened so that nothing else can be in their place.

Facts
-----

- `open()` of a FIFO waits for a writer, of a terminal it may take control of it, and of some devices it does something.
  O_NONBLOCK and O_NOCTTY keep it from that, and `fstat` of what was opened says what it is (open(2)).
- O_NOFOLLOW is about the last part of a path alone, so folders on the way are opened one by one.
- A modification time can be set by anybody who may write (utimensat(2)), a change time by the kernel alone. Giving a
  file another name, another mode or no name at all also moves it, and leaves its content as it was.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ftpserver.errors import ImageUnreadable

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """What tells one state of a file on disk from another."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileIdentity":
        """Take it from a `stat` result."""
        return cls(
            device=status.st_dev,
            inode=status.st_ino,
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
        )

    @property
    def key(self) -> str:
        """A text that is equal exactly for equal identities."""
        return f"{self.device}:{self.inode}:{self.size_bytes}:{self.mtime_ns}:{self.ctime_ns}"


def has_content_of(identity: FileIdentity, opened: os.stat_result, now: os.stat_result) -> bool:
    """Tell whether an open file still has the content that was hashed.

    A change time that moved with names, owner or mode is explained by them: an image that is replaced by another one is
    still sent whole to who is fetching it. One that moved alone tells of a file that was written to, whatever its
    modification time says.

    Args:
        identity: The state that was hashed.
        opened: Its status right after it was opened in that state.
        now: Its status now.
    """
    found = FileIdentity.of(now)
    if (found.size_bytes, found.mtime_ns) != (identity.size_bytes, identity.mtime_ns):
        return False
    return found.ctime_ns == identity.ctime_ns or _administration(opened) != _administration(now)


def _administration(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_nlink, status.st_mode, status.st_uid, status.st_gid


def place_of(path: Path, folder: Path) -> Path:
    """Return where a file really is; a link to another file of the same folder is followed.

    Args:
        path: The file, or a link to it.
        folder: The folder on offer, itself without links.

    Raises:
        ImageUnreadable: It is outside the folder, or no regular file.
        OSError: It is missing, or cannot be looked at.
    """
    place = Path(os.path.realpath(path, strict=True))
    if not place.is_relative_to(folder):
        raise ImageUnreadable(
            f"{path}: expected a file of this folder, found a link out of it, to {place}; put the file itself there"
        )
    _require_regular(path, place.lstat())
    return place


def open_in(folder: Path, place: Path) -> int:
    """Open a regular file below a folder for reading, without following any link, and return its descriptor.

    Raises:
        ImageUnreadable: It is no regular file.
        OSError: It is missing or unreadable, or a link stands in its place or on the way to it.
    """
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    *folders, name = place.relative_to(folder).parts
    try:
        for part in folders:
            below = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = below
        # Looked at before it is opened, for opening a device may do something; and behind it, for the file may change.
        _require_regular(place, os.stat(name, dir_fd=held, follow_symlinks=False))
        return _regular(place, os.open(name, _FLAGS, dir_fd=held))
    finally:
        os.close(held)


def open_as(place: Path, identity: FileIdentity) -> int:
    """Open a file for reading and return its descriptor, if it still is the one that was hashed.

    Raises:
        ImageUnreadable: The file is gone, unreadable, or not the one that was hashed.
    """
    try:
        if FileIdentity.of(place.lstat()) != identity:
            raise ImageUnreadable(f"{place}: changed on disk since it was hashed")
        descriptor = os.open(place, _FLAGS)
    except OSError as error:
        raise ImageUnreadable(f"{place}: {error.strerror}") from error
    if FileIdentity.of(os.fstat(descriptor)) != identity:
        os.close(descriptor)
        raise ImageUnreadable(f"{place}: changed on disk since it was hashed")
    return descriptor


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        found = next((word for is_kind, word in _KINDS if is_kind(status.st_mode)), "something else")
        raise ImageUnreadable(f"{path}: expected a regular file, found {found}")


def _regular(path: Path, descriptor: int) -> int:
    try:
        _require_regular(path, os.fstat(descriptor))
    except ImageUnreadable:
        os.close(descriptor)
        raise
    return descriptor

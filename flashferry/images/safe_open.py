"""Safe opening of image files: regular files inside the served folder, and the very file that was hashed.

Facts
-----

- `open()` of a FIFO waits for a writer, and opening some devices has effects: `flashferry.core.files` checks first.
- O_NOFOLLOW applies only to the last part of a path, so the folders before it are opened one by one.
- A modification time can be set by every user with write permission (utimensat(2)), a change time (ctime) only by the
  kernel. Renaming a file, unlinking it or changing its mode also updates the ctime, and leaves the content unchanged.
"""

import os
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import NotRegular, check_regular, descriptor_of
from flashferry.images.errors import ImageUnreadable


class FileIdentity(Struct, frozen=True, kw_only=True):
    """What distinguishes one state of a file on disk from another."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileIdentity":
        """Return the identity in a `stat` result."""
        return cls(
            device=status.st_dev,
            inode=status.st_ino,
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
        )

    @property
    def key(self) -> str:
        """Text form, which is equal only for equal identities."""
        return f"{self.device}:{self.inode}:{self.size_bytes}:{self.mtime_ns}:{self.ctime_ns}"


Administration = tuple[int, int, int, int]


def has_content_of(identity: FileIdentity, opened: Administration, now: os.stat_result) -> bool:
    """Return whether an open file still has the content that was hashed.

    A change time that changed together with link count, owner or mode is explained by them, so an image that is
    replaced by another one is still sent completely to a device that is fetching it. A change time that changed alone
    means that the file was written to, whatever its modification time is.

    Args:
        identity: State of the file when it was hashed.
        opened: `administration` of the file right after it was opened.
        now: Its present status.
    """
    found = FileIdentity.of(now)
    if (found.size_bytes, found.mtime_ns) != (identity.size_bytes, identity.mtime_ns):
        return False
    return found.ctime_ns == identity.ctime_ns or opened != administration(now)


def administration(status: os.stat_result) -> Administration:
    """Return a file's link count, mode, owner and group, which may change without a change of its content."""
    return status.st_nlink, status.st_mode, status.st_uid, status.st_gid


def checked_image(path: Path) -> Path:
    """Check that a path leads to a readable image that is not empty, and return the path.

    Raises:
        ConfigInvalid: It is missing, no regular file, empty or unreadable.
    """
    try:
        if check_regular(path).st_size == 0:
            raise ConfigInvalid(
                f"image {path}: expected an image, found an empty file", hint="Copy the image there again"
            )
        os.close(descriptor_of(path))
    except FileNotFoundError:
        raise ConfigInvalid(f"image {path}: expected a file, found nothing", hint="Check the path") from None
    except NotRegular as error:
        raise ConfigInvalid(
            f"image {path}: expected a file, found {error.found}", hint="Give the path of the image file itself"
        ) from None
    except OSError as error:
        raise ConfigInvalid(
            f"image {path}: cannot be read: {error.strerror}", hint="Check the file's permissions"
        ) from None
    return path


def resolve_in(path: Path, folder: Path) -> Path:
    """Return a file's path with all links resolved; a link may lead to another file of the same folder.

    Args:
        path: The file.
        folder: The folder, itself without links.

    Raises:
        ImageUnreadable: The file is outside the folder, or no regular file.
        OSError: It is missing, or cannot be read.
    """
    place = Path(os.path.realpath(path, strict=True))
    if not place.is_relative_to(folder):
        raise ImageUnreadable(
            f"{path}: expected a file of this folder, found a link out of it, to {place}",
            hint="Put the file itself there",
        )
    try:
        check_regular(place, follow_links=False)
    except NotRegular as error:
        raise ImageUnreadable(f"{path}: {error.strerror}", hint="Put a plain file there") from None
    return place


def open_in(folder: Path, place: Path) -> int:
    """Open a regular file below a folder for reading, without following any link, and return its descriptor.

    Raises:
        ImageUnreadable: It is no regular file.
        OSError: It is missing or unreadable, or a part of its path is a link.
    """
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    *folders, _ = place.relative_to(folder).parts
    try:
        for part in folders:
            below = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = below
        return descriptor_of(place, follow_links=False, folder_fd=held)
    except NotRegular as error:
        raise ImageUnreadable(f"{place}: {error.strerror}", hint="Put the file back") from None
    finally:
        os.close(held)


def open_unchanged(place: Path, identity: FileIdentity) -> int:
    """Open a file that is unchanged since it was hashed for reading, and return its descriptor.

    Raises:
        ImageUnreadable: The file is gone, unreadable, or changed since.
    """
    try:
        if FileIdentity.of(place.lstat()) != identity:
            raise ImageUnreadable(
                f"{place}: changed on disk since it was hashed",
                hint="Let the copy to it end, then start again: its digests belong to another file",
            )
        descriptor = descriptor_of(place, follow_links=False)
    except OSError as error:
        raise ImageUnreadable(f"{place}: {error.strerror}", hint="Put the file back") from error
    if FileIdentity.of(os.fstat(descriptor)) != identity:
        os.close(descriptor)
        raise ImageUnreadable(
            f"{place}: changed on disk since it was hashed",
            hint="Let the copy to it end, then start again: its digests belong to another file",
        )
    return descriptor

"""Files that may be images: regular ones inside the folder on offer, opened so that nothing else can be in their place.

Facts
-----

- `open()` of a FIFO waits for a writer, and of some devices it does something: `flashferry.core.files` looks first.
- O_NOFOLLOW is about the last part of a path alone, so folders on the way are opened one by one.
- A modification time can be set by anybody who may write (utimensat(2)), a change time by the kernel alone. Giving a
  file another name, another mode or no name at all also moves it, and leaves its content as it was.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import NotRegular, check_regular, descriptor_of
from flashferry.images.errors import ImageUnreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """What distinguishes one state of a file on disk from another."""

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


Administration = tuple[int, int, int, int]


def has_content_of(identity: FileIdentity, opened: Administration, now: os.stat_result) -> bool:
    """Return whether an open file, by its status `now`, still has the content that was hashed.

    A change time that moved with names, owner or mode is explained by them: an image that is replaced by another one is
    still sent whole to a device that is fetching it. One that moved alone means that the file was written to, whatever
    its
    modification time says. `opened` is its administration right after it was opened.
    """
    found = FileIdentity.of(now)
    if (found.size_bytes, found.mtime_ns) != (identity.size_bytes, identity.mtime_ns):
        return False
    return found.ctime_ns == identity.ctime_ns or opened != administration(now)


def administration(status: os.stat_result) -> Administration:
    """Return how many names a file has, its mode, owner and group: what may change with its content as it was."""
    return status.st_nlink, status.st_mode, status.st_uid, status.st_gid


def checked_image(path: Path) -> Path:
    """Return the path of a readable image with a size.

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
        raise ConfigInvalid(f"image {path}: cannot be read: {error.strerror}", hint="Check the file's rights") from None
    return path


def place_of(path: Path, folder: Path) -> Path:
    """Return where a file really is; a link to another file of the same folder (without links itself) is followed.

    Raises:
        ImageUnreadable: It is outside the folder, or no regular file.
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
        OSError: It is missing or unreadable, or a link stands in its place or on the way to it.
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


def open_as(place: Path, identity: FileIdentity) -> int:
    """Open a file for reading and return its descriptor, if it still is the one that was hashed.

    Raises:
        ImageUnreadable: The file is gone, unreadable, or not the one that was hashed.
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

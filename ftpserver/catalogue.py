"""The images we serve: name to file, size and digests. The only place where a name becomes a path.

Names from the wire are looked up, never resolved: there is no directory to walk out of. A file is identified by
device, inode, size and modification time; where any of them differs, it is another file with other digests.
"""

import hashlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ftpserver.errors import ImageUnknown, ImageUnreadable, SettingsInvalid
from ftpserver.hash_cache import Digests, HashCache
from inventory.regular_file import NotRegular, descriptor_of, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """What tells one state of a file on disk from another."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileIdentity":
        """Take it from a `stat` result."""
        return cls(device=status.st_dev, inode=status.st_ino, size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)

    @property
    def key(self) -> str:
        """A text that is equal exactly for equal identities."""
        return f"{self.device}:{self.inode}:{self.size_bytes}:{self.mtime_ns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """One image, hashed.

    Attributes:
        name: The name on the wire: the file's own name without any directory.
        size_bytes: Its size.
        md5: MD5 digest in lower-case hex, for devices that know no other.
        sha512: SHA-512 digest in lower-case hex.
        path: Where it is.
        identity: The state of the file the digests belong to.
    """

    name: str
    size_bytes: int
    md5: str
    sha512: str
    path: Path
    identity: FileIdentity


class Catalogue:
    """Image names and their files; digests are made when first asked for and kept.

    Args:
        paths: Image files, or directories whose regular, visible files are images.
        cache_path: File that keeps digests between runs; None keeps them in memory.

    Raises:
        SettingsInvalid: A path is missing or unreadable, a directory holds no file, or two images share a name.
    """

    def __init__(self, paths: tuple[Path, ...], *, cache_path: Path | None = None) -> None:
        self._paths: dict[str, Path] = {}
        for path in paths:
            for image in _images_in(path):
                self._add(image)
        if not self._paths:
            raise SettingsInvalid("image_paths: expected at least one image file or directory, found none")
        self._cache = HashCache(cache_path)

    def names(self) -> tuple[str, ...]:
        """Return the image names in order."""
        return tuple(sorted(self._paths))

    def image(self, name: str, *, on_progress: "Callable[[int, int], None] | None" = None) -> ImageFile:
        """Return an image with its digests, hashing the file unless that was done for its present state.

        Args:
            name: The image's name.
            on_progress: Called with bytes hashed and size while hashing.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: The file is gone, empty, unreadable or changed while it was hashed.
        """
        path = self._paths.get(name)
        if path is None:
            raise ImageUnknown(f"image {name!r}: not in the catalogue, which has {', '.join(self.names())}")
        try:
            return self._hashed(name, path, on_progress)
        except OSError as error:
            raise ImageUnreadable(f"image {name!r}: {path}: {error.strerror}; put the file back") from error

    def was_replaced(self, image: ImageFile, *, rest_s: float = 2.0) -> bool:
        """Tell whether another file stands where an image was, and nobody has written to it for `rest_s`."""
        try:
            status = self._paths[image.name].stat()
        except (KeyError, OSError):
            return False
        return FileIdentity.of(status) != image.identity and time.time() - status.st_mtime >= rest_s

    def _hashed(self, name: str, path: Path, on_progress: "Callable[[int, int], None] | None") -> ImageFile:
        with reading(path) as file:
            identity = _checked_identity(path, os.fstat(file.fileno()))
            digests = self._cache.get(identity.key)
            if digests is None:
                digests = _digests(_chunks(file.fileno(), identity.size_bytes), identity.size_bytes, on_progress)
                if FileIdentity.of(os.fstat(file.fileno())) != identity:
                    raise ImageUnreadable(f"image {name!r}: {path} changed while it was hashed; copy it there first")
                self._cache.put(identity.key, digests)
        return ImageFile(
            name=name,
            size_bytes=identity.size_bytes,
            md5=digests.md5,
            sha512=digests.sha512,
            path=path,
            identity=identity,
        )

    def _add(self, path: Path) -> None:
        other = self._paths.get(path.name)
        if other is not None and other.resolve() != path.resolve():
            raise SettingsInvalid(
                f"image_paths: {other} and {path} share the name {path.name!r}; rename one, names must be unique"
            )
        if not _is_wire_name(path.name):
            raise SettingsInvalid(f"image_paths: {path}: expected a name of visible ASCII without spaces; rename it")
        self._paths[path.name] = path


def open_image(path: Path, identity: FileIdentity) -> int:
    """Open an image for reading and return its descriptor, if it still is the file that was hashed.

    Raises:
        ImageUnreadable: The file is gone, unreadable, or not the one that was hashed.
    """
    try:
        descriptor = descriptor_of(path)
    except NotRegular:
        raise ImageUnreadable(f"{path}: changed on disk since it was hashed") from None
    except OSError as error:
        raise ImageUnreadable(f"{path}: {error.strerror}") from error
    if FileIdentity.of(os.fstat(descriptor)) != identity:
        os.close(descriptor)
        raise ImageUnreadable(f"{path}: changed on disk since it was hashed")
    return descriptor


def _images_in(path: Path) -> "Iterator[Path]":
    try:
        if path.is_dir():
            found = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
            if not found:
                raise SettingsInvalid(f"image_paths: {path}: expected image files in this directory, found none")
            yield from found
            return
        os.close(descriptor_of(path))
        yield path
    except OSError as error:
        raise SettingsInvalid(f"image_paths: {path}: {error.strerror}; give a readable file or directory") from None


def _is_wire_name(name: str) -> bool:
    return name.isascii() and all(33 <= ord(letter) <= 126 for letter in name)


def _checked_identity(path: Path, status: os.stat_result) -> FileIdentity:
    if not stat.S_ISREG(status.st_mode):
        raise ImageUnreadable(f"{path}: expected a regular file")
    if status.st_size == 0:
        raise ImageUnreadable(f"{path}: expected an image, found an empty file")
    return FileIdentity.of(status)


def _chunks(descriptor: int, size_bytes: int) -> "Iterator[bytes]":
    # Bounded by the size: a file that somebody keeps appending to would otherwise never end.
    offset = 0
    while chunk := os.pread(descriptor, min(_READ_BYTES, size_bytes - offset), offset):
        offset += len(chunk)
        yield chunk


def _digests(chunks: "Iterator[bytes]", size_bytes: int, on_progress: "Callable[[int, int], None] | None") -> Digests:
    # MD5 only because old IOS verifies nothing better; it guards against damage, not against an attacker.
    md5, sha512, done = hashlib.md5(usedforsecurity=False), hashlib.sha512(), 0
    for chunk in chunks:
        md5.update(chunk)
        sha512.update(chunk)
        done += len(chunk)
        if on_progress is not None:
            on_progress(done, size_bytes)
    return Digests(md5=md5.hexdigest(), sha512=sha512.hexdigest())

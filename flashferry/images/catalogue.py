"""Catalogue of the images that are served, and the cache of their digests by the state of the file."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.files import JsonCache
from flashferry.images.errors import CatalogueInvalid, ImageUnknown, ImageUnreadable
from flashferry.images.image import Digests, ImageFile
from flashferry.images.manifest import Contents, read_contents
from flashferry.images.safe_open import FileIdentity, open_in, resolve_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_ENTRIES = 1000
_REST_S = 2.0


class HashCache:
    """Cache of `Contents` by `FileIdentity.key`, in memory and, if a path is given, in a JSON file.

    The file maps each key to `[md5, sha512, embedded name]`. If it cannot be read or written, that is logged and the
    images are hashed again.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = _file(path) if path is not None else None
        self._lock = threading.Lock()
        self._entries: dict[str, Contents] = _load(self._file) if self._file is not None else {}

    def get(self, key: str) -> Contents | None:
        """Return the contents cached for a key, or None."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: str, contents: Contents) -> None:
        """Cache the contents for a key; beyond a thousand entries the oldest are dropped."""
        with self._lock:
            self._entries[key] = contents
            while len(self._entries) > _MOST_ENTRIES:
                del self._entries[next(iter(self._entries))]
            if self._file is not None:
                kept = {key: (one.digests.md5, one.digests.sha512, one.inside) for key, one in self._entries.items()}
                self._file.store(kept)


def _file(path: Path) -> JsonCache:
    return JsonCache(path, unread="images are hashed again", unwritten="images will be hashed again")


def _load(file: JsonCache) -> dict[str, Contents]:
    data = file.load()
    try:
        return {str(key): _contents(*kept) for key, kept in data.items()}
    except (ValueError, TypeError, AttributeError) as error:
        if data is not None:
            file.complain(error)
        return {}


def _contents(md5: str, sha512: str, inside: str | None) -> Contents:
    return Contents(digests=Digests(md5=str(md5), sha512=str(sha512)), inside=inside)


class _Entry(Struct, frozen=True, kw_only=True):
    """An image that is served: its path, and the folder out of which a link must not lead."""

    path: Path
    folder: Path

    def open(self) -> tuple[Path, int]:
        place = resolve_in(self.path, self.folder)
        return place, open_in(self.folder, place)


class Catalogue:
    """Images by name; digests are computed on first use and cached.

    Args:
        paths: Image files, or directories whose regular, visible files are images. A link to a file of the same folder
            counts as that file; one out of the folder is left out of a directory, and refused as an image.
        cache_path: File that keeps digests between runs; None keeps them in memory.
        may_be_empty: Whether `paths` may be empty.
        clock: Monotonic time in seconds.

    Attributes:
        left_out: Entries of the directories that look like images but cannot be served, each with the reason.

    Raises:
        CatalogueInvalid: A path is missing or unreadable, a directory holds no file, two images share a name, or the
            name of a file given by itself has characters that no device command can contain.
    """

    def __init__(
        self,
        paths: tuple[Path, ...],
        *,
        cache_path: Path | None = None,
        may_be_empty: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.left_out: tuple[str, ...] = ()
        self._entries: dict[str, _Entry] = {}
        for path in paths:
            for entry in self._entries_of(path):
                self._add(entry)
        if not self._entries and not may_be_empty:
            raise CatalogueInvalid(
                "images: expected at least one image file or directory, found none",
                hint="Give an image file, or a folder that holds some",
            )
        self._cache = HashCache(cache_path)
        self._clock = clock
        # Files that replaced an image: their state, and since when it is unchanged.
        self._newer: dict[str, tuple[FileIdentity, float]] = {}

    def names(self) -> tuple[str, ...]:
        """Return the image names in order."""
        return tuple(sorted(self._entries))

    def image(self, name: str, *, on_progress: Callable[[int, int], None] | None = None) -> ImageFile:
        """Return an image with its digests; the file is hashed unless its present state was hashed before.

        Args:
            name: The image's name.
            on_progress: Called with bytes hashed and size while hashing.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: The file is gone, empty, unreadable, no regular file in its folder, or changed while it was
                hashed.
        """
        entry = self._entries.get(name)
        if entry is None:
            why = next((f" ({one})" for one in self.left_out if f"/{name}: " in one), "")
            raise ImageUnknown(
                f"image {name!r}: not in the catalogue, which has {', '.join(self.names())}{why}",
                hint="Give one of these names, or put the file into the folder on offer and start again",
            )
        try:
            return self._hashed(name, entry, on_progress)
        except OSError as error:
            raise ImageUnreadable(
                f"image {name!r}: {entry.path}: {error.strerror}", hint="Put the file back"
            ) from error

    def was_replaced(self, image: ImageFile) -> bool:
        """Return whether another file replaced an image, and was not written to for two seconds.

        Call it periodically: the time is measured between calls, so a file time in the future does not matter.
        """
        try:
            found = FileIdentity.of(self._entries[image.name].path.stat())
        except (KeyError, OSError):
            return False
        if found == image.identity:
            self._newer.pop(image.name, None)
            return False
        seen, since_s = self._newer.get(image.name, (None, 0.0))
        if seen != found:
            self._newer[image.name] = (found, self._clock())
            return False
        return self._clock() - since_s >= _REST_S

    def _hashed(self, name: str, entry: _Entry, on_progress: Callable[[int, int], None] | None) -> ImageFile:
        place, descriptor = entry.open()
        try:
            identity = _checked_identity(place, os.fstat(descriptor))
            contents = self._cache.get(identity.key)
            if contents is None:
                contents = read_contents(descriptor, identity.size_bytes, on_progress)
                if FileIdentity.of(os.fstat(descriptor)) != identity:
                    raise ImageUnreadable(
                        f"{place} changed while it was hashed",
                        hint="Wait until it is copied completely, or copy it elsewhere and move it there",
                    )
                self._cache.put(identity.key, contents)
        finally:
            os.close(descriptor)
        return ImageFile(
            name=name,
            size_bytes=identity.size_bytes,
            md5=contents.digests.md5,
            sha512=contents.digests.sha512,
            path=place,
            identity=identity,
            inside=contents.inside,
        )

    def _entries_of(self, path: Path) -> Iterator[_Entry]:
        try:
            if path.is_dir():
                yield from self._images_in(path)
                return
            entry = _Entry(path=path, folder=path.parent.resolve(strict=True))
            os.close(entry.open()[1])
            yield entry
        except ImageUnreadable as error:
            raise CatalogueInvalid(f"images: {error.message}", hint=error.hint) from None
        except OSError as error:
            raise CatalogueInvalid(
                f"images: {path}: {error.strerror}", hint="Give a readable file or directory"
            ) from None

    def _images_in(self, directory: Path) -> Iterator[_Entry]:
        folder, found = directory.resolve(strict=True), False
        for path in sorted(directory.iterdir()):
            if path.name.startswith(".") or path.is_dir():
                continue
            if not _is_wire_name(path.name):
                self.left_out = (*self.left_out, f"{_name_refused(path)}; rename it")
                continue
            try:
                resolve_in(path, folder)
            except (ImageUnreadable, OSError) as error:
                reason = f"{path}: {error.strerror}" if isinstance(error, OSError) else _in_one_clause(error)
                self.left_out = (*self.left_out, reason)
                continue
            found = True
            yield _Entry(path=path, folder=folder)
        if not found:
            why = f" ({'; '.join(self.left_out)})" if self.left_out else ""
            raise CatalogueInvalid(
                f"images: {directory}: expected image files in this directory, found none{why}",
                hint="Put the images there, or give the folder that they are in",
            )

    def _add(self, entry: _Entry) -> None:
        path = entry.path
        other = self._entries.get(path.name)
        if other is not None and other.path.resolve() != path.resolve():
            raise CatalogueInvalid(
                f"images: {other.path} and {path} share the name {path.name!r}",
                hint="Rename one of them, names must be unique",
            )
        if not _is_wire_name(path.name):
            raise CatalogueInvalid(f"images: {_name_refused(path)}", hint="Rename it")
        self._entries[path.name] = entry


def _name_refused(path: Path) -> str:
    return f"{path}: expected a name of visible ASCII without spaces"


def _in_one_clause(error: ImageUnreadable) -> str:
    """Return an error's message and hint without full stops, as part of a sentence."""
    hint = f"; {error.hint[0].lower()}{error.hint[1:]}" if error.hint else ""
    return f"{error.message}{hint}"


def _is_wire_name(name: str) -> bool:
    return name.isascii() and all(33 <= ord(letter) <= 126 for letter in name)


def _checked_identity(path: Path, status: os.stat_result) -> FileIdentity:
    if status.st_size == 0:
        raise ImageUnreadable(f"{path}: expected an image, found an empty file", hint="Copy the image there again")
    return FileIdentity.of(status)

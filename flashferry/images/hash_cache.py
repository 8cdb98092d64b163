"""Digests that were made once, kept by the state of the file they belong to, with the name that the file carries."""

import threading
from pathlib import Path

from flashferry.core.atomic_write import JsonCache
from flashferry.images.contents import Contents
from flashferry.images.image import Digests

_MOST_ENTRIES = 1000


class HashCache:
    """Contents by key, in memory and, if a path is given, in a JSON file.

    The file holds `[md5, sha512, name inside]` by key.

    A cache file that cannot be read or written costs time, never a run: it is reported once and done without.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = _file(path) if path is not None else None
        self._lock = threading.Lock()
        self._entries: dict[str, Contents] = _load(self._file) if self._file is not None else {}

    def get(self, key: str) -> Contents | None:
        """Return what is kept for a key."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: str, contents: Contents) -> None:
        """Keep what was read for a key; the oldest go when there are more than a thousand."""
        with self._lock:
            self._entries[key] = contents
            while len(self._entries) > _MOST_ENTRIES:
                del self._entries[next(iter(self._entries))]
            if self._file is not None:
                kept = {key: (one.digests.md5, one.digests.sha512, one.inside) for key, one in self._entries.items()}
                self._file.store(kept)


def _file(path: Path) -> JsonCache:
    return JsonCache(path, unread="images are hashed anew", unwritten="images will be hashed again")


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

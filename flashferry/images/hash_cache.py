"""Digests that were made once, kept by the state of the file they belong to."""

import threading
from dataclasses import dataclass
from pathlib import Path

from flashferry.core import files as json_file

_MOST_ENTRIES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """MD5 and SHA-512 of one file, in lower-case hex."""

    md5: str
    sha512: str


class HashCache:
    """Digests by key, in memory and, if a path is given, in a JSON file.

    A cache file that cannot be read or written costs time, never a run: it is reported once and done without.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[str, Digests] = _load(path) if path is not None else {}

    def get(self, key: str) -> Digests | None:
        """Return the digests kept for a key."""
        with self._lock:
            return self._entries.get(key)

    def put(self, key: str, digests: Digests) -> None:
        """Keep digests for a key; the oldest go when there are more than a thousand."""
        with self._lock:
            self._entries[key] = digests
            while len(self._entries) > _MOST_ENTRIES:
                del self._entries[next(iter(self._entries))]
            if self._path is not None:
                _store(self._path, self._entries)


def _load(path: Path) -> dict[str, Digests]:
    consequence = "images are hashed anew"
    data = json_file.load(path, consequence)
    try:
        return {str(key): Digests(md5=str(md5), sha512=str(sha512)) for key, (md5, sha512) in data.items()}
    except (ValueError, TypeError, AttributeError) as error:
        if data is not None:
            json_file.complain(path, error, consequence)
        return {}


def _store(path: Path, entries: dict[str, Digests]) -> None:
    data = {key: (digests.md5, digests.sha512) for key, digests in entries.items()}
    json_file.store(path, data, "images will be hashed again")

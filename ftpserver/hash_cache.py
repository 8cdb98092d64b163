"""Digests that were made once, kept by the state of the file they belong to."""

import json
import logging
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

_LOG = logging.getLogger("flashferry.ftpserver.catalogue")
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
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): Digests(md5=str(md5), sha512=str(sha512)) for key, (md5, sha512) in data.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        _LOG.warning("hash cache %s cannot be read (%s); images are hashed anew", path, error)
        return {}


def _store(path: Path, entries: dict[str, Digests]) -> None:
    text = json.dumps({key: (digests.md5, digests.sha512) for key, digests in entries.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed, so that a crash leaves the old cache and not half of a new one.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except OSError as error:
        _LOG.warning("hash cache %s cannot be written (%s); images will be hashed again", path, error)

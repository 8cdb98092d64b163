"""Search what was printed, kept or shown for the secrets that were in play."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_CUTS = re.compile(rb"\\[rnb]|\\u00[01][0-9a-f]|[\s\x08$]")
"""What a terminal puts into a long line, and the same as JSON writes it."""


def leaks(places: Iterable[tuple[str, bytes]], secrets: Mapping[str, str]) -> Iterator[str]:
    """Yield which secret is where; one that a line end cuts is found as well.

    Args:
        places: Names of places with what is there.
        secrets: What each secret is, and the secret.
    """
    for place, content in places:
        joined = _CUTS.sub(b"", content)
        for what, secret in secrets.items():
            if secret.encode() in content or secret.encode() in joined:
                yield f"{what} is in {place}"


def whole(path: Path) -> bytes:
    """Return a file's bytes; of a database the rows too, and what they hold compressed."""
    content = path.read_bytes()
    if not content.startswith(b"SQLite format 3\0"):
        return content
    with contextlib.closing(sqlite3.connect(path)) as database:
        return content + "\n".join(database.iterdump()).encode() + b"\n".join(_uncompressed(database))


def _uncompressed(database: sqlite3.Connection) -> Iterator[bytes]:
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        for row in database.execute(f"SELECT * FROM {table}"):
            for value in row:
                if isinstance(value, bytes):
                    with contextlib.suppress(zlib.error):
                        yield zlib.decompress(value)

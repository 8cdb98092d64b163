"""Search what was written or shown for the secrets that were in play."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

INVENTORY, SECRETS = "hosts.yaml", "secrets"
"""The two files that hold secrets because they must: the operator's own, and our list of what to search for."""


def leaks(folder: Path, secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the files below a folder that hold a secret: outputs, events, command lines, results, the journal."""
    words = [secret.encode() for secret in secrets]
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in {INVENTORY, SECRETS})
    return tuple(str(path.relative_to(folder)) for path in files if _holds_any(_content(path), words))


def _content(path: Path) -> bytes:
    """Return a file's bytes; a database's rows too, for in its pages a long text is cut into pieces, or compressed."""
    content = path.read_bytes()
    if not content.startswith(b"SQLite format 3\0"):
        return content
    with closing(sqlite3.connect(path)) as database:
        return content + "\n".join(database.iterdump()).encode() + b"\n".join(_uncompressed(database))


def _uncompressed(database: sqlite3.Connection) -> Iterator[bytes]:
    """Yield what a database holds compressed: there a secret would hide from any other search."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        for row in database.execute(f"SELECT * FROM {table}"):
            for value in row:
                if isinstance(value, bytes):
                    with suppress(zlib.error):
                        yield zlib.decompress(value)


def _holds_any(content: bytes, words: list[bytes]) -> bool:
    return any(word in content for word in words)

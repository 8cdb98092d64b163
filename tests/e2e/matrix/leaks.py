"""Search what was written or shown for the secrets that were in play."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

INVENTORY, SECRETS = "hosts.yaml", "secrets"
"""The two files that hold secrets because they must: the operator's own, and our list of what to search for."""


def leaks(folder: Path, secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the files below a folder that hold a secret: outputs, events, command lines, results, the journal."""
    words = [secret.encode() for secret in secrets]
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in {INVENTORY, SECRETS})
    return tuple(str(path.relative_to(folder)) for path in files if _holds_any(path.read_bytes(), words))


def _holds_any(content: bytes, words: list[bytes]) -> bool:
    return any(word in content for word in words)

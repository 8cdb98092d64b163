"""Values to JSON types and back: for the journal, reports and `--json`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.core.outside import told

if TYPE_CHECKING:
    from tasks.snapshot import Snapshot
    from tasks.tcp_config import Change, TcpLines


_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_json(value: object) -> Any:
    """Return a value as JSON types.

    A dataclass field with `repr=False` is a secret by the convention of this project and is left out.
    """
    # Hundreds of copies speak every second, mostly in numbers: these go first, and what a class has is looked up once.
    if type(value) in _PLAIN:
        return value
    kind: Any = type(value)
    if (names := _shown_fields(kind)) is not None:
        return {name: item if type(item := getattr(value, name)) in _PLAIN else to_json(item) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"no JSON form for {type(value).__name__}")


@cache
def _shown_fields(kind: Any) -> tuple[str, ...] | None:
    return tuple(field.name for field in fields(kind) if field.repr) if is_dataclass(kind) else None


_READ_AGAIN = frozenset({"host", "image", "partial_file", "run_id", "ticket_id"})
"""What a run that is gone on with compares with what it finds."""


def stored_json(value: object) -> Any:
    """Return what the journal keeps of a record: JSON types without secrets, however they came into it."""
    return told(to_json(value), exact=_READ_AGAIN)


def snapshot_from_json(stored: dict[str, Any]) -> Snapshot:
    """Return the Snapshot that `to_json` was given.

    Raises:
        KeyError: The stored value is not one of a Snapshot.
    """
    # Only a recovery needs these; reports, which every command prints, do without.
    from tasks.configuration import Fingerprint
    from tasks.snapshot import Snapshot

    digests = stored["running_fingerprint"]
    return Snapshot(
        running=_lines(stored["running"]),
        startup=_lines(stored["startup"]),
        running_fingerprint=Fingerprint(
            whole=digests["whole"],
            lines=tuple(digests["lines"]),
            # Journals of earlier releases know neither of these, nor the archive.
            blocks=tuple(digests.get("blocks", ())),
            order=digests.get("order", ""),
        ),
        salt=stored["salt"],
        archives=tuple(stored.get("archives", ())),
    )


def changes_from_json(stored: list[dict[str, Any]]) -> tuple[Change, ...]:
    """Return the Changes that `to_json` was given.

    Raises:
        ValueError: One would have us type what we never set: it was not written by us.
    """
    from tasks.tcp_config import Change, is_ours_to_type

    changes = tuple(
        Change(keyword=one["keyword"], before=one["before"], ours=one["ours"], shown=one.get("shown")) for one in stored
    )
    if not all(map(is_ours_to_type, changes)):
        raise ValueError("a line that is none of those that staging sets")
    return changes


def _lines(stored: dict[str, Any]) -> TcpLines:
    from tasks.tcp_config import TcpLines

    return TcpLines(lines=tuple(stored["lines"]))

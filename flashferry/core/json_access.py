"""Reading JSON of which nothing is certain: a record may be partial, damaged or of another release.

What is missing or of another kind is None or empty, never an error and never 0: a report says "not measured".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any


class Node:
    """A JSON value that may be an object."""

    __slots__ = ("_fields", "_value")

    def __init__(self, value: object) -> None:
        self._value = value
        self._fields: dict[str, object] = value if isinstance(value, dict) else {}

    def __bool__(self) -> bool:
        """Return whether there is an object with anything in it."""
        return bool(self._fields)

    def at(self, *keys: str) -> Node:
        """Return what lies below, empty where nothing does."""
        found = self
        for key in keys:
            found = Node(found._fields.get(key))
        return found

    def items(self) -> Iterator[tuple[str, Node]]:
        """Yield the fields of an object."""
        return ((str(key), Node(value)) for key, value in self._fields.items())

    def list(self, key: str) -> tuple[Node, ...]:
        """Return a list's values; empty where there is none."""
        found = self._fields.get(key)
        return tuple(Node(value) for value in found) if isinstance(found, list | tuple) else ()

    def text(self, key: str) -> str | None:
        """Return a text that is not empty."""
        found = self._fields.get(key)
        return found if isinstance(found, str) and found else None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the texts of a list."""
        return tuple(node._value for node in self.list(key) if isinstance(node._value, str))  # noqa: SLF001 -- as above

    def number(self, key: str) -> float | None:
        """Return a finite number."""
        return Node(self._fields.get(key)).as_number()

    def whole(self, key: str) -> int | None:
        """Return a number without its decimals."""
        found = self.number(key)
        return None if found is None else int(found)

    def flag(self, key: str) -> bool | None:
        """Return a boolean."""
        found = self._fields.get(key)
        return found if isinstance(found, bool) else None

    def as_number(self) -> float | None:
        """Return the value itself if it is a finite number."""
        value = self._value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


# Values out of stored JSON, which may be damaged or of another release: what is not as expected is not there.


def at(value: object, *keys: str) -> Any:
    """Return what stands at a place in nested objects, or None where there is no such place."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def number(value: object, *keys: str) -> float | None:
    """Return the finite number at a place, or None."""
    found = at(value, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) < float("inf") else None


def whole(value: object, *keys: str) -> int | None:
    """Return the whole number at a place, or None."""
    found = number(value, *keys)
    return None if found is None else int(found)


def text(value: object, *keys: str) -> str | None:
    """Return the text at a place, or None."""
    found = at(value, *keys)
    return found if isinstance(found, str) else None


def parsed(stored: str | None) -> dict[str, Any] | None:
    """Return a stored JSON object; empty where nothing is stored, None where it is damaged."""
    try:
        found = json.loads(stored or "{}")
    except (ValueError, TypeError):
        return None
    # Recovery and tests store other things than records; `null` is a record that was never made.
    return found if isinstance(found, dict) else {} if found is None else None

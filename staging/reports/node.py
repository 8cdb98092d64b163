"""Reading JSON of which nothing is certain: a record may be partial, damaged or of another release.

What is missing or of another kind is None or empty, never an error and never 0: a report says "not measured".
"""

from __future__ import annotations

import math
from collections.abc import Iterator


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

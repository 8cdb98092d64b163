"""Tolerant access to JSON records, which may be partial, damaged or of another release.

A value that is missing or of another type is None or empty, never an error and never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

T = TypeVar("T")


class Node:
    """A JSON value that may be an object. Keys lead into nested objects, as in `node.text("failure", "reason")`."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: Any = value

    def __bool__(self) -> bool:
        """Return whether the value is an object with at least one field."""
        return isinstance(self.value, dict) and bool(self.value)

    def at(self, *keys: str) -> Node:
        """Return the value under some keys; an empty node if there is none."""
        return Node(self._found(keys))

    def items(self) -> Iterator[tuple[str, Node]]:
        """Yield the fields of the object."""
        fields = self.value if isinstance(self.value, dict) else {}
        return ((str(key), Node(value)) for key, value in fields.items())

    def list(self, *keys: str) -> tuple[Node, ...]:
        """Return the values of a list; empty if there is no list."""
        found = self._found(keys)
        return tuple(Node(value) for value in found) if isinstance(found, list | tuple) else ()

    def text(self, *keys: str) -> str | None:
        """Return a text; None if it is missing or empty."""
        found = self._found(keys)
        return found if isinstance(found, str) and found else None

    def texts(self, *keys: str) -> tuple[str, ...]:
        """Return the texts in a list; other values are skipped."""
        return tuple(node.value for node in self.list(*keys) if isinstance(node.value, str))

    def number(self, *keys: str) -> float | None:
        """Return a finite number, or None."""
        found = self._found(keys)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return float(found) if is_number and math.isfinite(found) else None

    def whole(self, *keys: str) -> int | None:
        """Return a number without its decimals, or None."""
        found = self.number(*keys)
        return None if found is None else int(found)

    def flag(self, *keys: str) -> bool | None:
        """Return a boolean, or None."""
        found = self._found(keys)
        return found if isinstance(found, bool) else None

    def values(self, kind: Callable[..., T], **others: Any) -> T:
        """Return a value of a class from the fields of its names, and `others`.

        What is missing or of another type is None where the class allows None, else empty, 0 or False.

        Args:
            kind: A class whose other fields are of the types in `_READERS`, or tuples of such classes.
            others: Contents of fields that are not read.
        """
        readers = {name: read for name, read in _readers(kind).items() if name not in others}
        return kind(**{name: read(self, name) for name, read in readers.items()}, **others)

    def _found(self, keys: tuple[str, ...]) -> Any:
        found = self.value
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found


_READERS: dict[Any, Callable[[Node, str], Any]] = {
    str: lambda node, key: node.text(key) or "",
    str | None: Node.text,
    float: lambda node, key: node.number(key) or 0.0,
    float | None: Node.number,
    int: lambda node, key: node.whole(key) or 0,
    int | None: Node.whole,
    bool: lambda node, key: bool(node.flag(key)),
    bool | None: Node.flag,
    tuple[str, ...]: Node.texts,
}
"""How a field is read, by its type."""


@cache
def _readers(kind: Callable[..., Any]) -> dict[str, Callable[[Node, str], Any]]:
    return {name: _READERS.get(hint) or _list_reader(get_args(hint)) for name, hint in get_type_hints(kind).items()}


def _list_reader(kinds: tuple[Any, ...]) -> Callable[[Node, str], Any]:
    return lambda node, key: tuple(one.values(kinds[0]) for one in node.list(key))


def parsed(stored: str | None) -> dict[str, Any] | None:
    """Parse a stored JSON object; return an empty one if nothing is stored, None if it is damaged."""
    try:
        found = json.loads(stored or "{}")
    except (ValueError, TypeError):
        return None
    # Recovery and tests store other values than records; `null` stands for a record that was never made.
    return found if isinstance(found, dict) else {} if found is None else None

"""A word for tests that look at each of several things."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def some(things: Iterable[T]) -> tuple[T, ...]:
    """Return things of which there is at least one: what holds for each of none cannot fail."""
    found = tuple(things)
    assert found, "expected at least one thing to look at, found none"
    return found

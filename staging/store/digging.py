"""Values out of stored JSON, which may be damaged or of another release: what is not as expected is not there."""

from __future__ import annotations

import json
from typing import Any


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

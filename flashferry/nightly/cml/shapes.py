"""The shape of answers: keys and types without values, how they differ, and which values may leave a house. Pure.

A controller's answers are full of names, addresses and accounts that are confidential. What a person who
writes against it has to know is their shape, numbers, and words of the interface itself such as states and refusals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flashferry.core.outside import sanitize

TEXT, PAGE, BYTES, EMPTY = "text", "page", "bytes", "nothing"
"""What an answer is that is no JSON."""

_ID = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|([0-9a-f]{2}:){5}[0-9a-f]{2}|\d{1,3}(\.\d{1,3}){3}", re.IGNORECASE
)
_WORDS = frozenset(
    {
        *(
            "category",
            "code",
            "description",
            "element_type",
            "encap",
            "event",
            "forwarding",
            "node_definition",
            "state",
        ),
        *("status", "version", "warnings", "type"),
    }
)
"""Keys whose texts are the interface's own words. `description` counts in refusals only: elsewhere people wrote it."""
_LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What an answer, or a part of one, is made of.

    Attributes:
        kinds: `string`, `integer`, `number`, `boolean`, `null`, `object`, `array`, or what else it is; all that were
            seen at that place.
        keys: Of an object, by key.
        may: Those of its keys that are not always there.
        each: What an array holds, or an object whose keys are ids; None where none was seen.
    """

    kinds: frozenset[str]
    keys: Mapping[str, Shape] = field(default_factory=dict)
    may: frozenset[str] = frozenset()
    each: Shape | None = None


def shape_of(value: object) -> Shape:
    """Return the shape of JSON types."""
    if isinstance(value, Mapping):
        if value and all(_ID.fullmatch(str(key)) for key in value):
            return Shape(kinds=frozenset({"object"}), each=_all(value.values()))
        return Shape(kinds=frozenset({"object"}), keys={str(key): shape_of(one) for key, one in value.items()})
    if isinstance(value, list | tuple):
        return Shape(kinds=frozenset({"array"}), each=_all(value))
    names: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return Shape(kinds=frozenset({names.get(type(value), type(value).__name__)}))


def merged(one: Shape, other: Shape) -> Shape:
    """Return the shape of what is either."""
    keys = dict(one.keys)
    for name, shape in other.keys.items():
        keys[name] = merged(keys[name], shape) if name in keys else shape
    both_objects = "object" in one.kinds and "object" in other.kinds
    absent = frozenset(one.keys) ^ frozenset(other.keys) if both_objects else frozenset[str]()
    each = one.each if other.each is None else other.each if one.each is None else merged(one.each, other.each)
    return Shape(kinds=one.kinds | other.kinds, keys=keys, may=one.may | other.may | absent, each=each)


def differences(known: Shape, seen: Shape, at: str = "") -> Iterator[str]:
    """Yield how an answer that was seen differs from what is known of it, one line each."""
    where = at or "the answer"
    kinds = {"number" if kind == "integer" and "number" in known.kinds else kind for kind in seen.kinds}
    if more := sorted(kinds - known.kinds):
        yield f"{where}: expected {' or '.join(sorted(known.kinds))}, found {' or '.join(more)}"
    if "object" in known.kinds & seen.kinds and (known.keys or seen.keys):
        yield from _key_differences(known, seen, at)
    if known.each is not None and seen.each is not None:
        yield from differences(known.each, seen.each, f"{at}[]")


def to_json(shape: Shape) -> Any:
    """Return a shape as JSON types: a word where it is a plain value, else an object of it."""
    kinds = "|".join(sorted(shape.kinds))
    if not shape.keys and shape.each is None:
        return kinds
    found: dict[str, Any] = {"is": kinds}
    if shape.keys:
        found["keys"] = {name + "?" * (name in shape.may): to_json(one) for name, one in sorted(shape.keys.items())}
    if shape.each is not None:
        found["each"] = to_json(shape.each)
    return found


def from_json(value: Any) -> Shape:
    """Return the shape that `to_json` wrote.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, str):
        return Shape(kinds=frozenset(value.split("|")))
    if not isinstance(value, dict) or not isinstance(value.get("is"), str):
        raise ValueError(f"expected a shape, found {type(value).__name__}")  # noqa: TRY004 -- what a file holds
    keys = {name.removesuffix("?"): from_json(one) for name, one in value.get("keys", {}).items()}
    may = frozenset(name.removesuffix("?") for name in value.get("keys", {}) if name.endswith("?"))
    each = from_json(value["each"]) if "each" in value else None
    return Shape(kinds=frozenset(value["is"].split("|")), keys=keys, may=may, each=each)


def telling(value: object, *, is_refusal: bool, name: str = "") -> Any:
    """Return JSON types with those values only that may leave a house: figures, and the interface's own words.

    Args:
        value: JSON types.
        is_refusal: Whether it is an answer from 400 on, whose description is the controller's.
        name: The key under which it stands.
    """
    if isinstance(value, Mapping):
        named = {str(key): telling(one, is_refusal=is_refusal, name=str(key)) for key, one in value.items()}
        return {f"id-{place}" if _ID.fullmatch(key) else key: one for place, (key, one) in enumerate(named.items(), 1)}
    if isinstance(value, list | tuple):
        return [telling(one, is_refusal=is_refusal, name=name) for one in value]
    if not isinstance(value, str):
        return value
    is_word = name in _WORDS and (name != "description" or is_refusal)
    return sanitize(_ID.sub("<id>", value))[:_LONGEST] if is_word else "<text>"


def _all(values: Any) -> Shape | None:
    found: Shape | None = None
    for value in values:
        shape = shape_of(value)
        found = shape if found is None else merged(found, shape)
    return found


def _key_differences(known: Shape, seen: Shape, at: str) -> Iterator[str]:
    for name in sorted(known.keys.keys() - seen.keys.keys() - known.may):
        yield f"{_below(at, name)}: expected {' or '.join(sorted(known.keys[name].kinds))}, found no such key"
    for name in sorted(seen.keys.keys() - known.keys.keys()):
        yield f"{_below(at, name)}: not known here, {' or '.join(sorted(seen.keys[name].kinds))}"
    for name in sorted(known.keys.keys() & seen.keys.keys()):
        yield from differences(known.keys[name], seen.keys[name], _below(at, name))


def _below(at: str, name: str) -> str:
    return f"{at}.{sanitize(name)}" if at else sanitize(name)

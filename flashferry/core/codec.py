"""Conversion of frozen values to JSON and back, for all that is stored, displayed or sent; typed by msgspec.

Dataclasses, enums, tuples, paths, times, optional and plain values are converted both ways; sets only to JSON. By
convention a field marked `repr=False` holds a secret: `to_json` leaves it out, and `encode`, used between our own
processes, includes it.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from flashferry.core.errors import FlashferryError, Kind
from flashferry.core.redaction import redact_json
from flashferry.core.values import field_names

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, type(None)})
_READ_AGAIN = frozenset({"host", "image", "partial_file", "run_id", "ticket_id"})
"""Keys whose values are stored unchanged: a resumed run compares them with what it finds."""

_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_PLACE = re.compile(r" - at `\$(.*)`$")


class CodecError(FlashferryError, ValueError):
    """Stored or received data does not have the expected fields and types."""

    kind: ClassVar[Kind] = Kind.CODEC_ERROR
    advice: ClassVar[str | None] = "Report it: two parts of flashferry do not understand each other"


def to_json(value: object) -> Any:
    """Return a value as JSON types, without the fields that hold secrets.

    Raises:
        TypeError: A part of it cannot be converted to JSON.
    """
    # Called for hundreds of copies every second, mostly with numbers: plain values first, fields of classes are cached.
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
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"no JSON form for {type(value).__name__}")


def stored_json(value: object) -> Any:
    """Return the JSON form of a record for the journal, with known secrets masked in all texts."""
    return redact_json(to_json(value), exact=_READ_AGAIN)


def encode(value: Any) -> Any:
    """Turn a value into what `json.dumps` takes, the fields that hold secrets included."""
    return msgspec.to_builtins(value, enc_hook=_path_as_text)


def decode(kind: type[T], data: Any) -> T:
    """Build a value of a dataclass from what `json.loads` returned.

    Args:
        kind: The dataclass, or a tuple of them.
        data: A mapping of its fields; fields with a default may be missing, and unknown ones are ignored.

    Raises:
        CodecError: A field is missing or of another type.
    """
    try:
        return msgspec.convert(data, kind, dec_hook=_path_of_text)
    except msgspec.ValidationError as error:
        raise CodecError(f"{kind.__name__}: {error}") from error


def decode_exactly(kind: type[T], data: Any) -> T:
    """Build a value of a dataclass from a file that may be edited by hand; unknown keys are errors.

    Raises:
        CodecError: A key is missing, unknown, or has a value of another type; the message names the key.
        FlashferryError: The dataclass rejects a value.
    """
    try:
        value = msgspec.convert(data, kind, dec_hook=_path_of_text)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, FlashferryError):
            raise error.__cause__ from None
        raise CodecError(_complaint(kind, data, str(error))) from None
    if (unknown := next(_unknown_keys(value, data, ""), None)) is not None:
        raise CodecError(f"{unknown}: unknown key")
    return value


@cache
def _shown_fields(kind: Any) -> tuple[str, ...] | None:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.repr)
    return field_names(kind) or None


def _path_as_text(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no way to write a {type(value).__name__}")


def _path_of_text(kind: type, value: Any) -> Path:
    if not issubclass(kind, Path):
        raise NotImplementedError(f"no way to read a {kind.__name__}")
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return Path(value)


def _unknown_keys(value: object, data: Any, place: str) -> Iterator[str]:
    """Yield the keys of the data for which the decoded value has no field."""
    if (known := field_names(type(value))) and isinstance(data, dict):
        for key, item in data.items():
            where = f"{place}.{key}" if place else str(key)
            if key not in known:
                yield where
            else:
                yield from _unknown_keys(getattr(value, key), item, where)
    elif isinstance(value, tuple) and isinstance(data, list):
        for number, (item, given) in enumerate(zip(value, data, strict=True)):
            yield from _unknown_keys(item, given, f"{place}[{number}]")


def _complaint(kind: Any, data: Any, error: str) -> str:
    """Return msgspec's error in words for the editor of the file: the key, what was expected, what was found."""
    place = found[1] if (found := _PLACE.search(error)) is not None else ""
    steps = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", place)]
    where = place.removeprefix(".")
    if (missing := re.match(r"Object missing required field `(.+?)`", error)) is not None:
        return f"{where}.{missing[1]}".removeprefix(".") + ": expected this key, found none"
    for step in steps:
        kind, data = _kind_at(kind, step), data[step]
    return f"{where}: expected {_expected(kind, error)}, found {str(data)[:60]!r}"


def _kind_at(kind: Any, step: str | int) -> Any:
    for one in _choices(kind):
        if isinstance(step, int) and get_origin(one) is tuple:
            return get_args(one)[0]
        if isinstance(step, str) and isinstance(one, type) and field_names(one):
            return get_type_hints(one)[step]
    return kind


def _expected(kind: Any, error: str) -> str:
    for one in _choices(kind):
        if get_origin(one) is Literal:
            return " or ".join(map(str, get_args(one)))
        if isinstance(one, type) and issubclass(one, Enum):
            return " or ".join(str(member.value) for member in one)
    named = re.match(r"Expected `(\w+)", error)
    return _NAMES.get(named[1], named[1]) if named is not None else "another value"


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the types that a field may have, without None."""
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(one for one in get_args(kind) if one is not type(None))
    return (kind,)

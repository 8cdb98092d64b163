"""Frozen values to JSON and back, so that two processes of ours speak in the types of this package.

Only what crosses the local control channel is supported: dataclasses, enums, tuples, optional and plain values.
Fields marked `repr=False` hold secrets and are left out of what `public` returns.
"""

from collections.abc import Hashable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from flashferry.core.errors import FlashferryError, Kind

T = TypeVar("T")

_PLAIN = frozenset((str, int, float, bool, type(None)))


class CodecError(FlashferryError, ValueError):
    """The other side sent something that is not of the agreed shape."""

    kind: ClassVar[Kind] = Kind.CODEC_ERROR
    advice: ClassVar[str | None] = "Report it: two parts of flashferry do not understand each other"


def encode(value: Any) -> Any:
    """Turn a value into what `json.dumps` takes."""
    if type(value) in _PLAIN:
        return value
    names = _names(cast("Hashable", type(value)))
    if names is not None:
        # Most fields are plain: looking here saves a call for each.
        return {name: item if type(item := getattr(value, name)) in _PLAIN else encode(item) for name in names}
    return _encode_plain(value, encode)


def public(value: Any) -> Any:
    """Turn a value into what `json.dumps` takes, without the fields that hold secrets."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: public(getattr(value, field.name)) for field in fields(value) if field.repr}
    return _encode_plain(value, public)


def decode(kind: type[T], data: Any) -> T:
    """Build a value of a dataclass from what `json.loads` returned.

    Args:
        kind: The dataclass wanted.
        data: A mapping of its fields; ones with a default may be missing.

    Raises:
        CodecError: A field is missing, unknown or of the wrong shape.
    """
    return cast("T", _decode(kind, data))


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    """Return the fields of a dataclass, looked up once: a thousand transfers may speak every second."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def _encode_plain(value: Any, again: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [again(item) for item in value]
    if isinstance(value, dict):
        return {str(key): again(item) for key, item in value.items()}
    return value


@cache
def _shape(kind: Any) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(kind)
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
        if field.init
    }


def _decode(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(kind, data)
    if origin is tuple:
        return _decode_tuple(kind, data)
    if kind is Any:
        return data
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, data)
    if isinstance(kind, type) and issubclass(kind, (Enum, Path)):
        return kind(data)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind):
        raise CodecError(f"expected {kind.__name__}, found {type(data).__name__}")
    return data


def _decode_union(kind: Any, data: Any) -> Any:
    if data is None:
        return None
    choices = [choice for choice in get_args(kind) if choice is not type(None)]
    return _decode(choices[0], data)


def _decode_tuple(kind: Any, data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise CodecError(f"expected a list, found {type(data).__name__}")
    kinds = get_args(kind)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_decode(kinds[0], item) for item in data)
    return tuple(_decode(item_kind, item) for item_kind, item in zip(kinds, data, strict=True))


def _decode_dataclass(kind: type[Any], data: Any) -> Any:
    if not isinstance(data, dict):
        raise CodecError(f"{kind.__name__}: expected an object, found {type(data).__name__}")
    shape = _shape(cast("Hashable", kind))
    unknown = data.keys() - shape.keys()
    missing = {name for name, (_, required) in shape.items() if required} - data.keys()
    if unknown or missing:
        raise CodecError(f"{kind.__name__}: unknown fields {sorted(unknown)}, missing fields {sorted(missing)}")
    return kind(**{name: _decode(shape[name][0], item) for name, item in data.items()})

"""Values of a plan to JSON and back. What does not fit is told with the key at which it stands. Pure."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from flashferry.core.errors import ConfigInvalid

T = TypeVar("T")

_hints = cache(get_type_hints)


def decoded(kind: type[T], value: object, at: str = "") -> T:
    """Return a dataclass from the JSON that `staging.codec.to_json` made of it.

    Args:
        kind: The dataclass.
        value: JSON types.
        at: Where it stands, for errors.

    Raises:
        ConfigInvalid: A key is missing, unknown, or has a value of another kind.
    """
    return cast(T, _decoded(kind, value, at))


def _decoded(kind: Any, value: object, at: str) -> object:
    if is_dataclass(kind):
        return _record(cast(type, kind), value, at)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, at)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(at, "a list", value)
        return tuple(_decoded(get_args(kind)[0], one, f"{at}[{number}]") for number, one in enumerate(value))
    if origin is Literal:
        if value in get_args(kind):
            return value
        raise _wrong(at, " or ".join(map(str, get_args(kind))), value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise _wrong(at, " or ".join(str(one.value) for one in kind), value) from None
    return _plain(kind, value, at)


def _one_of(kinds: tuple[Any, ...], value: object, at: str) -> object:
    if value is None and type(None) in kinds:
        return None
    real = [kind for kind in kinds if kind is not type(None)]
    # A count is an int and a share a float, and JSON keeps them apart: 1 and 1.0.
    for kind in real:
        if type(value) is kind:
            return value
    return _decoded(real[0], value, at)


def _plain(kind: Any, value: object, at: str) -> object:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    raise _wrong(at, names.get(kind, str(kind)), value)


def _record(kind: type, value: object, at: str) -> object:
    if not isinstance(value, dict):
        raise _wrong(at, "a mapping", value)
    hints, own = _hints(kind), {field.name: field for field in fields(kind)}
    if unknown := [key for key in value if key not in own]:
        raise ConfigInvalid(f"{_place(at, unknown[0])}: unknown key")
    given = {}
    for name, field in own.items():
        if name in value:
            given[name] = _decoded(hints[name], value[name], _place(at, name))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigInvalid(f"{_place(at, name)}: expected this key, found none")
    return kind(**given)


def _place(at: str, key: object) -> str:
    return f"{at}.{key}" if at else str(key)


def _wrong(at: str, expected: str, value: object) -> ConfigInvalid:
    return ConfigInvalid(f"{at}: expected {expected}, found {str(value)[:60]!r}")

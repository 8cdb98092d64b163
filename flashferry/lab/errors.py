"""The one exception of the lab."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints


class LabError(Exception):
    """A lab could not be built, found or asked; the text is a whole sentence that says what to do."""


Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Within:
    """The least and the largest number of a field, both allowed; stands in its type, by `Annotated`."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A TOML table that knows where it came from and which of its keys were read."""

    where: str
    values: dict[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a string", value)
        return value

    def number(self, key: str, default: float | None = None, *, low: float = 0.0, high: float = 1e15) -> float:
        """Return a number within ``low`` and ``high``, both allowed."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self._wrong(key, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def integer(self, key: str, default: int | None = None, *, low: int = 0, high: int = 2**53) -> int:
        """Return a whole number within ``low`` and ``high``, both allowed."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(key, f"a whole number from {low} to {high}", value)
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def strings(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self._value(key, list(default) if default is not None else None)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of strings", value)
        return tuple(value)

    def table(self, key: str) -> Table:
        """Return a table within this one; an absent one is empty."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table", value)
        return Table(where=f"{self.where}: {key}", values=value)

    def tables(self, key: str) -> tuple[Table, ...]:
        """Return an array of tables; an absent one is empty."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(key, "an array of tables", value)
        return tuple(Table(where=f"{self.where}: {key}[{i}]", values=v) for i, v in enumerate(value))

    def record(self, of: type[Record], *also: str, **given: Any) -> Record:
        """Read a dataclass of numbers, texts, flags, times, words and lists of texts; a field with a default may lack.

        `of`: The dataclass; its fields are keys that are allowed, besides `also`. `given`: Fields that the caller has
        read itself.
        """
        hints = get_type_hints(of, include_extras=True)
        self.only(*(hints.keys() - given.keys()), *also)
        for each in fields(of):  # type: ignore[arg-type] # any dataclass
            if each.name not in given and (each.name in self.values or each.default is MISSING):
                given[each.name] = self._field(each.name, hints[each.name])
        return of(**given)

    def _field(self, key: str, kind: Any) -> Any:
        """Return the value of a key whose field has a type; None is never written."""
        if get_origin(kind) in (Union, UnionType):
            kind = get_args(kind)[0]
        if get_origin(kind) is Literal:
            value, words = self.text(key), get_args(kind)
            if value not in words:
                raise self._wrong(key, f"one of {', '.join(words)}", value)
            return value
        if get_origin(kind) is Annotated:
            kind, within = get_args(kind)
            return _READERS[kind](self, key, low=within.low, high=within.high)
        return _READERS[kind](self, key)

    def only(self, *allowed: str) -> None:
        """Raise when there is a key that nothing reads: most likely a misspelt one."""
        for key in self.values:
            if key not in allowed:
                raise LabError(f"{self.where}: unknown key {key!r}; allowed are {', '.join(sorted(allowed))}.")

    def _value(self, key: str, default: object) -> object:
        if key in self.values:
            return self.values[key]
        if default is None:
            raise LabError(f"{self.where}: the key {key!r} is missing.")
        return default

    def _wrong(self, key: str, expected: str, seen: object) -> LabError:
        return LabError(f"{self.where}: {key}: expected {expected}, found {seen!r}.")


_READERS: Mapping[Any, Callable[..., Any]] = {
    str: Table.text,
    int: Table.integer,
    float: Table.number,
    bool: Table.flag,
    tuple[str, ...]: Table.strings,
    datetime: lambda table, key: datetime.fromisoformat(table.text(key)),
}


def read_table(package: str, name: str) -> Table:
    """Read the data file ``name`` of ``package``.

    Raises LabError: there is no such file (the sentence lists those there are), or it is not TOML.
    """
    folder = resources.files(package)
    path = folder.joinpath(f"{name}.toml")
    if not path.is_file():
        raise LabError(f"{package}: there is no data file {name!r}; there are {', '.join(data_names(package))}.")
    return _parsed(f"{name}.toml", path.read_bytes())


def read_file(path: Path) -> Table:
    """Read a data file of the user's own. Raises LabError: it cannot be read, or it is not TOML."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}; give the path of a TOML file.") from error
    return _parsed(str(path), content)


@functools.cache
def data_names(package: str) -> tuple[str, ...]:
    """Return the names of the data files of ``package``."""
    return tuple(sorted(item.name[:-5] for item in resources.files(package).iterdir() if item.name.endswith(".toml")))


def _parsed(where: str, content: bytes) -> Table:
    try:
        return Table(where=where, values=tomllib.loads(content.decode()))
    except UnicodeDecodeError as error:
        raise LabError(f"{where}: expected text in UTF-8, found byte {error.object[error.start]:#04x}.") from error
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{where}: not valid TOML: {error}.") from error

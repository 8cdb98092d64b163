"""Read profiles and platforms from TOML with errors that name file, key and what is allowed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from lab.errors import LabError


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

    def only(self, *allowed: str) -> None:
        """Raise when there is a key nobody reads: most likely a misspelt one."""
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


def read_table(package: str, name: str) -> Table:
    """Read the data file ``name`` of ``package``.

    Raises:
        LabError: There is no such file (the sentence lists those there are), or it is not TOML.
    """
    folder = resources.files(package)
    path = folder.joinpath(f"{name}.toml")
    if not path.is_file():
        known = sorted(item.name[:-5] for item in folder.iterdir() if item.name.endswith(".toml"))
        raise LabError(f"{package}: there is no data file {name!r}; there are {', '.join(known)}.")
    try:
        return Table(where=f"{name}.toml", values=tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{name}.toml: not valid TOML: {error}.") from error

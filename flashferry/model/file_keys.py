"""Read our TOML and YAML files, and validate their keys."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import control_character, described, unknown_key
from inventory.value_readers import WORD, at_home

_LONGEST_QUOTED = 40


class Form(Struct, frozen=True, kw_only=True):
    """Format of a kind of file, for error messages.

    Attributes:
        manual: Document with the table of its keys.
        line_of: Returns ` (line N)` for a key, given with its parents; empty if unknown.
        list_hint: How a list is written.
        mapping_hint: How a mapping is written.
    """

    manual: str
    line_of: Callable[..., str]
    list_hint: str
    mapping_hint: str


class Place(Struct, frozen=True, kw_only=True):
    """A value in a file, with its position.

    Attributes:
        keys: Its parents' keys and its own, the outermost first; list entries count from 0.
        value: The value; None if absent.
    """

    file: Path
    keys: tuple[str | int, ...] = ()
    value: Any = None
    form: Form

    @property
    def name(self) -> str:
        """The key in path notation: `topology.sites[0].nodes[1].count`."""
        parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return "".join(parts).removeprefix(".")

    @property
    def is_given(self) -> bool:
        """Whether there is a value."""
        return self.value is not None and self.value != ""

    def below(self, key: str | int) -> Place:
        """Return an entry of this mapping or list; its value is None if it is absent."""
        is_list = isinstance(self.value, list)
        value = self.value[key] if is_list else (self.value or {}).get(key)
        return Place(file=self.file, keys=(*self.keys, key), value=value, form=self.form)

    def entries(self) -> Iterator[Place]:
        """Yield the entries of a list.

        Raises:
            ConfigInvalid: It is no list, or empty.
        """
        if not isinstance(self.value, list) or not self.value:
            raise self.wrong("a list with at least one entry", self.form.list_hint)
        return (self.below(number) for number in range(len(self.value)))

    def named(self) -> Iterator[tuple[str, Place]]:
        """Yield keys and values of a mapping.

        Raises:
            ConfigInvalid: It is no mapping, or a key is not a string.
        """
        for name in self.mapping():
            if not isinstance(name, str):
                raise self.problem(f"expected names in text, found {described(name)}", "Put the name in quotes")
            yield name, self.below(name)

    def mapping(self) -> Mapping[Any, Any]:
        """Return the mapping; empty if absent.

        Raises:
            ConfigInvalid: It is no mapping.
        """
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping", self.form.mapping_hint)
        return self.value

    def wrong(self, expected: str, hint: str, *, known: Collection[str] = ()) -> ConfigInvalid:
        """Return an error for an unexpected value; it is quoted only if it resembles a known word."""
        return self.problem(f"expected {expected}, found {_found(self.value, known)}", hint)

    def problem(self, what: str, hint: str) -> ConfigInvalid:
        """Return an error with file, key and line."""
        where = f"key '{self.name}': " if self.keys else ""
        return ConfigInvalid(f"{self.file}: {where}{what}{self.form.line_of(self.file, *self.keys)}", hint=hint)


Reader = Callable[[Place], Any]
"""Returns a value in its type, or raises ConfigInvalid. Not called for absent values."""


class Key(Struct, frozen=True):
    """A key of a section.

    Attributes:
        read: Its reader.
        values: Valid values, for the documentation.
        says: Its purpose, for the documentation.
        default: Value if it is absent.
        shown_default: The default as text; None shows `default` itself.
    """

    name: str
    read: Reader
    values: str
    says: str
    is_required: bool = False
    default: Any = None
    shown_default: str | None = None


def read_section(place: Place, keys: Sequence[Key]) -> dict[str, Any]:
    """Read and validate a mapping's values by key.

    Raises:
        ConfigInvalid: It is no mapping, a key is unknown or missing, or a value is invalid.
    """
    names = [key.name for key in keys]
    for given in place.mapping():
        if given not in names:
            sentence = unknown_key(given, names)
            where = f"key '{place.name}': " if place.keys else ""
            line = place.form.line_of(place.file, *place.keys, given)
            raise ConfigInvalid(
                f"{place.file}: {where}{sentence.removesuffix('?')}{line}{'?' if sentence.endswith('?') else ''}",
                hint=f"All keys are in a table of {place.form.manual}; passwords have no place in this file",
            )
    return {key.name: _read(place.below(key.name), key) for key in keys}


def section(keys: Sequence[Key]) -> Reader:
    """Return a reader for a mapping: its values by key."""
    return lambda place: read_section(place, keys)


def defaults(keys: Sequence[Key]) -> dict[str, Any]:
    """Return the values of a mapping that is absent."""
    return {key.name: key.default for key in keys}


def _read(place: Place, key: Key) -> Any:
    if place.is_given:
        return key.read(place)
    if key.is_required:
        raise place.problem(f"expected {key.values}, found none", f"Give it: {key.says}")
    return key.default


def text(place: Place) -> str:
    """Read a single line of text."""
    if isinstance(place.value, str) and control_character(place.value) is None:
        return place.value
    raise place.wrong("text in one line", "Put it in quotes, on one line")


def word(place: Place) -> str:
    """Read one word, such as a name."""
    if isinstance(place.value, str) and WORD.fullmatch(place.value):
        return place.value
    raise place.wrong(
        "one word of letters, digits, '.', '_', '-'", "Write it without blanks; of digits alone: in quotes"
    )


def flag(place: Place) -> bool:
    """Read true or false."""
    if isinstance(place.value, bool):
        return place.value
    raise place.wrong("true or false", "Write it without quotes")


def file_path(place: Place) -> Path:
    """Read a path; a relative one starts at the folder of the file."""
    path = at_home(text(place))
    return path if path.is_absolute() else place.file.absolute().parent / path


def present_file(place: Place) -> Path:
    """Read the path of an existing, readable file."""
    path = file_path(place)
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise place.problem(
            f"expected a file that can be read, found none at {path}: {error.strerror}",
            "Check path and permissions; a relative path starts at the folder of the file that it stands in",
        ) from None
    return path


def choice(known: Collection[str]) -> Reader:
    """Return a reader for one of some words; for an enumeration it returns the member."""
    words = [str(one) for one in known]
    expected = " or ".join(", ".join(words).rsplit(", ", 1))

    def read(place: Place) -> str:
        found = next((one for one in known if isinstance(place.value, str) and one == place.value), None)
        if found is None:
            raise place.wrong(expected, "Write one of them", known=words)
        return found

    return read


def choices(known: Collection[str]) -> Reader:
    """Return a reader for a list of distinct words."""
    read_one = choice(known)

    def read(place: Place) -> tuple[str, ...]:
        found = tuple(read_one(one) for one in place.entries())
        check_distinct(place, found, "word")
        return found

    return read


def whole(low: int, high: int, unit: str = "") -> Reader:
    """Return a reader for integers."""

    def read(place: Place) -> int:
        found = place.value
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise place.wrong(
                f"a whole number {f'of {unit} ' if unit else ''}from {low} to {high}",
                "Write it in digits, without a unit",
            )
        return found

    return read


def number(low: float, high: float, unit: str = "", *, is_above: bool = False) -> Reader:
    """Return a reader for numbers; `is_above` excludes the lower bound."""

    def read(place: Place) -> float:
        found = place.value
        is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
        if not is_number or not low <= found <= high or (is_above and found == low):
            bounds = f"above {low:g}, at most {high:g}" if is_above else f"from {low:g} to {high:g}"
            raise place.wrong(
                f"a number {f'of {unit} ' if unit else ''}{bounds}",
                "Write it in digits, without a unit or a sign of percent",
            )
        return float(found)

    return read


def list_of(read: Reader) -> Reader:
    """Return a reader for a list of values."""
    return lambda place: tuple(read(one) for one in place.entries())


def words(place: Place) -> tuple[str, ...]:
    """Read a list of words, one argument each, without shell quoting; it may be empty."""
    if not isinstance(place.value, list) or not all(isinstance(one, str) for one in place.value):
        raise place.wrong("a list of texts", place.form.list_hint + ", one for each word")
    return tuple(place.value)


def check_distinct(place: Place, names: Collection[str], what: str) -> None:
    """Refuse a name that occurs twice.

    Raises:
        ConfigInvalid: One does.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise place.problem(f"expected each {what} once, found '{name}' twice", "Give one of them another name")
        seen.add(name)


def _found(value: object, known: Collection[str]) -> str:
    """Describe a value; a text that resembles no known word is not quoted, because it may be a secret."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value}"[:_LONGEST_QUOTED]
    if isinstance(value, str) and get_close_matches(value.lower(), list(known), n=1):
        return f"'{value}'"
    return described(value)


_TABLE = re.compile(r"\s*\[\s*([^\]]+?)\s*\]\s*(#.*)?")


def toml_of(path: Path, *, called: str, hint: str) -> dict[str, Any]:
    """Parse a TOML file.

    Args:
        path: The file.
        called: Description for the error if there is no file.
        hint: How to create such a file.

    Raises:
        ConfigInvalid: It cannot be read or parsed.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ConfigInvalid(f"{path}: expected {called}, found no file", hint=hint) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}",
            hint="Check the file's permissions, and that it is a plain file",
        ) from None
    return parsed_toml(content, where=str(path))


def parsed_toml(content: bytes, *, where: str, has_secrets: bool = False) -> dict[str, Any]:
    """Parse the bytes of a TOML file.

    Args:
        content: The bytes.
        where: The file, for error messages.
        has_secrets: Report a syntax error without the line, which may hold a password.

    Raises:
        ConfigInvalid: It is not UTF-8, or not TOML.
    """
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise ConfigInvalid(
            f"{where}: expected text in UTF-8, found something else", hint="Save it as UTF-8 with an editor"
        ) from None
    except tomllib.TOMLDecodeError as error:
        what = f"found something else {str(error).rpartition('(')[2].rstrip(')')}" if has_secrets else f"found: {error}"
        raise ConfigInvalid(
            f"{where}: not valid TOML: expected keys and tables, {what}",
            hint="Correct that place; texts stand in quotes, lists in brackets",
        ) from None


def toml_form(manual: str) -> Form:
    """Return the format of a TOML file; `manual` is the document with its keys."""
    return Form(
        manual=manual,
        line_of=_line_of,
        list_hint='Write it in brackets: ["one", "two"]',
        mapping_hint="Write it as a table: its name in brackets on a line of its own, its keys below",
    )


def _line_of(path: Path, *keys: str | int) -> str:
    """Return ` (line N)` of a key; empty if it is not found."""
    names = [str(key) for key in keys if isinstance(key, str)]
    lines = path.read_text(encoding="utf-8").splitlines()
    table: list[str] = []
    for count, line in enumerate(lines, start=1):
        if found := _TABLE.fullmatch(line):
            table = [part.strip().strip("\"'") for part in found[1].split(".")]
            if table == names:
                return f" (line {count})"
            continue
        key = line.partition("=")[0].strip().strip("\"'")
        if key and [*table, key] == names:
            return f" (line {count})"
    return _line_of(path, *names[:-1]) if len(names) > 1 else ""

"""Check of one inventory entry: errors that Nornir would hit later are reported with file, name and key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described, is_word, meant_key, of_these, unknown_key
from inventory.keys import READERS, check_values
from inventory.value_readers import read_line
from inventory.yaml_file import line_of

__all__ = ["DATA_KEYS", "OPTIONAL_ARGS", "check_entry", "unknown_group"]

_TEXT = ("hostname", "username", "password", "platform")
_MAPPINGS = ("data", "connection_options")
_KEYS = (*_TEXT, *_MAPPINGS, "port", "groups")

OPTIONAL_ARGS = "optional_args"
"""Key of NAPALM's and netmiko's options in the extras of a connection."""

_SHOWN = 10
_BELOW = "Write what belongs to it below it, one key per line and indented"

DATA_KEYS = tuple(READERS)
"""Keys of `data` that flashferry reads."""


def check_entry(
    path: Path,
    name: str,
    entry: dict[str, Any],
    *,
    groups_file: Path,
    known_groups: frozenset[str] = frozenset(),
    is_whole_file: bool = False,
) -> None:
    """Check one host, one group, or the defaults.

    Errors never quote a value, which may be a secret in the wrong place.

    Args:
        path: Its file.
        name: Name of the host or the group, or `defaults`.
        entry: Its keys and values.
        groups_file: File that defines the groups.
        known_groups: Names of the groups.
        is_whole_file: Whether the entry is the whole file, as for the defaults.

    Raises:
        ConfigInvalid: A key is unknown, a value is of the wrong type, or a group does not exist.
    """
    _Entry(path, name, entry, () if is_whole_file else (name,)).check(groups_file, known_groups)


class _Entry:
    """One host, one group or the defaults, with its position in a file."""

    def __init__(self, path: Path, name: str, entry: dict[str, Any], above: tuple[str, ...]) -> None:
        self._path = path
        self._name = name
        self._entry = entry
        self._above = above

    def check(self, groups_file: Path, known_groups: frozenset[str]) -> None:
        """Check the entry; arguments and errors as those of `check_entry`."""
        entry = self._entry
        for key in entry:
            if key not in _KEYS:
                raise self._wrong((key,), unknown_key(key, _KEYS), "Keys of your own stand below 'data'")
        self._check_text(entry)
        self._check_port(entry.get("port"))
        for key in _MAPPINGS:
            if not isinstance(entry.get(key) or {}, dict):
                raise self._wrong((key,), f"key '{key}': expected a mapping, found {described(entry[key])}", _BELOW)
        for number, (kind, options) in enumerate((entry.get("connection_options") or {}).items(), start=1):
            self._check_connection(kind, kind if is_word(kind) else f"number {number}", options)
        self._check_groups(entry.get("groups"), groups_file, known_groups)
        self._check_data(entry.get("data") or {})

    def _check_text(self, entry: Mapping[str, Any], above: tuple[str, ...] = (), where: str = "") -> None:
        """Check the keys with text values; one that is typed into a line must have no line break."""
        for key in _TEXT:
            value = entry.get(key)
            if value is None:
                continue
            if not isinstance(value, str):
                kind = type(value).__name__
                raise self._wrong((*above, key), f"{where}key '{key}': expected text, found {kind}", "Put it in quotes")
            try:
                read_line(value)
            except ConfigInvalid as error:
                raise self._wrong((*above, key), f"{where}key '{key}': {error.message}", error.hint) from None

    def _check_port(self, port: object) -> None:
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535):
            raise self._wrong(
                ("port",),
                f"key 'port': expected 1 to 65535, found {described(port)}",
                "It is SSH's; 22 is taken without",
            )

    def _check_connection(self, kind: str, label: str, options: object) -> None:
        """Check the options of one kind of connection; `label` is its name in messages."""
        above, where = ("connection_options", kind), f"connection_options: {label}: "
        if not isinstance(options, dict):
            raise self._wrong(above, f"{where}expected a mapping, found {described(options)}", _BELOW)
        self._check_text(options, above, where)
        extras = options.get("extras")
        if not isinstance(extras or {}, dict):
            raise self._wrong(
                (*above, "extras"), f"{where}key 'extras': expected a mapping, found {described(extras)}", _BELOW
            )
        given = (extras or {}).get(OPTIONAL_ARGS)
        if not isinstance(given or {}, dict):
            raise self._wrong(
                (*above, "extras", OPTIONAL_ARGS),
                f"{where}key '{OPTIONAL_ARGS}': expected a mapping, found {described(given)}",
                _BELOW,
            )

    def _check_groups(self, groups: object, file: Path, known: frozenset[str]) -> None:
        if groups is None:
            return
        if not isinstance(groups, list):
            found = described(groups)
            raise self._wrong(
                ("groups",),
                f"key 'groups': expected a list such as [branch], found {found}",
                "Put one group in brackets, too",
            )
        for number, group in enumerate(groups, start=1):
            if not isinstance(group, str) or group not in known:
                raise self._wrong(
                    ("groups",), unknown_group(group, number, file, known), f"Define it in {file.name}, or leave it out"
                )

    def _check_data(self, data: Mapping[Any, Any]) -> None:
        for key in data:
            if key in DATA_KEYS:
                continue
            before, colon, _ = key.partition(":") if isinstance(key, str) else ("", "", "")
            if meant_key(key, DATA_KEYS) is not None or (colon and before in DATA_KEYS):
                raise self._wrong(
                    ("data", key), f"data key: {unknown_key(key, DATA_KEYS)}", "Give a key of your own another name"
                )
        check_values(data, where=str(self._path), name=self._name, line=lambda key: self._line("data", key))

    def _wrong(self, keys: tuple[str, ...], message: str, hint: str | None) -> ConfigInvalid:
        return ConfigInvalid(f"{self._path}: {message}{self._line(*keys)}", host=self._name, hint=hint)

    def _line(self, *keys: str) -> str:
        return line_of(self._path, *self._above, *keys)


def unknown_group(group: object, number: int, file: Path, known: frozenset[str]) -> str:
    """Return the error message about a group that does not exist."""
    if not known:
        return f"key 'groups': group number {number}: {file} has no group"
    names = of_these(sorted(known)[:_SHOWN], "some of") + (
        f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    )
    return f"key 'groups': group number {number} is not in {file}: expected {names}, found {described(group)}"

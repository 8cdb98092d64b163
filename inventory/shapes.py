"""The shape of one inventory entry: what Nornir would trip over later, told now with file, name and key."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from inventory.errors import ConfigInvalid
from inventory.values import READERS, check_values

_TEXT = ("hostname", "username", "password", "platform")
_MAPPINGS = ("data", "connection_options")
_KEYS = (*_TEXT, *_MAPPINGS, "port", "groups")

DATA_KEYS = tuple(READERS)
"""What flashferry reads of `data`."""


def unknown_key(key: object, keys: tuple[str, ...]) -> str:
    """Return the complaint about a key that is none of ours, with the one that was probably meant."""
    return f"unknown key {key!r}{_meant(key, keys)}"


def check_entry(
    path: Path, name: str, entry: dict[str, Any], *, groups_file: Path, known_groups: frozenset[str] = frozenset()
) -> None:
    """Check one host, one group, or the defaults.

    Values of secrets never appear in an error.

    Raises:
        ConfigInvalid: A key is unknown, misspelt, or of the wrong kind, or a group does not exist.
    """
    for key in entry:
        if key not in _KEYS:
            raise ConfigInvalid(f"{path}: {unknown_key(key, _KEYS)}", host=name)
    for key in _TEXT:
        if entry.get(key) is not None and not isinstance(entry[key], str):
            kind = type(entry[key]).__name__
            raise ConfigInvalid(f"{path}: key '{key}': expected text, found {kind}", host=name, hint="Put it in quotes")
    port = entry.get("port")
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535):
        raise ConfigInvalid(f"{path}: key 'port': expected 1 to 65535, found {port!r}", host=name)
    for key in _MAPPINGS:
        if not isinstance(entry.get(key) or {}, dict):
            raise ConfigInvalid(f"{path}: key '{key}': expected a mapping, found {entry[key]!r}", host=name)
    for kind, options in (entry.get("connection_options") or {}).items():
        if not isinstance(options, dict):
            # A value there may be a password, so its kind is all that is told.
            found = type(options).__name__
            raise ConfigInvalid(f"{path}: connection_options: {kind}: expected a mapping, found {found}", host=name)
    _check_groups(path, name, entry.get("groups"), groups_file, known_groups)
    for key in entry.get("data") or {}:
        if key not in DATA_KEYS and (meant := _meant(key, DATA_KEYS)):
            raise ConfigInvalid(f"{path}: data key {key!r} is not one of ours{meant}", host=name)
    check_values(entry.get("data") or {}, where=str(path), name=name)


def _check_groups(path: Path, name: str, groups: object, file: Path, known: frozenset[str]) -> None:
    if groups is None:
        return
    if not isinstance(groups, list):
        raise ConfigInvalid(f"{path}: key 'groups': expected a list such as [branch], found {groups!r}", host=name)
    for group in groups:
        if group not in known:
            raise ConfigInvalid(f"{path}: group {group!r} is not in {file}", host=name)


def _meant(key: object, keys: tuple[str, ...]) -> str:
    close = get_close_matches(str(key), keys, n=1, cutoff=0.8)
    return f"; did you mean '{close[0]}'?" if close else ""

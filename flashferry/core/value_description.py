"""Descriptions of wrong input for error messages, which never quote what could be a secret.

A value of an inventory may be a password in the wrong place, and so may a key: `password:word` without the space is a
key in YAML. An error message therefore has the place, what was expected, and the kind and length of the value, by which
the owner of the file finds it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from flashferry.core.units import counted

SHORTEST_SECRET = 3
"""Least length of a text that may be a secret, in characters."""

_IMAGE = re.compile(r"[\w./~+-]*\.(bin|pkg|tar|tgz|gz|zip|img|iso|ova|qcow2|smu|spa)", re.IGNORECASE | re.ASCII)
_FILE = re.compile(r"[\w./~ +-]*\.(ya?ml|csv|tsv|txt|json|xlsx?|ods|toml|ini|conf|cfg)", re.IGNORECASE | re.ASCII)
_LETTERS = re.compile(r"[A-Za-z][A-Za-z_-]*")
_PUBLIC = re.compile(r"\d{1,2}:\d\d|[\d.,<>=!() ]*[.<>=!][\d.,<>=!() ]*")
"""Texts of digits and signs only, which are no password: a time of day, or a comparison of releases."""

PLATFORM_WORDS = frozenset(
    {
        *("arista_eos", "aruba_os", "asa", "cisco", "cisco_asa", "cisco_ios", "cisco_iosxe", "cisco_iosxr"),
        *("cisco_ios_serial", "cisco_ios_telnet", "cisco_xe_telnet"),
        *("cisco_nxos", "cisco_xe", "cisco_xr", "eos", "fortinet", "hp_procurve", "huawei", "ios-xe", "ios_xe"),
        *("ios_xr", "iosxe", "iosxr", "juniper", "juniper_junos", "junos", "linux", "mikrotik_routeros", "nokia_sros"),
        *("nxos", "nxos_ssh", "paloalto_panos", "panos", "sros", "vyos"),
    }
)
"""Platform names of Nornir, netmiko and NAPALM, which are no secrets."""


def described(value: object, known: Iterable[str] = ()) -> str:
    """Describe a value for an error message; it is quoted only if it cannot be a secret.

    Args:
        value: The value.
        known: Public words, which are quoted.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return str(value) if len(str(value)) <= SHORTEST_SECRET else "a number"
    if isinstance(value, str):
        is_public = len(value) < SHORTEST_SECRET or value.lower() in known or _PUBLIC.fullmatch(value)
        return repr(value) if is_public else _text(value)
    if isinstance(value, Mapping):
        return f"a mapping with {counted(len(value), 'key')}"
    if isinstance(value, list | tuple | set):
        if not value:
            return "an empty list"
        return f"a list with {counted(len(value), 'entry', 'entries')}"
    return f"a {type(value).__name__}"


def is_image_name(image: str) -> bool:
    """Return whether a text has the suffix of an image file, and so is no secret."""
    return _IMAGE.fullmatch(image) is not None


def described_image(image: str) -> str:
    """Return an image name if it has the suffix of one, else its description."""
    return image if is_image_name(image) else f"({_text(image)})"


def described_file(file: object) -> str:
    """Return a file name if it has the suffix of one, else its description."""
    return str(file) if _FILE.fullmatch(str(file)) else described(str(file))


def unknown_key(key: object, keys: Iterable[str]) -> str:
    """Return the error message about an unknown key, with the known one that was probably meant."""
    ours = tuple(keys)
    if isinstance(key, str):
        if (meant := meant_key(key, ours, cutoff=0.6)) is not None:
            return f"unknown key '{key}'; did you mean '{meant}'?"
        before, colon, _ = key.partition(":")
        if colon:
            where = f"'{before}:'" if before in ours else "the colon"
            return f"unknown key, {described(key)}: the blank after {where} is missing"
    return f"unknown key, {described(key)}; expected {of_these(ours, 'some of')}"


def meant_key(key: object, keys: Iterable[str], *, cutoff: float = 0.8) -> str | None:
    """Return the known key that was probably meant; None if none is similar, or the key is no plain word."""
    if not isinstance(key, str) or not is_word(key):
        return None
    return next(iter(get_close_matches(key, list(keys), n=1, cutoff=cutoff)), None)


def is_word(key: object) -> bool:
    """Return whether a key has only letters, `_` and `-`, as all keys in configuration files."""
    return isinstance(key, str) and _LETTERS.fullmatch(key) is not None


def control_character(text: str) -> str | None:
    """Return in words which kind of character makes a text unfit for a line; None if there is none."""
    for character in text:
        if character in "\r\n\u2028\u2029\x0b\x0c\x85":
            return "a line break"
        if unicodedata.category(character) in {"Cc", "Cs"}:
            return "a control character"
    return None


def _text(text: str) -> str:
    found = control_character(text)
    more = [found] if found else []
    more += ["a blank"] if " " in text else []
    return f"text of {counted(len(text), 'character')}" + (f" with {' and '.join(more)}" if more else "")


def of_these(words: Iterable[str], choice: str = "one of") -> str:
    """Return some words to choose from: `one of a, b`; a single one stands by itself."""
    found = tuple(words)
    return ", ".join(found) if len(found) == 1 else f"{choice} {', '.join(found)}"

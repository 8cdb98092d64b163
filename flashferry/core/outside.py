"""Redaction and escaping of every text that leaves the process.

Secrets that this process knows are masked by their value, so that it does not matter whether a device, a parser or a
library put one into a sentence. Control characters, escape sequences and marks that change the writing direction or
break a line are written visibly.

Everything passes here: lines on the terminal, tables and live views, JSON, CSV, JUnit, HTML, events, metrics,
the journal, log lines, and the text of every error of ours. What recovery needs (snapshots, changes, addresses) is kept
as it is; it holds no text of a device but its configuration lines. The copy lines that `flashferry serve` prints are
what was asked for, the one place where a ticket is printed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flashferry.core.known_secrets import MASK, KnownSecrets

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "MASK",
    "forget_secrets",
    "is_secret_key",
    "json_text",
    "keep_environment_secrets",
    "keep_secret",
    "keep_secrets_in",
    "masked",
    "outward",
    "redact_json",
    "sanitize",
    "sanitize_lines",
    "sanitize_record",
    "secret_begun",
    "secret_places",
    "secret_start",
    "shown",
    "shown_lines",
    "told",
    "visible",
]

T = TypeVar("T")

_SECRETS = KnownSecrets()

_SECRET_KEY = re.compile(
    r"pass(word|wd|phrase|code)?$|pwd|secret|token|community|credential|psk$|^pin$"
    r"|(api|auth|encryption|private|radius|shared|snmp|tacacs)[_-]?key",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY)(?![A-Z])", re.IGNORECASE)
_NOT_ITSELF = re.compile(r"_(COMMAND|FILE|PATH|DIR|URL)$", re.IGNORECASE)
"""Variables that name where a secret is to be had."""

_NAMES = frozenset(
    {
        "action",
        "algorithm",
        "congestion_control",
        "host",
        "kind",
        "meaning",
        "outcome",
        "platform",
        "restored",
        "run_id",
        "schema",
        "site",
        "state",
        "status",
        "step",
        "ticket_id",
        "verb",
    }
)
"""Keys whose values are names, or words from a list of ours that programs compare; no device puts anything there."""

_FIELD = re.compile(r"[a-z][a-z0-9_]*")
_NUMBERS = frozenset({int, float, bool, type(None)})
_PLAIN_WORDS = re.compile(r"[a-z][a-z _-]*")
"""Such words in such places are left: `restored` may be a password, and is what became of a device."""

_FIGURES = re.compile(r"((int|float|bool|None|NoneType)( \| )?)+")

_KEPT: dict[str, str] = {}
"""What was shown lately, and what became of it: a view shows the same names again and again."""
_KEPT_WORDS: dict[tuple[str, bool], str] = {}
"""The same of what programs were given: a document has the same keys and words for every device."""
_MOST_KEPT = 4096
_LONGEST_WORD = 40
_LINE_SIGNS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def keep_secret(*values: str | None, is_random: bool = False) -> None:
    """Have secrets masked from now on; None and empty ones are passed over.

    Args:
        values: The secrets.
        is_random: Whether they are random letters and digits, as those of a ticket: also parts of them are masked.
    """
    for value in values:
        if value and _SECRETS.add(value, is_random=is_random):
            _KEPT.clear()
            _KEPT_WORDS.clear()


def keep_environment_secrets(environment: Mapping[str, str]) -> None:
    """Have the values of all variables masked whose names say that they are secrets."""
    for name, value in environment.items():
        if _SECRET_VARIABLE.search(name) and not _NOT_ITSELF.search(name):
            keep_secret(value)


def keep_secrets_in(tree: object) -> None:
    """Have all values masked that stand under the key of a secret, however deep; numbers are secrets, too."""
    seen: set[int] = set()
    waiting: list[tuple[object, bool]] = [(tree, False)]
    while waiting:
        value, is_secret = waiting.pop()
        if isinstance(value, Mapping | list | tuple | set):
            # Aliases of YAML may have a value hold itself, or be in a thousand places.
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, Mapping):
                waiting += [(one, is_secret or is_secret_key(key)) for key, one in value.items()]
            else:
                waiting += [(one, is_secret) for one in value]
        elif is_secret and value is not None and not isinstance(value, bool):
            keep_secret(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def is_secret_key(key: object) -> bool:
    """Return whether a key of an inventory, or a plugin's option, names a secret."""
    return isinstance(key, str) and _SECRET_KEY.search(key) is not None


def forget_secrets() -> None:
    """Forget all secrets: for tests, which share a process."""
    _SECRETS.clear()
    _KEPT.clear()
    _KEPT_WORDS.clear()


def masked(text: str) -> str:
    """Return a text without secrets; all else is as it was."""
    return _SECRETS.mask(text)


def secret_places(text: str) -> list[tuple[int, int]]:
    """Return where secrets stand in a text, for one that is masked piece by piece; they may overlap, in no order."""
    return _SECRETS.spans(text)


def secret_start(text: str) -> int:
    """Return from where on the end of a text may be a secret's beginning; the length of the text where it is none."""
    return _SECRETS.start_of_last(text)


def sanitize(text: str) -> str:
    """Return a text as it may be shown in a line or a cell: without secrets, and nothing in it is obeyed by anybody."""
    if (known := _KEPT.get(text)) is not None:
        return known
    result = visible(_SECRETS.mask(text))
    if len(_KEPT) >= _MOST_KEPT:
        _KEPT.clear()
    _KEPT[text] = result
    return result


def sanitize_lines(text: str) -> str:
    """Return a text of several lines as `sanitize` does each; line feeds stay."""
    text = _SECRETS.mask(text)
    return text if text.isprintable() else "\n".join(visible(line) for line in text.split("\n"))


def redact_json(value: Any, name: str = "", *, exact: Collection[str] = ()) -> Any:
    """Return JSON types for programs: every text without secrets, and otherwise exact.

    Args:
        value: JSON types.
        name: The key under which it stands.
        exact: Keys whose values are left as they are, for we read them again: names of devices and files, say.
    """
    if name in exact:
        return value
    if isinstance(value, str):
        return _word(value, is_name=name in _NAMES)
    if isinstance(value, dict):
        return {
            key if _is_field(key) else _word(key, is_name=True): one
            if type(one) in _NUMBERS
            else redact_json(one, key, exact=exact)
            for key, one in value.items()
        }
    if isinstance(value, list):
        # Readings are thousands of numbers.
        return value if name == "samples" else [redact_json(one, name, exact=exact) for one in value]
    return value


@lru_cache(maxsize=4096)
def _is_field(key: str) -> bool:
    """Return whether a key is the name of a field, which holds no secret whatever secrets there are."""
    return _FIELD.fullmatch(key) is not None


def sanitize_record(value: T) -> T:
    """Return a value made of dataclasses and tuples with every text as `sanitize` has it."""
    return cast("T", _outward(value))


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON types as a document that people read, too: letters as they are, all else that is no sign escaped.

    Args:
        value: JSON types.
        indent: As that of `json.dumps`.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if text.replace("\n", "").isprintable() else re.sub(r"[^\x20-\x7e\n]", _escaped_for_json, text)


def _word(text: str, *, is_name: bool) -> str:
    if len(text) > _LONGEST_WORD:
        return _SECRETS.mask(text, is_name=is_name)
    if is_name and _PLAIN_WORDS.fullmatch(text):
        return text
    if (known := _KEPT_WORDS.get((text, is_name))) is None:
        known = _SECRETS.mask(text, is_name=is_name)
        if len(_KEPT_WORDS) >= _MOST_KEPT:
            _KEPT_WORDS.clear()
        _KEPT_WORDS[text, is_name] = known
    return known


def _outward(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, tuple):
        made = tuple(_outward(one) for one in value)
        return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    if is_dataclass(value) and not isinstance(value, type) and not _is_figures(type(value)):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
        made_of = {name: _outward(one) for name, one in found.items() if not isinstance(one, int | float | None)}
        changed = {name: one for name, one in made_of.items() if one is not found[name]}
        return replace(value, **changed) if changed else value
    return value


@cache
def _is_figures(kind: type[DataclassInstance]) -> bool:
    """Return whether a dataclass has no text in it, as a reading has not; there are thousands of them."""
    return all(_FIGURES.fullmatch(str(getattr(field.type, "__name__", field.type))) for field in fields(kind))


def visible(text: str) -> str:
    """Return a text in one line of signs, secrets included; what is no sign is written as Python writes it."""
    if text.isprintable():
        return text
    return "".join(map(_sign, text))


def _sign(character: str) -> str:
    # Blanks of another width are no danger.
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    if character in _LINE_SIGNS:
        return _LINE_SIGNS[character]
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escaped_for_json(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


# The earlier names, until every package uses the new ones.
told, shown, shown_lines, outward, secret_begun = redact_json, sanitize, sanitize_lines, sanitize_record, secret_start

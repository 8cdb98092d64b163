"""Redaction and escaping: known secrets are masked by value in every text that leaves the process."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from flashferry.core.safe_quote import SHORTEST_SECRET

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
    "redact_json",
    "sanitize",
    "sanitize_lines",
    "sanitize_record",
    "secret_places",
    "secret_start",
    "visible",
]

MASK = "***"

LEAST_ANYWHERE = 6

"""Secrets of so many characters are masked anywhere, shorter ones as whole words."""

LEAST_FRAGMENT = 8

"""So many characters of a random secret in a row are masked, also where the rest is missing."""

MOST_RANDOM = 8192

"""So many random secrets are kept, the newest: two per ticket. Those before are over, and worthless."""

_GRAM = 4

_STEP = 3

"""Of six characters three begin four in a row, so one of them is at a place where it is looked."""

_LEAST_IN_WORDS = 10

"""So long a secret is also found where nothing but blanks cuts it; a shorter one could be two words of a sentence."""

_GAP = re.compile(
    r"(?:\x1b\[[0-?]*[ -/]*[@-~]"  # what a terminal takes for a command
    r"|\\x1b\[[0-9;?]*[A-Za-z]"  # the same as Python and JSON write it
    r"|\\u001b\[[0-9;?]*[A-Za-z]"
    r"|\\(?:[nrtbfv]|x[0189][0-9a-fA-F]|x7f|u00[0189][0-9a-fA-F]|u007f|u20[0-6][0-9a-fA-F]|ufeff)"
    r"|[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff$])+"
)

_SIGNS = re.compile(r"[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff$]+")

"""The same without what is written with several signs: one of them before a secret may make it of its first ones."""

_MAY_EAT = re.compile(r"\x1b\[|\\")

"""What may make a secret's first characters part of a gap: `\\f00000` is a form feed in one file, a user in another."""

_MAY_HAVE_MORE = re.compile(r"[^\x20-\x7e]|\\")

_BLANKS = re.compile(r" +")

_USER_INFO = re.compile(r"(://)(?![*<])[^@/\s]*@")

"""User and password in a URL; those that are masked already, or written `<user>:<password>`, are none."""

_USER_INFO_START = re.compile(r"://(?![*<])[^@/\s]*\Z")

_NO_SECRETS = frozenset(
    {"flashferry", "hostname", "username", "password", "platform", "ios", "enable", "true", "false", "null", "none"}
)

"""Words of our own sentences, whatever the passwords are: masking them would reveal more than leaving them."""

_MOST_OF_START = 512

"""So many characters of an incomplete secret are searched; keys that are longer have lines of their own."""

_CUTS = tuple(slice(at, at + _GRAM) for at in range(0, 3000, _STEP))

"""Where a text is looked at; longer ones make their own."""


@dataclass(frozen=True, slots=True, repr=False)
class _Secret:
    """A secret with its gaps closed.

    Attributes:
        text: What is looked for.
        whole: The secret as it is.
        is_random: Whether a part of it counts, too.
    """

    text: str
    whole: str
    is_random: bool

    @property
    def may_be_cut_by_blanks(self) -> bool:
        """Return whether it is that with nothing but blanks in between, and not some words of a sentence."""
        return self.is_random or len(self.text) >= _LEAST_IN_WORDS

    def grams(self) -> Iterator[str]:
        """Yield what is found in the dictionary."""
        yield from dict.fromkeys(self.text[at : at + _GRAM] for at in range(len(self.text) - _GRAM + 1))

    def parts(self, text: str, at: int) -> Iterator[tuple[int, int]]:
        """Yield where it, or a part of it that counts, stands in a text around a place of four of its characters."""
        gram = text[at : at + _GRAM]
        place = self.text.find(gram)
        while place >= 0:
            begin = at - place
            if begin >= 0 and text.startswith(self.text, begin):
                yield begin, begin + len(self.text)
            elif self.is_random and (part := _common(text, at, self.text, place)) is not None:
                yield part
            place = self.text.find(gram, place + 1)


_Span = tuple[int, int, _Secret]

"""Where a secret, or a part of it, begins and ends in a text with its gaps closed."""


class KnownSecrets:
    """Secrets by value. Safe to use from all threads; to look for them takes no lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._random: deque[_Secret] = deque()
        # Values are replaced, never changed: who reads meanwhile sees the old one or the new one.
        self._by_gram: dict[str, tuple[_Secret, ...]] = {}
        self._words: tuple[tuple[str, re.Pattern[str]], ...] = ()
        self._by_head: dict[str, tuple[str, ...]] = {}
        self._heads: frozenset[str] = frozenset()
        self._longest = 0

    def __repr__(self) -> str:
        """Return how many there are."""
        return f"KnownSecrets({len(self._seen)})"

    def add(self, value: str, *, is_random: bool = False) -> bool:
        """Take a secret in; return whether it is a new one.

        Args:
            value: The secret; one too short to hide is left out.
            is_random: Whether it is random letters and digits, as a ticket's: then parts of it are masked as well, and
                it is forgotten when thousands came after it.
        """
        with self._lock:
            fresh = [one for one in _spellings(value) if one not in self._seen]
            for spelling in fresh:
                self._take(spelling, is_random=is_random)
            return bool(fresh)

    def mask(self, text: str, *, is_name: bool = False) -> str:
        """Return a text without any secret.

        Args:
            text: The text.
            is_name: Whether it is a name or a word from a closed list and not a sentence: a short secret may be equal
                to it as a whole by chance, and then it is left.
        """
        if "://" in text:
            text = _USER_INFO.sub(rf"\1{MASK}@", text)
        if self._by_gram and len(text) >= _GRAM:
            text = self._without_long(text)
        for word, pattern in self._words:
            if word in text and not (is_name and word == text):
                text = pattern.sub(MASK, text)
        return text

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where `mask` finds something: begin and end of each place, in no order; they may overlap."""
        found = [(one.end(1), one.end() - 1) for one in _USER_INFO.finditer(text)] if "://" in text else []
        if self._by_gram and len(text) >= _GRAM:
            found += self._long_places(text)
        for word, pattern in self._words:
            if word in text:
                found += [one.span() for one in pattern.finditer(text)]
        return found

    def start_of_last(self, text: str) -> int:
        """Return from where on the end of a text may be the beginning of a secret; its length where it is of none.

        A text that comes in pieces may end in the middle of a secret, which then is found in no piece. Up to three
        characters of a random secret are let go: eight of the rest are enough to find it.

        Args:
            text: The text as far as it came.
        """
        tail = text[-2 * _MOST_OF_START :]
        if "://" in tail and (found := _USER_INFO_START.search(tail)) is not None:
            return len(text) - len(tail) + found.start() + len("://")
        if not self._longest:
            return len(text)
        closed = _closed(tail)
        first = max(len(closed) - min(self._longest - 1, _MOST_OF_START), 0)
        for at in range(first, len(closed)):
            rest = closed[at:]
            if rest in self._heads or any(
                len(one) > len(rest) and one.startswith(rest) for one in self._by_head.get(rest[:_GRAM], ())
            ):
                return len(text) - len(tail) + _places(tail, closed, _GAP)[at]
        return len(text)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._by_head = {}
            self._heads = frozenset()
            self._longest = 0
            self._seen.clear()
            self._random.clear()
            self._by_gram = {}
            self._words = ()

    def _take(self, spelling: str, *, is_random: bool) -> None:
        self._seen.add(spelling)
        closed = _GAP.sub("", spelling)
        if len(spelling) < LEAST_ANYWHERE or len(closed) < LEAST_ANYWHERE or spelling.isdecimal():
            self._words = (*self._words, (spelling, _as_word(spelling)))
            self._longest = max(self._longest, len(closed))
            self._heads |= {closed[:end] for end in range(1, len(closed))}
            return
        secret = _Secret(closed, spelling, is_random)
        for gram in secret.grams():
            self._by_gram[gram] = (*self._by_gram.get(gram, ()), secret)
        self._longest = max(self._longest, len(closed))
        self._by_head[closed[:_GRAM]] = (*self._by_head.get(closed[:_GRAM], ()), closed)
        if not is_random:
            self._heads |= {closed[:end] for end in range(1, _GRAM)}
        if is_random:
            self._random.append(secret)
            while len(self._random) > MOST_RANDOM:
                self._drop(self._random.popleft())

    def _drop(self, secret: _Secret) -> None:
        self._seen.discard(secret.text)
        for gram in secret.grams():
            if left := tuple(one for one in self._by_gram.get(gram, ()) if one is not secret):
                self._by_gram[gram] = left
            else:
                self._by_gram.pop(gram, None)
        head = secret.text[:_GRAM]
        if others := tuple(one for one in self._by_head.get(head, ()) if one is not secret.text):
            self._by_head[head] = others
        else:
            self._by_head.pop(head, None)

    def _without_long(self, text: str) -> str:
        parts: list[str] = []
        done = 0
        for first, last in self._long_places(text):
            if last <= done:
                continue
            if first >= done:
                parts += [text[done:first], MASK]
            done = last
        return "".join(parts) + text[done:] if done else text

    def _long_places(self, text: str) -> list[tuple[int, int]]:
        """Return where longer secrets, or parts of them that count, stand; from the first one on."""
        found = self._places_in(text, _closed(text), _GAP)
        if _MAY_EAT.search(text) is not None:
            found = sorted(found + self._places_in(text, _SIGNS.sub("", text), _SIGNS))
        return found

    def _places_in(self, text: str, closed: str, gap: re.Pattern[str]) -> list[tuple[int, int]]:
        places, known = range(0, len(closed) - _GRAM + 1, _STEP), self._by_gram
        cuts = _CUTS if len(places) <= len(_CUTS) else tuple(slice(at, at + _GRAM) for at in places)
        if known.keys().isdisjoint(map(closed.__getitem__, cuts[: len(places)])):
            return []
        spans = [
            (*part, secret)
            for at in places
            for secret in known.get(closed[at : at + _GRAM], ())
            for part in secret.parts(closed, at)
        ]
        return _meant(text, _places(text, closed, gap), sorted(spans, key=lambda span: span[:2])) if spans else []


def _closed(text: str) -> str:
    """Return a text without its gaps; most texts have blanks and nothing else."""
    return _GAP.sub("", text) if _MAY_HAVE_MORE.search(text) else text.replace(" ", "").replace("$", "")


def _spellings(value: str) -> Iterator[str]:
    """Yield a secret as it may come back; a text of several lines line by line, too."""
    lines = value.splitlines()
    for one in dict.fromkeys((value, value.strip(), *(lines if len(lines) > 1 else ()))):
        if len(one) < SHORTEST_SECRET or one.isspace() or one.lower() in _NO_SECRETS:
            continue
        yield from dict.fromkeys(
            (
                one,
                repr(one)[1:-1],
                json.dumps(one)[1:-1],
                quote(one, errors="replace"),
                quote(one, safe="", errors="replace"),
                # UTF-8 that a session read byte by byte.
                one.encode("utf-8", "replace").decode("iso-8859-1"),
            )
        )


def _as_word(word: str) -> re.Pattern[str]:
    """Return what finds a short secret as a word of its own, not `ios` in `ios-xe` or `a.ios`."""
    return re.compile(rf"(?<!\w)(?<!\w[-._]){re.escape(word)}(?!\w)(?![-._]\w)")


def _common(text: str, at: int, secret: str, place: int) -> tuple[int, int] | None:
    """Return how far text and secret are the same around a place where they are; None where that is too short."""
    begin = 0
    while begin < min(at, place) and text[at - begin - 1] == secret[place - begin - 1]:
        begin += 1
    end = _GRAM
    while at + end < len(text) and place + end < len(secret) and text[at + end] == secret[place + end]:
        end += 1
    return (at - begin, at + end) if begin + end >= LEAST_FRAGMENT else None


def _meant(text: str, places: list[int], spans: list[_Span]) -> list[tuple[int, int]]:
    """Return which spans of a text's closed form are secrets, as places in the text itself."""
    found = ((places[begin], places[end - 1] + 1, secret) for begin, end, secret in spans)
    return [(first, last) for first, last, secret in found if _is_meant(text[first:last], secret)]


def _places(text: str, closed: str, gap: re.Pattern[str]) -> list[int]:
    """Return where each character of the closed form, made by closing such gaps, stands in the text."""
    if len(text) == len(closed):
        return list(range(len(text)))
    found: list[int] = []
    end = 0
    for one in gap.finditer(text):
        found.extend(range(end, one.start()))
        end = one.end()
    found.extend(range(end, len(text)))
    return found


def _is_meant(found: str, secret: _Secret) -> bool:
    """Return whether what was found is the secret, and not words that happen to have its letters."""
    # Gaps at the ends of a secret are no part of what is found.
    if secret.may_be_cut_by_blanks or found in secret.whole:
        return True
    return all(_BLANKS.fullmatch(gap[0]) is None for gap in _GAP.finditer(found))


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

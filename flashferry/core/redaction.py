"""Redaction and escaping: known secrets are masked by value in every text that leaves the process."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from flashferry.core.value_description import SHORTEST_SECRET
from flashferry.core.values import as_dict, replace

if TYPE_CHECKING:
    pass

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
"""Secrets of at least so many characters are masked anywhere in a text, shorter ones only as whole words."""

LEAST_FRAGMENT = 8
"""Least number of consecutive characters of a random secret that are masked although the rest is missing."""

MOST_RANDOM = 8192
"""Random secrets that are kept, the newest, two per ticket; the tickets of older ones have expired."""

_GRAM = 4

_STEP = 3
"""Texts are checked at every third character: of six characters, one of the four-character pieces starts there."""

_LEAST_IN_WORDS = 10
"""Least length of a secret that is found even if spaces split it; a shorter one could be two words of a sentence."""

_GAP = re.compile(
    r"(?:\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences of terminals
    r"|\\x1b\[[0-9;?]*[A-Za-z]"  # the same as Python and JSON write it
    r"|\\u001b\[[0-9;?]*[A-Za-z]"
    r"|\\(?:[nrtbfv]|x[0189][0-9a-fA-F]|x7f|u00[0189][0-9a-fA-F]|u007f|u20[0-6][0-9a-fA-F]|ufeff)"
    r"|[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff$])+"
)

_SIGNS = re.compile(r"[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff$]+")
"""Gaps of single characters only: an escape sequence before a secret may take the secret's first characters."""

_MAY_EAT = re.compile(r"\x1b\[|\\")
"""Sequences that may take a secret's first characters into a gap: `\\f00000` is a form feed, or a name after `\\`."""

_MAY_HAVE_MORE = re.compile(r"[^\x20-\x7e]|\\")

_BLANKS = re.compile(r" +")

_USER_INFO = re.compile(r"(://)(?![*<])[^@/\s]*@")
"""User and password in a URL, unless they are masked already or a placeholder such as `<user>:<password>`."""

_USER_INFO_START = re.compile(r"://(?![*<])[^@/\s]*\Z")

_NO_SECRETS = frozenset(
    {"flashferry", "hostname", "username", "password", "platform", "ios", "enable", "true", "false", "null", "none"}
)
"""Words of our own messages that are never masked: masking them would reveal that a password is such a word."""

_MOST_OF_START = 512
"""Most characters of an incomplete secret at the end of a text; longer keys are registered line by line."""

_CUTS = tuple(slice(at, at + _GRAM) for at in range(0, 3000, _STEP))
"""Precomputed slices at which a text is checked; longer texts compute their own."""


@dataclass(frozen=True, slots=True, repr=False)
class _Secret:
    """A secret to be searched for.

    Attributes:
        text: The secret without gaps (spaces, control characters, escapes), as it is searched.
        whole: The secret unchanged.
        is_random: Whether parts of it are masked, too.
    """

    text: str
    whole: str
    is_random: bool

    @property
    def may_be_cut_by_blanks(self) -> bool:
        """Return whether it is also found split by spaces only, as it cannot be some words of a sentence."""
        return self.is_random or len(self.text) >= _LEAST_IN_WORDS

    def grams(self) -> Iterator[str]:
        """Yield its pieces of four characters, which are the keys of the index."""
        yield from dict.fromkeys(self.text[at : at + _GRAM] for at in range(len(self.text) - _GRAM + 1))

    def parts(self, text: str, at: int) -> Iterator[tuple[int, int]]:
        """Yield the spans of the secret, or of a sufficient part of it, around one of its four-character pieces."""
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
"""Start and end of a secret, or a part of it, in a text without gaps, and the secret."""


class KnownSecrets:
    """Registry of secrets by value. Thread-safe; searching takes no lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._random: deque[_Secret] = deque()
        # Values are replaced, never changed, so a concurrent reader gets the old or the new one.
        self._by_gram: dict[str, tuple[_Secret, ...]] = {}
        self._words: tuple[tuple[str, re.Pattern[str]], ...] = ()
        self._by_head: dict[str, tuple[str, ...]] = {}
        self._heads: frozenset[str] = frozenset()
        self._longest = 0

    def __repr__(self) -> str:
        """Return the number of secrets, and none of them."""
        return f"KnownSecrets({len(self._seen)})"

    def add(self, value: str, *, is_random: bool = False) -> bool:
        """Add a secret; return whether it is new.

        Args:
            value: The secret; one that is too short to mask is ignored.
            is_random: Whether it is random letters and digits, as a ticket's. Then parts of it are masked as well, and
                it is dropped after thousands of newer ones.
        """
        with self._lock:
            fresh = [one for one in _spellings(value) if one not in self._seen]
            for spelling in fresh:
                self._take(spelling, is_random=is_random)
            return bool(fresh)

    def mask(self, text: str, *, is_name: bool = False) -> str:
        """Return a text with all secrets masked.

        Args:
            text: The text.
            is_name: Whether the text is a name or a word from a fixed list, and no sentence. It is then not masked if
                it equals a short secret, which may be by chance.
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
        """Return start and end of all that `mask` would mask, unordered; spans may overlap."""
        found = [(one.end(1), one.end() - 1) for one in _USER_INFO.finditer(text)] if "://" in text else []
        if self._by_gram and len(text) >= _GRAM:
            found += self._long_places(text)
        for word, pattern in self._words:
            if word in text:
                found += [one.span() for one in pattern.finditer(text)]
        return found

    def start_of_last(self, text: str) -> int:
        """Return the index from which the end of a text may be the start of a secret; the text's length if none.

        A text that arrives in pieces may end within a secret, which `mask` would then find in neither piece. Up to
        three characters at the start of a random secret are ignored: eight of the rest suffice to find it.

        Args:
            text: The text so far.
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
        """Remove all secrets."""
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
        alone = (secret,)  # one tuple for nearly all pieces: each device has some fifty
        for gram in secret.grams():
            self._by_gram[gram] = (*others, secret) if (others := self._by_gram.get(gram)) else alone
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
        """Return the sorted spans of long secrets, or of sufficient parts of them."""
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
    """Return a text without gaps; the fast path is for texts whose only gaps are spaces."""
    return _GAP.sub("", text) if _MAY_HAVE_MORE.search(text) else text.replace(" ", "").replace("$", "")


def _spellings(value: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear: plain, escaped, URL-encoded; of several lines also each line."""
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
                # UTF-8 that a session decoded as Latin-1.
                one.encode("utf-8", "replace").decode("iso-8859-1"),
            )
        )


def _as_word(word: str) -> re.Pattern[str]:
    """Return a pattern that matches a short secret as a separate word, not `ios` in `ios-xe` or `a.ios`."""
    return re.compile(rf"(?<!\w)(?<!\w[-._]){re.escape(word)}(?!\w)(?![-._]\w)")


def _common(text: str, at: int, secret: str, place: int) -> tuple[int, int] | None:
    """Return the span around a common piece in which text and secret are equal; None if it is too short."""
    begin = 0
    while begin < min(at, place) and text[at - begin - 1] == secret[place - begin - 1]:
        begin += 1
    end = _GRAM
    while at + end < len(text) and place + end < len(secret) and text[at + end] == secret[place + end]:
        end += 1
    return (at - begin, at + end) if begin + end >= LEAST_FRAGMENT else None


def _meant(text: str, places: list[int], spans: list[_Span]) -> list[tuple[int, int]]:
    """Convert spans of a text without gaps to spans of the text itself, and drop chance matches."""
    found = ((places[begin], places[end - 1] + 1, secret) for begin, end, secret in spans)
    return [(first, last) for first, last, secret in found if _is_meant(text[first:last], secret)]


def _places(text: str, closed: str, gap: re.Pattern[str]) -> list[int]:
    """Return the index in the text of each character of its form without gaps."""
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
    """Return whether a match is the secret, and not words that have its letters by chance."""
    # A match does not include gaps at the ends of a secret.
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
"""Names of variables that hold the location of a secret, and not the secret."""

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
"""Keys whose values are names, or words from a fixed list that programs compare, and never text from a device."""

_FIELD = re.compile(r"[a-z][a-z0-9_]*")

_NUMBERS = frozenset({int, float, bool, type(None)})

_PLAIN_WORDS = re.compile(r"[a-z][a-z _-]*")
"""Plain words under such keys are not masked: `restored` may equal a password, and is a device's outcome."""

_FIGURES = re.compile(r"((int|float|bool|None|NoneType)( \| )?)+")

_KEPT: dict[str, str] = {}
"""Cache of `sanitize`: a view shows the same names repeatedly."""

_KEPT_WORDS: dict[tuple[str, bool], str] = {}
"""Cache of `redact_json`: a document has the same keys and words for every device."""

_MOST_KEPT = 4096

_LONGEST_WORD = 40

_LINE_SIGNS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def keep_secret(*values: str | None, is_random: bool = False) -> None:
    """Register secrets to be masked from now on; None and empty values are ignored.

    Args:
        values: The secrets.
        is_random: Whether they are random letters and digits, as those of a ticket: then parts are masked as well.
    """
    for value in values:
        if value and _SECRETS.add(value, is_random=is_random):
            _KEPT.clear()
            _KEPT_WORDS.clear()


def keep_environment_secrets(environment: Mapping[str, str]) -> None:
    """Register the values of all environment variables that have the name of a secret."""
    for name, value in environment.items():
        if _SECRET_VARIABLE.search(name) and not _NOT_ITSELF.search(name):
            keep_secret(value)


def keep_secrets_in(tree: object) -> None:
    """Register all values, numbers included, under keys with the name of a secret, at any depth."""
    seen: set[int] = set()
    waiting: list[tuple[object, bool]] = [(tree, False)]
    while waiting:
        value, is_secret = waiting.pop()
        if isinstance(value, Mapping | list | tuple | set):
            # By YAML aliases a value may contain itself, or occur in many places.
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
    """Remove all secrets; for tests, which share a process."""
    _SECRETS.clear()
    _KEPT.clear()
    _KEPT_WORDS.clear()


def masked(text: str) -> str:
    """Return a text with secrets masked and otherwise unchanged."""
    return _SECRETS.mask(text)


def secret_places(text: str) -> list[tuple[int, int]]:
    """Return the spans of secrets in a text, for masking piece by piece; unordered, they may overlap."""
    return _SECRETS.spans(text)


def secret_start(text: str) -> int:
    """Return the index from which the end of a text may be the start of a secret; the text's length if none."""
    return _SECRETS.start_of_last(text)


def sanitize(text: str) -> str:
    """Return a text for display in a line or a cell: secrets masked, control characters escaped."""
    if (known := _KEPT.get(text)) is not None:
        return known
    result = visible(_SECRETS.mask(text))
    if len(_KEPT) >= _MOST_KEPT:
        _KEPT.clear()
    _KEPT[text] = result
    return result


def sanitize_lines(text: str) -> str:
    """Sanitize each line of a text; line feeds stay."""
    text = _SECRETS.mask(text)
    return text if text.isprintable() else "\n".join(visible(line) for line in text.split("\n"))


def redact_json(value: Any, name: str = "", *, exact: Collection[str] = ()) -> Any:
    """Return a JSON value with secrets masked in every text, and otherwise unchanged.

    Args:
        value: JSON types.
        name: The key of the value.
        exact: Keys whose values are not masked because we read them again, such as names of devices and files.
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
    """Return whether a key has the form of a field name, which is never masked."""
    return _FIELD.fullmatch(key) is not None


def sanitize_record(value: T) -> T:
    """Return a value made of dataclasses and tuples with every text sanitized."""
    return cast("T", _outward(value))


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON types as a readable document: printable characters of all scripts as they are, others escaped.

    Args:
        value: JSON types.
        indent: As in `json.dumps`.
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
    kind: Any = type(value)
    if (found := as_dict(value)) and not _is_figures(kind):
        made_of = {name: _outward(one) for name, one in found.items() if not isinstance(one, int | float | None)}
        changed = {name: one for name, one in made_of.items() if one is not found[name]}
        return replace(value, **changed) if changed else value
    return value


@cache
def _is_figures(kind: type) -> bool:
    """Return whether a value has number fields only, such as a sample, of which there are thousands."""
    types = (one for base in kind.__mro__ for one in vars(base).get("__annotations__", {}).values())
    return all(_FIGURES.fullmatch(str(getattr(one, "__name__", one))) for one in types)


def visible(text: str) -> str:
    """Return a text with unprintable characters escaped as in Python, as one line. Secrets are not masked."""
    if text.isprintable():
        return text
    return "".join(map(_sign, text))


def _sign(character: str) -> str:
    # Spaces of other widths are harmless.
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    if character in _LINE_SIGNS:
        return _LINE_SIGNS[character]
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _escaped_for_json(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]

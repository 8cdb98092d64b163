"""The secrets that this process knows, and texts without them: masked by value, wherever a text came from.

Facts
-----
* A secret may come back in any text: a device quotes the login that it refused, a parser the line that it stumbled
  over, a library the header that it could not send. Who writes a sentence cannot know; the value can be looked for.
* It comes back whole, cut off (a line that a terminal scrolled, an excerpt of ours), in pieces (a terminal breaks a
  long line anywhere, with line breaks, backspaces and a `$`), percent-encoded, or as Python and JSON write it.
* A word of three letters is a password somewhere, and part of half of all other words: short secrets count as whole
  words only, so do numbers; below three characters nothing can be hidden by hiding it.

How it is found
---------------
A text is searched with its gaps closed, at every third place, by four characters in one dictionary that has those of
all places of all secrets: a thousand tickets cost no more than one, and eight characters of one in a row are found.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from flashferry.core.safe_quote import SHORTEST_SECRET

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

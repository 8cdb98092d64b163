"""Masking of secrets in a session's output: known ones, and values of configuration lines that hold secrets. Pure.

Facts
-----
* A running configuration has passwords, keys and community names, in clear, as type 7 (which is reversible) or as a
  hash that can be attacked by guessing. Secrets known to this process are masked by value
  (`flashferry.core.redaction`); all others are recognised by the keyword before them.
* The scrubbing lists of RANCID, oxidized (ios.rb) and netconan agree on these keywords, as does what `show
  tech-support` replaces by `<removed>`.
* A value may have spaces, and what may follow it differs by command. So everything after the keyword is masked, up to
  the end of the line, including an access list's number.
* The same lines occur in differences (after `+`), after a prompt as an echo, and quoted in a syslog line. So keywords
  count anywhere in a line, which also masks the end of a sentence such as `Password required, but none set`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

from flashferry.core.redaction import MASK, secret_places, secret_start, visible

_HINTS = ("passw", "passp", "passc", "secret", "key", "psk", "token", "snmp", "auth", "priv", "$", "environment")
"""Texts of which every such line has one, in lower case: a fast test that excludes most lines."""

_TYPE = r"(?:[ \t]+level[ \t]+\d+)?(?:[ \t]+\d{1,2}(?=[ \t]+\S))?"
"""`level 7`, and the type of what follows: 0, 5, 6, 7, 8, 9."""

_VALUE = re.compile(
    r"(?:"
    r"(?<![\w/])(?:\w+-)*(?:passw(?:or)?d|passphrase|passcode|secret|psk|key-string|pre-shared-key|(?:id)?token)"
    + _TYPE
    +
    # `key chain NAME` and `crypto key ...` name keys, and `any key` is one of the keyboard.
    r"|(?<![\w/-])(?<!any )(?<!crypto )(?:\w+-)*key(?![ \t]+chain[ \t]+\S)"
    r"(?:[ \t]+(?:hexadecimal|hex|ascii|ascii-text|encrypted|\d{1,2})(?=[ \t]+\S))*"
    r"|(?<![\w-])snmp-server[ \t]+(?:community|host[ \t]+\S+)"
    r"|(?<![\w-])community-map"
    r"|(?<![\w-])auth(?:entication)?[ \t]+(?:md5|sha[\w-]*)"
    r"|(?<![\w-])priv(?:acy)?[ \t]+(?:3?des|aes)(?:[ \t]+\d+)?"
    r"|(?<![\w-])(?:standby|vrrp|glbp)[ \t][^\n]*?\bauthentication(?:[ \t]+(?:text|md5)(?=[ \t]+\S))?"
    r"|(?<![\w-])environment[ \t]+\S*(?:pass|secret|token|key|pwd)\S*"
    r")[ \t]+(?P<value>\S(?:[^\n]*\S)?)",
    re.IGNORECASE,
)

_HASH = re.compile(r"\$(?:1|5|6|8|9|14)\$[\w./$+=-]{6,}")
"""A password's hash, wherever it stands."""


def line_secrets(text: str) -> list[tuple[int, int]]:
    """Return start and end of each value that a configuration line is known to keep secret."""
    found: list[tuple[int, int]] = []
    at = 0
    # Not `splitlines`: a letter of two bytes may have one that it takes for a line's end.
    for line in text.split("\n"):
        lowered = line.lower()
        if any(hint in lowered for hint in _HINTS):
            if (value := _VALUE.search(line)) is not None:
                found.append((at + value.start("value"), at + value.end("value")))
            found += [(at + one.start(), at + one.end()) for one in _HASH.finditer(line)]
        at += len(line) + 1
    return found


OPEN_LINE_S = 1.0
"""Time for which a line without line end is held."""

MOST_OPEN_CHARS = 4096
"""Most characters of such a line that are held: the marks of a copy are one line of thousands."""

MOST_HELD_CHARS = 1024
"""Most characters held as the possible start of a secret; a longer text is none."""

MOST_CONTEXT_CHARS = 1024
"""Characters of the released part of a line that are checked again together with its next part."""

LEAST_OF_A_SECRET = 4
"""Least length of a secret's start that is masked if the rest never comes."""

_ASKS_SECRET = re.compile(
    r"(?:pass(?:word|wd|phrase|code)|secret|\bpin|token|community)[^\n]{0,40}[:?] ?[ \b]*\Z", re.IGNORECASE
)


class Mark(StrEnum):
    """Kind of an entry: sent, received, or our own remark."""

    SENT = ">"
    CAME = "<"
    NOTE = "-"


@lru_cache(maxsize=16)
def stamp(at_s: float) -> str:
    """Return a time as an entry has it: UTC, ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry(at_s: float, mark: Mark, text: str) -> str:
    """Return an entry of a transcript: time, mark, and a masked text without active control characters."""
    # Nearly every line is of signs but for its end; to look at each of them for that costs more than all the rest.
    body = text.rstrip("\r\n")
    return f"{stamp(at_s)} {mark} {visible(body)}{visible(text[len(body) :])}"


def without_secrets(text: str) -> str:
    """Return a whole text with all secrets masked: known ones, and those of configuration lines."""
    return "".join(_masked(text, sorted(secret_places(text) + line_secrets(text)), 0, len(text)))


class _Direction:
    """One direction of a session: its unfinished line, of which a part may be released already."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._released = ""
        self._open = ""
        self._since_s = 0.0

    @property
    def last_line(self) -> str:
        """Return the unfinished line, unmasked."""
        return self._released + self._open

    def take(self, at_s: float, text: str) -> list[str]:
        """Add a piece; return the entries of the lines that are complete now."""
        if not self._open:
            self._since_s = at_s
        self._open += text
        if "\n" in text:
            return self._let_go(at_s, self._whole_lines())
        if len(self._open) > MOST_OPEN_CHARS or at_s - self._since_s > OPEN_LINE_S:
            return self.let_go(at_s)
        return []

    def let_go(self, at_s: float) -> list[str]:
        """Return the entries of the unfinished line, except what may be the start of a secret."""
        if not self._open:
            return []
        whole = self._released + self._open
        start = _secret_start(whole)
        if _is_line_end_only(whole[start:]):
            start = len(whole)
        return self._let_go(at_s, max(start, len(self._released)))

    def overdue(self, now_s: float) -> list[str]:
        """Return the entries of an unfinished line that was held for too long."""
        return self.let_go(now_s) if self._open and now_s - self._since_s > OPEN_LINE_S else []

    def end(self, at_s: float) -> list[str]:
        """Return the entries of the rest at the end of the session; a secret's start is masked, too."""
        entries = self.let_go(at_s)
        rest, self._released, self._open = self._open, "", ""
        if rest:
            entries.append(entry(self._since_s, self._mark, MASK if len(rest.strip()) >= LEAST_OF_A_SECRET else rest))
        return entries

    def _whole_lines(self) -> int:
        """Return the index after the last line end that cannot be within a secret."""
        whole = self._released + self._open
        end, start = whole.rfind("\n") + 1, _secret_start(whole)
        if self._mark is Mark.SENT and _is_line_end_only(whole[start:]):
            return end
        return whole.rfind("\n", 0, start) + 1 if start < end else end

    def _let_go(self, at_s: float, end: int) -> list[str]:
        """Return the entries up to an index of the unfinished line; the rest is held."""
        done = len(self._released)
        if end <= done:
            return []
        whole = self._released + self._open
        spans = sorted(secret_places(whole) + line_secrets(whole))
        # A secret that was found goes as a whole; after it another one may begin.
        while (further := max((last for first, last in spans if first < end < last), default=end)) > end:
            end = further
        entries = [
            entry(self._since_s if number == 0 else at_s, self._mark, line)
            for number, line in enumerate(_lines("".join(_masked(whole, spans, done, end))))
        ]
        self._open, self._since_s = whole[end:], at_s
        begin = whole.rfind("\n", 0, end) + 1
        self._released = whole[max(begin, end - MOST_CONTEXT_CHARS) : end]
        return entries


class MaskedStream:
    """Masks a session's input and output; every method returns the entries that can be shown now. Not thread-safe."""

    def __init__(self) -> None:
        self._directions = {mark: _Direction(mark) for mark in (Mark.CAME, Mark.SENT)}
        self._last: Mark | None = None
        self._is_secret = False

    def take(self, at_s: float, mark: Mark, text: str) -> list[str]:
        """Add a piece of text.

        Args:
            at_s: Its time, seconds since 1970, not before that of the previous piece.
            mark: Its direction.
            text: The unmasked text, of any length.
        """
        if not text:
            return []
        if mark is Mark.NOTE:
            return [*self._let_go(at_s), entry(at_s, mark, without_secrets(text))]
        entries: list[str] = []
        if mark is not self._last:
            entries = self._directions[self._other(mark)].let_go(at_s)
            self._is_secret = mark is Mark.SENT and bool(_ASKS_SECRET.search(self._directions[Mark.CAME].last_line))
        self._last = mark
        if self._is_secret and mark is Mark.SENT:
            line, end, rest = text.partition("\n")
            entries.append(entry(at_s, mark, (MASK if line else "") + end))
            self._is_secret = not end
            return entries + self.take(at_s, mark, rest)
        return entries + self._directions[mark].take(at_s, text)

    def overdue(self, now_s: float) -> list[str]:
        """Return the entries of unfinished lines that were held for too long."""
        return [one for direction in self._directions.values() for one in direction.overdue(now_s)]

    def end(self, at_s: float) -> list[str]:
        """Return the entries of the rest at the end of the session."""
        return [one for direction in self._directions.values() for one in direction.end(at_s)]

    def _let_go(self, at_s: float) -> list[str]:
        return [one for direction in self._directions.values() for one in direction.let_go(at_s)]

    @staticmethod
    def _other(mark: Mark) -> Mark:
        return Mark.SENT if mark is Mark.CAME else Mark.CAME


def _secret_start(whole: str) -> int:
    """Return the index from which a text may be the start of a secret; its length if none."""
    start = secret_start(whole)
    return start if len(whole) - start <= MOST_HELD_CHARS else len(whole)


def _is_line_end_only(start: str) -> bool:
    """Return whether a possible secret would contain a line end after its first few characters.

    About every tenth line ends with a character that some password starts with. Such a line is held for the next piece,
    but a command, or the text before an answer, is not split for it.
    """
    return "\n" in start and len("".join(start.split())) < LEAST_OF_A_SECRET


def _masked(whole: str, spans: list[tuple[int, int]], begin: int, end: int) -> Iterator[str]:
    """Yield the part of a text between two indexes, with the given spans masked; spans are sorted."""
    at = begin
    for first, last in spans:
        if last <= at or first >= end:
            continue
        if first > at:
            yield whole[at:first]
        # What began in front of this part, or within what was found just before, is masked there.
        if first >= at:
            yield MASK
        at = last
    yield whole[at:end]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return ended + ([lines[-1]] if lines[-1] else [])

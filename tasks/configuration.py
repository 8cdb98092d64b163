"""Compare a device's whole configuration before and after, without keeping its text. Pure.

A configuration holds secrets (user hashes, SNMP communities, keys), so what is kept is digests. That is enough to prove
equality and to name every line that is new; of a line that is gone only the position is known.

Facts
-----
* Two readings of an unchanged device differ in what the device writes by itself: the head in front of `version`,
  comments (stamps are comments, in words that differ by release), `ntp clock-period` on old IOS.
* A release may print its sections, and the lines of an interface, in another order than before. Where the order of
  lines has a meaning (numbered access lists, `boot system`, name servers, ...) another order is another configuration.
* A syslog line may be written into the output; it is none of the configuration.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.tcp_config import may_be_shown
from templates.config_sections import Configuration, Section, sections_of

_MOVES = re.compile(
    r"^(Building configuration\.\.\.|(Current|Uncompressed) configuration\b.*|Using \d+ out of \d+ bytes.*"
    r"|ntp clock-period \d+|Load for five secs: .*|Time source is .*)$"
)
"""Lines that change by themselves. All but `ntp clock-period` head the output; the last two are `terminal exec prompt
timestamp`."""

_SYSLOG = re.compile(r"%[A-Z][A-Z0-9_]*-(?:[A-Z0-9_]+-)?[0-7]-[A-Z0-9_]+:")
_SYSLOG_LINE = re.compile(r"(?:\d+: )?[*.]?[A-Z][a-z]{2} +\d+ [\d:. ]+.*?" + _SYSLOG.pattern + r"|" + _SYSLOG.pattern)

_IN_ORDER = re.compile(
    r"(?:no )?(access-list \S+|ipv?6? ?prefix-list \S+|boot system|ip name-server|(?:tacacs|radius)-server host)\b"
)
"""Global lines whose order among each other means something."""

_FREE_BODY = re.compile(r"(?:interface|line) ")
"""Sections whose lines may come in any order."""

_HEAD_SECTIONS = 20
_KEYWORD = re.compile(r"[a-z][a-z-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A configuration without what moves by itself, as digests.

    Attributes:
        whole: SHA-256 over all of it, hexadecimal: equal means equal.
        lines: First 16 hexadecimal digits of the SHA-256 of salt and line, one per line, in order.
    """

    whole: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a configuration differs from a fingerprint; false where they are equal.

    Attributes:
        added: Lines that were not there before; of all but those that staging may set only the first one or two
            keywords.
        gone: How many lines of before are missing.
        reordered: Whether the same lines stand in another order that means something, or in other sections.
    """

    added: tuple[str, ...]
    gone: int
    reordered: bool

    def __bool__(self) -> bool:
        """Return whether there is a difference."""
        return bool(self.added or self.gone or self.reordered)

    def __str__(self) -> str:
        """Return the difference in one sentence."""
        if not self:
            return "equal"
        if self.reordered:
            return "the same lines in another order"
        shown = ", ".join(f"'{line.strip()}'" for line in self.added[:5])
        more = f" and {len(self.added) - 5} more" if len(self.added) > 5 else ""
        added = f"new: {shown}{more}" if self.added else "none new"
        return f"{added}; gone: {self.gone or 'none'}"


def fingerprint(configuration: Configuration, *, salt: str) -> Fingerprint:
    """Return the digests of a configuration; the salt makes equal lines of two devices differ.

    Raises:
        ConfigNotUnderstood: A text in it does not end.
    """
    return _fingerprint(_kept(configuration), salt)


def difference(before: Fingerprint, configuration: Configuration, *, salt: str) -> Difference:
    """Return how a configuration differs from what a fingerprint was taken of.

    Raises:
        ConfigNotUnderstood: A text in it does not end.
    """
    kept = _kept(configuration)
    if _fingerprint(kept, salt).whole == before.whole:
        return Difference(added=(), gone=0, reordered=False)
    new, missing = _unknown(before, _lines(kept), salt)
    return Difference(added=tuple(map(_shown, new)), gone=missing, reordered=not new and not missing)


def new_lines(before: Fingerprint, configuration: Configuration, *, salt: str) -> tuple[str, ...]:
    """Return the global lines that were not there when a fingerprint was taken, in full: they may hold secrets.

    Raises:
        ConfigNotUnderstood: A text in the configuration does not end.
    """
    return tuple(_unknown(before, (one.line for one in _kept(configuration)), salt)[0])


def holds_syslog(configuration: Configuration) -> bool:
    """Return whether a log line may have been written into a configuration: reading it again shows that."""
    found = sections_of(configuration)
    return any(_SYSLOG.search(one.line) for one in found if not one.line.startswith(("event ", "logging ")))


def _fingerprint(kept: Sequence[Section], salt: str) -> Fingerprint:
    order = _hashed([salt, *_in_order(kept)])
    return Fingerprint(
        whole=_hashed([salt, order, *sorted(map(_block, kept))]),
        lines=tuple(_digest(line, salt) for line in _lines(kept)),
    )


def _unknown(before: Fingerprint, lines: Iterable[str], salt: str) -> tuple[list[str], int]:
    """Return the lines that a fingerprint does not have, and how many of its own are not among them."""
    missing, new = Counter(before.lines), []
    for line in lines:
        if missing[digest := _digest(line, salt)]:
            missing[digest] -= 1
        else:
            new.append(line)
    return new, missing.total()


def _kept(configuration: Configuration) -> list[Section]:
    """Return the sections that count: not the head before `version`, no comment, nothing that moves by itself."""
    found = sections_of(configuration)
    heads = (number for number, one in enumerate(found[:_HEAD_SECTIONS]) if one.line.startswith("version "))
    return [one for one in found[next(heads, 0) :] if not one.is_comment and not _moves(one)]


def _moves(section: Section) -> bool:
    return not section.body and bool(_MOVES.match(section.line) or _SYSLOG_LINE.match(section.line))


def _lines(kept: Iterable[Section]) -> list[str]:
    return [line for one in kept for line in (one.line, *one.body)]


def _block(section: Section) -> str:
    """Return a section as one text, equal for every order that means the same."""
    body = _ordered(section.body) if _FREE_BODY.match(section.line) else section.body
    return "\n".join((section.line, *body))


def _ordered(body: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of a section sorted, lines of sub-modes after their own head."""
    groups: list[list[str]] = []
    for line in body:
        if groups and line.startswith("  "):
            groups[-1].append(line)
        else:
            groups.append([line])
    return tuple(line for group in sorted(groups) for line in group)


def _in_order(kept: Iterable[Section]) -> list[str]:
    """Return the sections whose order means something, by kind and in their order."""
    found = [(match[1], _block(one)) for one in kept if (match := _IN_ORDER.match(one.line))]
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def _hashed(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest(line: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}\n{line}".encode()).hexdigest()[:16]


def _shown(line: str) -> str:
    """Return what may be shown of a line that is not ours.

    A configuration has secrets in too many places to name them (`password X`, `key X`, `path ftp://u:p@h`, a community
    after `version 2c`). So only the first word is shown, and the second where it is a keyword with two more words after
    it.
    """
    words = line.split()
    if may_be_shown(line):
        return line
    shown = words[:2] if len(words) >= 4 and _KEYWORD.fullmatch(words[1]) else words[:1]
    return " ".join(shown) + (" ..." if len(words) > len(shown) else "")

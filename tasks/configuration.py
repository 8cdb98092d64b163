"""Compare a device's whole configuration before and after, without keeping its text. Pure.

A configuration holds secrets (user hashes, SNMP communities, keys), so what is kept is one digest per line. That is
enough to prove equality and to name every line that is new; of a line that is gone only the position is known.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass

_STAMPS = re.compile(
    r"^(Building configuration\.\.\."
    r"|Current configuration : \d+ bytes"
    r"|Using \d+ out of \d+ bytes.*"
    r"|! Last configuration change at .*"
    r"|! NVRAM config last updated at .*"
    r"|! No configuration change since last restart"
    r"|ntp clock-period \d+"
    r"|Load for five secs: .*"
    r"|Time source is .*)$"
)
"""Lines that change by themselves. The first two and the stamps head the output; `ntp clock-period` drifts on old
IOS; the last two are `terminal exec prompt timestamp`."""

_KEYWORD = re.compile(r"[a-z][a-z-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A configuration without its stamps, as digests.

    Attributes:
        whole: SHA-256 over all lines, hexadecimal: equal means equal.
        lines: First 16 hexadecimal digits of the SHA-256 of salt and line, one per line, in order.
    """

    whole: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a configuration differs from a fingerprint; false where they are equal.

    Attributes:
        added: Lines that were not there before; of all but `ip tcp` lines only the first one or two keywords.
        gone: How many lines of before are missing.
        reordered: Whether the same lines stand in another order.
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


def fingerprint(configuration: str, *, salt: str) -> Fingerprint:
    """Return the digests of a configuration.

    Args:
        configuration: Output of `show running-config` or `show startup-config`.
        salt: Random text kept with the fingerprint, so that equal lines of two devices don't look alike.
    """
    lines = _lines(configuration)
    whole = hashlib.sha256("\n".join([salt, *lines]).encode()).hexdigest()
    return Fingerprint(whole=whole, lines=tuple(_digest(line, salt) for line in lines))


def difference(before: Fingerprint, configuration: str, *, salt: str) -> Difference:
    """Return how a configuration differs from what a fingerprint was taken of."""
    now = fingerprint(configuration, salt=salt)
    if now.whole == before.whole:
        return Difference(added=(), gone=0, reordered=False)
    missing = Counter(before.lines)
    added = []
    for line, digest in zip(_lines(configuration), now.lines, strict=True):
        if missing[digest]:
            missing[digest] -= 1
        else:
            added.append(_shown(line))
    gone = missing.total()
    return Difference(added=tuple(added), gone=gone, reordered=not added and not gone)


def _lines(configuration: str) -> list[str]:
    """Return the lines that count; `end` and everything in front of the stamps' output stay."""
    stripped = (line.rstrip() for line in configuration.replace("\r", "\n").split("\n"))
    return [line for line in stripped if line and not _STAMPS.match(line)]


def _digest(line: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}\n{line}".encode()).hexdigest()[:16]


def _shown(line: str) -> str:
    """Return what may be shown of a line that is not ours.

    A configuration hides secrets in too many places to name them (`password X`, `key X`, `path ftp://u:p@h`, a
    community behind `version 2c`), so of every line but `ip tcp` ones only leading keywords are shown: the first
    word, and the second where it is a keyword of a line with at least two more words.
    """
    words = line.split()
    if words[:2] == ["ip", "tcp"] or words[:3] == ["no", "ip", "tcp"]:
        return line
    shown = words[:2] if len(words) >= 4 and _KEYWORD.fullmatch(words[1]) else words[:1]
    return " ".join(shown) + (" ..." if len(words) > len(shown) else "")

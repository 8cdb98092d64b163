"""Which part of an image a request asks for (RFC 9110 14). Pure.

A part is what a broken copy is gone on with. Several at once are none: they take a form of answer that no client of
ours needs, so the whole is sent, which is allowed.
"""

import re
from dataclasses import dataclass

_ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 18
"""Of a position; one with more lies after the end of every image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes of an image, from `first_byte` up to `end_byte`, which is not of it."""

    first_byte: int
    end_byte: int

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        return self.end_byte - self.first_byte


class NoSuchPart(Exception):
    """The image has no byte of the part that is asked for."""


def part_of(byte_range: str, if_range: str, *, size_bytes: int, tag: str) -> Part | None:
    """Return the part that a request asks for; None for the whole.

    Args:
        byte_range: Its `Range`; empty without one. One that is not understood counts as none.
        if_range: Its `If-Range`; the range counts only where that is the image's own tag.
        size_bytes: Size of the image, > 0.
        tag: The image's.

    Raises:
        NoSuchPart: It lies behind the end.
    """
    found = _ONE_RANGE.fullmatch(byte_range.strip())
    if found is None or (if_range and if_range.strip() != tag):
        return None
    first, last = found.groups()
    if not first:
        return _last_bytes(last, size_bytes)
    begin, end = _position(first), _position(last) + 1 if last else size_bytes
    if last and end <= begin:
        return None
    if begin >= size_bytes:
        raise NoSuchPart
    return Part(first_byte=begin, end_byte=min(end, size_bytes))


def _position(digits: str) -> int:
    """Return a position, bounded: a client may send thousands of digits (RFC 9110 14.1.2 sets no limit)."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _last_bytes(count: str, size_bytes: int) -> Part | None:
    if not count:
        return None
    if not _position(count):
        raise NoSuchPart
    return Part(first_byte=max(0, size_bytes - _position(count)), end_byte=size_bytes)

"""Which words of a part are here, by their offsets: repeats, gaps, and words before their turn. Pure.

An agent numbers its words of a part from 1. The engine that carries them delivers at least once and in no certain
order, and a word may be lost where a centre died with it in hand.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Words of a part that are here.

    Attributes:
        whole: All words up to this offset are; 0: none.
        early: Offsets beyond it that are here before others.
    """

    whole: int = 0
    early: frozenset[int] = frozenset()

    @property
    def has_gap(self) -> bool:
        """Return whether a word is missing that was sent before one that is here."""
        return bool(self.early)

    def has(self, offset: int) -> bool:
        """Return whether the word of an offset is here."""
        return offset <= self.whole or offset in self.early


def hear(heard: Heard, offset: int) -> tuple[Heard, bool]:
    """Return what is here once a word has come, and whether it is news; a repeat changes nothing.

    Args:
        heard: What is here.
        offset: The word's offset; below 1 it is no word of a run, and no news.
    """
    if offset < 1 or heard.has(offset):
        return heard, False
    return joined(heard.whole, {*heard.early, offset}), True


def joined(whole: int, early: Collection[int]) -> Heard:
    """Return what is here, with those that follow the whole ones without a gap counted among them."""
    left = set(early)
    while whole + 1 in left:
        whole += 1
        left.discard(whole)
    return Heard(whole=whole, early=frozenset(offset for offset in left if offset > whole))

"""Releases of IOS and IOS-XE, and which of two is the older.

Facts
-----
Classic IOS is `15.8(3)M2`: major, minor, maintenance (with a letter at times, `(3a)`), the train's letters and its
rebuild (`M2`, `S4b`). IOS-XE is `17.9.4` or `17.09.04a`, with zeros or without and a letter for a rebuild; before 16 it
was `03.16.04b.S`. An interim build carries a date, `15.9(20190621:233949)`, or a word,
`15.2(CML_NIGHTLY_20190423)FLO_DSGS7`.

Numbers decide first. Where they are equal, a rebuild comes behind what it was built from. Two trains of equal numbers,
such as `15.2(4)M` and `15.2(4)S`, were developed beside each other: neither is older.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RELEASE = re.compile(
    r"(\d+)(?:\.(\d+)(?:[.(](\d+)([a-z]*)(?::\d+)?\)?)?(?:\.?([A-Z]+)(\d*)([a-z]*))?)?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release, taken apart.

    Attributes:
        numbers: Major, minor and maintenance; what is not written is 0.
        letter: Letter behind the maintenance number, or nothing.
        train: Letters of the train, or nothing.
        rebuild: Number and letter of the train's rebuild.
    """

    numbers: tuple[int, int, int]
    letter: str
    train: str
    rebuild: tuple[int, str]


def read_release(text: str) -> Release | None:
    """Return a release, or None where its numbers cannot be told."""
    if (found := _RELEASE.fullmatch(text.strip())) is None:
        return None
    major, minor, maintenance, letter, train, number, last = found.groups()
    return Release(
        numbers=(int(major), int(minor or 0), int(maintenance or 0)),
        letter=letter or "",
        train=train or "",
        rebuild=(int(number or 0), last or ""),
    )


def compare(left: Release, right: Release) -> int | None:
    """Return -1, 0 or 1 where `left` is older than, equal to, or newer than `right`; None where neither is."""
    if left.numbers != right.numbers:
        return -1 if left.numbers < right.numbers else 1
    # A bound such as 15.8 names no train: it stands before all of them.
    if left.train and right.train and left.train != right.train:
        return None
    ours, theirs = ((one.letter, one.train, one.rebuild) for one in (left, right))
    return (ours > theirs) - (ours < theirs)

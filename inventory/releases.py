"""Releases of IOS and IOS-XE: which of two is the older, and conditions on one.

A condition is comparisons such as `>= 17.3, < 17.9.4`, or a shell pattern such as `15.8(3)M*`.

Facts
-----

- Classic IOS is `15.8(3)M2`: major, minor, maintenance (with a letter at times, `(3a)`), the train's letters and its
  rebuild (`M2`, `S4b`). IOS-XE is `17.9.4` or `17.09.04a`, with zeros or without and a letter for a rebuild; before 16
  it was `03.16.04b.S`. An interim build carries a date, `15.9(20190621:233949)`, or a word,
  `15.2(CML_NIGHTLY_20190423)FLO_DSGS7`.
- Numbers decide first. Where they are equal, a rebuild comes behind what it was built from. Two trains of equal
  numbers, such as `15.2(4)M` and `15.2(4)S`, were developed beside each other: neither is older.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import described

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
    """Return a release, or None where it has no readable numbers."""
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


_CLAUSE = re.compile(r"(<=|>=|==|!=|<|>)\s*(\S+)")
_HOLDS = {"<": {-1}, "<=": {-1, 0}, "==": {0}, "!=": {-1, 1}, ">=": {0, 1}, ">": {1}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison, such as `< 17.9.4`."""

    sign: str
    bound: Release
    text: str

    def covers(self, other: Comparison) -> bool:
        """Return whether all that passes the other passes here too; False where that is not certain."""
        order = compare(other.bound, self.bound)
        if order is None:
            return False
        if other.sign == "==":
            return order in _HOLDS[self.sign]
        below = self.sign in ("<", "<=") and other.sign in ("<", "<=")
        above = self.sign in (">", ">=") and other.sign in (">", ">=")
        if order == 0:
            return self.sign == other.sign or ((below or above) and "=" in self.sign)
        return (below and order < 0) or (above and order > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCondition:
    """What is asked of a device's release.

    Attributes:
        text: As written.
        comparisons: All of them must hold; none where `text` is a pattern.
    """

    text: str
    comparisons: tuple[Comparison, ...]

    def holds(self, version: str) -> bool:
        """Return whether a release fits.

        Raises:
            ConfigInvalid: It cannot be compared: an interim build, or another train with the same numbers. To guess
                could stage the wrong image.
        """
        if not self.comparisons:
            return fnmatchcase(version.upper(), self.text.upper())
        release = read_release(version)
        return all(self._passes(one, release, version) for one in self.comparisons)

    def covers(self, other: VersionCondition) -> bool:
        """Return whether it surely holds wherever the other holds; False where that is not certain."""
        if not self.comparisons or not other.comparisons:
            return self.text.upper() == other.text.upper()
        return all(any(one.covers(theirs) for theirs in other.comparisons) for one in self.comparisons)

    def _passes(self, one: Comparison, release: Release | None, version: str) -> bool:
        order = None if release is None else compare(release, one.bound)
        if order is None:
            raise ConfigInvalid(
                f"expected a release that compares with {one.text}, found {version or 'none'!r}",
                hint="Put a rule with a pattern before it, or give the device a data key 'image'",
            )
        return order in _HOLDS[one.sign]

    def __str__(self) -> str:
        """Return it as written."""
        return self.text


def read_condition(text: str) -> VersionCondition:
    """Return a condition of its text.

    Raises:
        ConfigInvalid: It begins like a comparison and is none, or compares with something that is no release.
    """
    if not text.strip():
        raise ConfigInvalid(
            "version: expected a comparison such as '< 17.9.4' or a pattern such as '17.9.*', found ''",
            hint="Leave the key out for devices of all releases",
        )
    if not set("<>=!") & set(text):
        return VersionCondition(text=text.strip(), comparisons=())
    return VersionCondition(text=text.strip(), comparisons=tuple(_comparison(part) for part in text.split(",")))


def _comparison(text: str) -> Comparison:
    found = _CLAUSE.fullmatch(text.strip())
    bound = read_release(found[2]) if found else None
    if found is None or bound is None:
        raise ConfigInvalid(
            f"version: expected comparisons such as '>= 17.3, < 17.9.4', found {described(text.strip())}",
            hint="A pattern such as '17.9.*' stands alone, without a sign",
        )
    return Comparison(sign=found[1], bound=bound, text=f"{found[1]} {found[2]}")

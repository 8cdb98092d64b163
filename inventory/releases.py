"""Releases of IOS and IOS-XE: parsing, comparison, and conditions.

A condition is a list of comparisons such as `>= 17.3, < 17.9.4`, or a shell pattern such as `15.8(3)M*`.

Facts
-----

- Classic IOS is `15.8(3)M2`: major, minor, maintenance (sometimes with a letter, `(3a)`), train and rebuild (`M2`,
  `S4b`). IOS-XE is `17.9.4` or `17.09.04a`, with or without leading zeros, with a letter for a rebuild; before 16 it
  was `03.16.04b.S`. An interim build has a date, `15.9(20190621:233949)`, or a word,
  `15.2(CML_NIGHTLY_20190423)FLO_DSGS7`.
- Numbers are compared first. If they are equal, a rebuild is newer than the release it was built from. Two trains with
  equal numbers, such as `15.2(4)M` and `15.2(4)S`, were developed in parallel: neither is older.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described

_RELEASE = re.compile(
    r"(\d+)(?:\.(\d+)(?:[.(](\d+)([a-z]*)(?::\d+)?\)?)?(?:\.?([A-Z]+)(\d*)([a-z]*))?)?",
)


class Release(Struct, frozen=True, kw_only=True):
    """A parsed release.

    Attributes:
        numbers: Major, minor and maintenance number; 0 if not given.
        letter: Letter after the maintenance number, or empty.
        train: Letters of the train, or empty.
        rebuild: Number and letter of the train's rebuild.
    """

    numbers: tuple[int, int, int]
    letter: str
    train: str
    rebuild: tuple[int, str]


def read_release(text: str) -> Release | None:
    """Parse a release; return None if it has no readable numbers."""
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
    """Return -1, 0 or 1 if `left` is older than, equal to, or newer than `right`; None if they are not comparable."""
    if left.numbers != right.numbers:
        return -1 if left.numbers < right.numbers else 1
    # A bound such as 15.8 has no train: it is older than all trains of that number.
    if left.train and right.train and left.train != right.train:
        return None
    ours, theirs = ((one.letter, one.train, one.rebuild) for one in (left, right))
    return (ours > theirs) - (ours < theirs)


_CLAUSE = re.compile(r"(<=|>=|==|!=|<|>)\s*(\S+)")
_HOLDS = {"<": {-1}, "<=": {-1, 0}, "==": {0}, "!=": {-1, 1}, ">=": {0, 1}, ">": {1}}


class Comparison(Struct, frozen=True, kw_only=True):
    """One comparison, such as `< 17.9.4`."""

    sign: str
    bound: Release
    text: str

    def covers(self, other: Comparison) -> bool:
        """Return whether every release that passes the other passes this one; False if uncertain."""
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


class VersionCondition(Struct, frozen=True, kw_only=True):
    """Condition on a device's release.

    Attributes:
        text: The condition as written.
        comparisons: Comparisons that must all hold; empty if `text` is a pattern.
    """

    text: str
    comparisons: tuple[Comparison, ...]

    def holds(self, version: str) -> bool:
        """Return whether a release meets the condition.

        Raises:
            ConfigInvalid: It is not comparable: an interim build, or another train with the same numbers. A guess could
                stage the wrong image.
        """
        if not self.comparisons:
            return fnmatchcase(version.upper(), self.text.upper())
        release = read_release(version)
        return all(self._passes(one, release, version) for one in self.comparisons)

    def covers(self, other: VersionCondition) -> bool:
        """Return whether the condition certainly holds for every release that meets the other; False if uncertain."""
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
        """Return the condition as written."""
        return self.text


def read_condition(text: str) -> VersionCondition:
    """Parse a condition.

    Raises:
        ConfigInvalid: It starts like a comparison but is none, or its bound is no release.
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

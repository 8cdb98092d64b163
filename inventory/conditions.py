"""Conditions on a release: comparisons such as `>= 17.3, < 17.9.4`, or a shell pattern such as `15.8(3)M*`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from flashferry.core.described import described
from flashferry.core.errors import ConfigInvalid
from inventory.versions import Release, compare, read_release

_CLAUSE = re.compile(r"(<=|>=|==|!=|<|>)\s*(\S+)")
_HOLDS = {"<": {-1}, "<=": {-1, 0}, "==": {0}, "!=": {-1, 1}, ">=": {0, 1}, ">": {1}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison, such as `< 17.9.4`."""

    sign: str
    bound: Release
    text: str

    def covers(self, other: Comparison) -> bool:
        """Return whether whatever the other lets through passes here too; False where that cannot be told."""
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
        """Return whether it surely holds wherever the other holds; False where that cannot be told."""
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
        raise ConfigInvalid("version: expected a comparison such as '< 17.9.4' or a pattern such as '17.9.*', found ''")
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

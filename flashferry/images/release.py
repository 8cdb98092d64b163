"""The release of an IOS-XE image by its name, and whether two spellings are one release. Pure.

Facts
-----
* Names of files have `17.12.04a`, `show version` has `17.12.4a` or `17.06.03a`, `show install summary` has
  `17.12.04a.01.79`, with the build after it: an image's name does not have its build, so builds are not compared.
* A digit before the first dot may be the end of a word: `universalk9.17.12.04a` is no release 9.17.12.
* Names of classic IOS (`c2900-universalk9-mz.SPA.157-3.M.bin`) and of builds of developers (`BLD_V168_...`) have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RELEASE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{1,2})([a-z]{0,2})(?![A-Za-z0-9])")
_IN_NAME = re.compile(r"(?<![A-Za-z0-9])(\d{1,2})\.(\d{2})\.(\d{2})([a-z]{0,2})(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True, order=True)
class ImageRelease:
    """A release of IOS-XE, for example 17.12.4a; `letters` is empty as a rule."""

    major: int
    minor: int
    rebuild: int
    letters: str = ""

    def __str__(self) -> str:
        """Return it as `show version` of a recent release has it."""
        return f"{self.major}.{self.minor}.{self.rebuild}{self.letters}"


def release_in(text: str) -> ImageRelease | None:
    """Return the release that a version names, as `show version` or `show install summary` print it, or None."""
    return _found(_RELEASE.match(text.strip()))


def release_of_image(name: str) -> ImageRelease | None:
    """Return the release in the name of an image's file, or None."""
    return _found(_IN_NAME.search(name))


def _found(match: re.Match[str] | None) -> ImageRelease | None:
    return ImageRelease(int(match[1]), int(match[2]), int(match[3]), match[4]) if match else None

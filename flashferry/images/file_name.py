"""Parser of the file names of Cisco software: kind of file, platform, and IOS-XE release. Pure.

Facts
-----
* File names have `17.12.04a`, `show version` has `17.12.4a` or `17.06.03a`, `show install summary` has
  `17.12.04a.01.79` with the build at its end. A file name has no build, so builds are not compared.
* A digit before the first dot may belong to a word: `universalk9.17.12.04a` is not release 9.17.12.
* Names of classic IOS (`c2900-universalk9-mz.SPA.157-3.M.bin`) and of developer builds (`BLD_V168_...`) have no such
  release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

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
        """Return the release as `show version` of a recent release prints it: `17.12.4a`."""
        return f"{self.major}.{self.minor}.{self.rebuild}{self.letters}"


def release_in(text: str) -> ImageRelease | None:
    """Parse a version as `show version` or `show install summary` print it; None if it is no IOS-XE release."""
    return _found(_RELEASE.match(text.strip()))


def release_of_image(name: str) -> ImageRelease | None:
    """Return the release in an image's file name, or None."""
    return _found(_IN_NAME.search(name))


def _found(match: re.Match[str] | None) -> ImageRelease | None:
    return ImageRelease(int(match[1]), int(match[2]), int(match[3]), match[4]) if match else None


_PATCH = re.compile(r"\.smu\.bin$|(?<![a-z0-9])csc[a-z]{2}\d{5}(?!\d)")

_ROMMON = re.compile(r"rommon|_rm\d*\.|\.srec(?:\.|$)")

_SUB_PACKAGE = re.compile(r"\.pkg$|^c9800-(?:sw|ap)-iosxe-wlc\b")

_ARCHIVE = re.compile(r"\.(?:tar|zip)$")

_MEMORY = re.compile(r"[a-z]{1,2}")

_IOS_XE = re.compile(r"([a-z][a-z0-9_]*?_iosxe)_?([a-z0-9_]*)")

_ENCRYPTION = re.compile(r"(?<![a-z0-9])(?:universalk\d+|iosxe)?_?(npe|ldpe)(?![a-z0-9])")

_WITHOUT_DIGIT = frozenset({"vios", "isrv"})
"""Platform words without a digit. Any other first word without a digit is no platform: `demo-xe1.bin`."""


class FileKind(StrEnum):
    """What a software file is, by its name.

    Attributes:
        IMAGE: A whole image; also if the name shows nothing: `image.bin`.
        APSP: A service pack for access points.
        APDP: A device pack for access points.
        SUB_PACKAGE: A part of an image: `.pkg`, or the wireless package of a switch.
        PACKAGE_LIST: The list of an image's parts: `packages.conf`, `cat9k_iosxe.17.09.05.SPA.conf`.
        ARCHIVE: `.tar` or `.zip`, which no device boots.
    """

    IMAGE = "image"
    SMU = "patch (SMU)"
    APSP = "service pack for access points (APSP)"
    APDP = "device pack for access points (APDP)"
    SUB_PACKAGE = "sub-package"
    PACKAGE_LIST = "list of packages"
    ROMMON = "ROMMON"
    ARCHIVE = "archive"


class FileName(Struct, frozen=True, kw_only=True):
    """Parts of a software file's name.

    Attributes:
        platform: The platform word in lower case, such as `c9800-cl`; None if the name has not Cisco's form.
        encryption: `npe` or `ldpe` if the feature set has restricted encryption; empty otherwise.
        release: The release, for a patch that of its base image; None if the name has none.
    """

    name: str
    kind: FileKind
    platform: str | None
    encryption: str
    release: ImageRelease | None

    @property
    def is_image(self) -> bool:
        """Return whether the file may be a whole image, which is installed by itself and can run."""
        return self.kind in {FileKind.IMAGE, FileKind.ARCHIVE}

    @property
    def image_release(self) -> ImageRelease | None:
        """Return the release of a device that runs this file; None for a patch, a sub-package or a boot loader."""
        return self.release if self.is_image else None


def read_file_name(name: str) -> FileName:
    """Parse the name of a software file; folders before it are ignored.

    Also parses the platform that `show version` prints in brackets: `C2960X-UNIVERSALK9-M`.
    """
    folded = re.split(r"[:/]", name.casefold())[-1]
    restricted = _ENCRYPTION.search(folded)
    return FileName(
        name=name,
        kind=_kind(folded),
        platform=_platform(folded),
        encryption=restricted[1] if restricted else "",
        release=release_of_image(name),
    )


def _kind(folded: str) -> FileKind:
    if folded.endswith(".apsp.bin"):
        return FileKind.APSP
    if folded.endswith(".apdp.bin"):
        return FileKind.APDP
    if _PATCH.search(folded):
        return FileKind.SMU
    if _ROMMON.search(folded):
        return FileKind.ROMMON
    if _SUB_PACKAGE.search(folded):
        return FileKind.SUB_PACKAGE
    if folded.endswith(".conf"):
        return FileKind.PACKAGE_LIST
    return FileKind.ARCHIVE if _ARCHIVE.search(folded) else FileKind.IMAGE


def _platform(folded: str) -> str | None:
    """Return the platform word, which is the part before the feature set; None if the name has not Cisco's form."""
    stem = folded.partition(".")[0]
    if (found := _IOS_XE.fullmatch(stem)) is not None:
        return found[1]
    words = stem.split("-")
    if len(words) > 2 and _MEMORY.fullmatch(words[-1]):
        words.pop()
    word = "-".join(words[:-1]).removesuffix("-mono").removesuffix("-iosxe")
    is_word = re.fullmatch(r"[a-z0-9_]+(?:-[a-z0-9_]+)?", word) and re.search(r"\d", word) and words[-1]
    # `show version` of IOS-XE routers prints the processor instead of the platform: `X86_64_LINUX_IOSD`.
    is_platform = (is_word or word in _WITHOUT_DIGIT) and not word.endswith("_linux_iosd")
    return word if is_platform else None

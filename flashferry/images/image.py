"""Types of an image and its digests, and the check against digests that the vendor publishes.

A download that differs from the published digests is refused before any device is contacted.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.images.safe_open import FileIdentity

_DIGITS = {"MD5": 32, "SHA-512": 128}
_OPTIONS = {"MD5": "--md5", "SHA-512": "--sha512"}


class Digests(Struct, frozen=True, kw_only=True):
    """Digests of a file in lower-case hexadecimal; empty where not computed or given.

    Attributes:
        md5: MD5, 32 digits, for devices that know no other. It guards against damage, not against an attacker.
        sha512: SHA-512, 128 digits.
    """

    md5: str = ""
    sha512: str = ""


class Image(Struct, frozen=True, kw_only=True):
    """An image with its digests.

    Attributes:
        name: File name without directory, as devices request and store it.
        md5: As in `Digests`; never empty.
        sha512: As in `Digests`; never empty.
    """

    name: str
    size_bytes: int
    md5: str
    sha512: str

    @property
    def digests(self) -> Digests:
        """Return both digests."""
        return Digests(md5=self.md5, sha512=self.sha512)

    def of_record(self) -> Image:
        """Return a plain `Image`, without the fields of the file on this host."""
        return Image(name=self.name, size_bytes=self.size_bytes, md5=self.md5, sha512=self.sha512)


class ImageFile(Image, frozen=True, kw_only=True):
    """An image and its file on this host.

    Attributes:
        identity: State of the file for which the digests were computed.
        inside: Image name embedded in the file's content (`CW_IMAGE`), which may differ from the file name; None if
            there is none.
    """

    path: Path
    identity: FileIdentity
    inside: str | None = None


class PlannedImage(Struct, frozen=True, kw_only=True):
    """An image as stored in plans and journals, to be compared with the file later. The order of the fields is stored.

    Attributes:
        path: Absolute path of the file on this host. The other fields are as in `Image`.
    """

    name: str
    path: str
    size_bytes: int
    md5: str
    sha512: str

    @classmethod
    def of(cls, image: Image, path: Path) -> PlannedImage:
        """Return an image with the operator's path to it made absolute; links are not resolved."""
        return cls(
            name=image.name,
            path=str(path.absolute()),
            size_bytes=image.size_bytes,
            md5=image.md5,
            sha512=image.sha512,
        )


def published_digests(md5: str | None = None, sha512: str | None = None) -> Digests:
    """Return the published digests that the operator gave, without surrounding spaces and in lower case.

    Raises:
        ConfigInvalid: A value is not a digest of its kind.
    """
    return Digests(md5=_checked("MD5", md5), sha512=_checked("SHA-512", sha512))


def check_published(image: Image, vendor: Digests) -> None:
    """Compare an image's digests with the published ones.

    Raises:
        ConfigInvalid: A digest differs: the download is damaged, or another file.
    """
    for kind, expected, found in (("MD5", vendor.md5, image.md5), ("SHA-512", vendor.sha512, image.sha512)):
        if expected and expected != found:
            raise ConfigInvalid(
                f"image {image.name}: expected the published {kind} {expected}, the file has {found}",
                hint="The download is damaged or another file: fetch it again",
            )


def _checked(kind: str, given: str | None) -> str:
    if given is None:
        return ""
    text = given.strip().lower()
    if len(text) != _DIGITS[kind] or not re.fullmatch(r"[0-9a-f]+", text):
        raise ConfigInvalid(
            f"{_OPTIONS[kind]}: expected {_DIGITS[kind]} hexadecimal digits, found {len(text)} of them: {text[:40]!r}"
            if re.fullmatch(r"[0-9a-f]*", text)
            else f"{_OPTIONS[kind]}: expected hexadecimal digits, found {text[:40]!r}",
            hint="Copy it from the vendor's download page",
        )
    return text

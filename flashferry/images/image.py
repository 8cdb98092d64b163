"""An image and its digests: one type for the catalogue, a plan, a check, a proof and a record.

Also the hashes that a vendor publishes: a download that differs is refused before any device is touched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.images.files import FileIdentity

_DIGITS = {"MD5": 32, "SHA-512": 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Digests of a file in lower-case hexadecimal; empty where not computed or given.

    Attributes:
        md5: MD5, 32 digits, for devices that know no other. It guards against damage, not against an attacker.
        sha512: SHA-512, 128 digits.
    """

    md5: str = ""
    sha512: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image with its digests.

    Attributes:
        name: Its file's name without any directory, on the wire and on devices.
        md5: As `Digests` has it; never empty.
        sha512: As `Digests` has it; never empty.
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
        """Return the image alone, without what is known of its file."""
        return Image(name=self.name, size_bytes=self.size_bytes, md5=self.md5, sha512=self.sha512)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile(Image):
    """An image as it lies here.

    Attributes:
        identity: The state of the file that the digests belong to.
        inside: The name that it carries in itself, whatever its file is called; None where it carries none.
    """

    path: Path
    identity: FileIdentity
    inside: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedImage:
    """An image as plans and journals have it, with its keys in this order: what is compared with the file later.

    Attributes:
        name: As `Image` has it.
        path: Where its file is here; absolute.
        size_bytes: As `Image` has it.
        md5: As `Image` has it.
        sha512: As `Image` has it.
    """

    name: str
    path: str
    size_bytes: int
    md5: str
    sha512: str

    @classmethod
    def of(cls, image: Image, path: Path) -> PlannedImage:
        """Return an image with the path that the operator gave for it, links unresolved."""
        return cls(
            name=image.name,
            path=str(path.absolute()),
            size_bytes=image.size_bytes,
            md5=image.md5,
            sha512=image.sha512,
        )


def published(md5: str | None = None, sha512: str | None = None) -> Digests:
    """Return published hashes as given by the operator; blanks around them and capitals don't matter.

    Raises:
        ConfigInvalid: One is not a hash of its kind.
    """
    return Digests(md5=_checked("MD5", md5), sha512=_checked("SHA-512", sha512))


def check_published(image: Image, vendor: Digests) -> None:
    """Compare an image with what was published for it.

    Raises:
        ConfigInvalid: A hash differs: the download is damaged, or another file.
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
            f"published {kind}: expected {_DIGITS[kind]} hexadecimal digits, found {len(text)} of them: {text[:40]!r}"
            if re.fullmatch(r"[0-9a-f]*", text)
            else f"published {kind}: expected hexadecimal digits, found {text[:40]!r}",
            hint="Copy it from the vendor's download page",
        )
    return text

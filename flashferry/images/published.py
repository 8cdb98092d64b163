"""The hashes that a vendor publishes for an image: a download that differs is refused before any device is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from flashferry.core.errors import ConfigInvalid

_DIGITS = {"MD5": 32, "SHA-512": 128}


class Hashed(Protocol):
    """What we need of an image file: its name and its own hashes."""

    @property
    def name(self) -> str:
        """Return the file's name."""
        ...

    @property
    def md5(self) -> str:
        """Return the MD5 of the file."""
        ...

    @property
    def sha512(self) -> str:
        """Return the SHA-512 of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Hashes in lower-case hexadecimal; None where the vendor gave none."""

    md5: str | None = None
    sha512: str | None = None

    def check(self, image: Hashed) -> None:
        """Compare an image with what was published.

        Raises:
            ConfigInvalid: A hash differs: the download is damaged, or another file.
        """
        for kind, wanted, found in (("MD5", self.md5, image.md5), ("SHA-512", self.sha512, image.sha512)):
            if wanted is not None and wanted != found:
                raise ConfigInvalid(
                    f"image {image.name}: expected the published {kind} {wanted}, the file has {found}",
                    hint="The download is damaged or another file: fetch it again",
                )


def published(md5: str | None = None, sha512: str | None = None) -> Published:
    """Return published hashes as given by the operator; blanks around them and capitals don't matter.

    Raises:
        ConfigInvalid: One is not a hash of its kind.
    """
    return Published(md5=_checked("MD5", md5), sha512=_checked("SHA-512", sha512))


def _checked(kind: str, given: str | None) -> str | None:
    if given is None:
        return None
    text = given.strip().lower()
    if len(text) != _DIGITS[kind] or not re.fullmatch(r"[0-9a-f]+", text):
        raise ConfigInvalid(
            f"published {kind}: expected {_DIGITS[kind]} hexadecimal digits, found {len(text)} of them: {text[:40]!r}"
            if re.fullmatch(r"[0-9a-f]*", text)
            else f"published {kind}: expected hexadecimal digits, found {text[:40]!r}",
            hint="Copy it from the vendor's download page",
        )
    return text

"""Signed images, and what `verify` prints about them.

No stand-in can check Cisco's signatures. In their place a file counts as a signed image when it ends with a mark and
the SHA-1 of all that is before it; `sign` makes one. The lines are those of a capture of IE9300 17.9.2 (genielibs), and
for IOS those of Cisco's documentation of `verify`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MARK = b"\nstand-in image, SHA-1 of the above: "
_TRAILER_BYTES = len(_MARK) + 40


def sign(content: bytes) -> bytes:
    """Return content as a stand-in takes it for a genuine image."""
    return content + _MARK + hashlib.sha1(content, usedforsecurity=False).hexdigest().encode("ascii")


def embedded_signature(path: Path) -> tuple[str | None, int]:
    """Return the digest that a file ends with, None where it has none, and how many bytes it is of."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TRAILER_BYTES))
        trailer = file.read()
    if not trailer.startswith(_MARK):
        return None, size
    return trailer[len(_MARK) :].decode("latin-1"), size - _TRAILER_BYTES


def signed_xe(shown: str, digests: tuple[str, ...]) -> str:
    """Return what IOS-XE prints behind the dots of a good image; digests are SHA-1, MD5 and SHA-512."""
    sha1, _, sha512 = digests
    blanks = " " * 22
    rows = [sha512[at : at + 32] for at in range(0, 128, 32)]
    return (
        f"\nEmbedded Hash   SHA1 : {sha1.upper()}\nComputed Hash   SHA1 : {sha1.upper()}\n"
        "Starting image verification\nHash Computation:    100%Done!\n"
        f"Computed Hash   SHA2: {rows[0]}\n" + "".join(f"{blanks}{row}\n" for row in rows[1:]) + f"{blanks}\n"
        f"Digital signature successfully verified in file {shown}\n\nSignature Verified\n"
    )


def signed_ios(shown: str, digests: tuple[str, ...]) -> str:
    """Return what IOS prints behind the dots of a good image; digests are SHA-1, MD5 and SHA-512."""
    md5 = digests[1].upper()
    return (
        f"Done!\nEmbedded Hash   MD5 : {md5}\nComputed Hash   MD5 : {md5}\nCCO Hash        MD5 : {md5}\n\n"
        "Embedded hash verification successful.\nFile system hash verification successful.\n"
        f"Verified {shown}\n"
    )

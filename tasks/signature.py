"""What plain `verify` says about an image's signature. Pure.

Facts
-----
* IOS-XE (IE9300, 17.9.2; capture): embedded and computed SHA-1, then `Digital signature successfully verified in file
  NAME` and `Signature Verified`.
* Older releases compare the hash inside the image only: `Embedded hash verification successful.` or `Verified flash:x`.
* A file without a signature (IE3x00; capture): `%ERROR: Not able to process Signature in flash:/x.`
* A signature proves a genuine image of the vendor, not the wanted one: that is what the digest is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flashferry.devices.platforms.platform import FileSystems
from templates.rows import ImageHash, SignatureRefused, SignatureVerified, VerifyError, first, rows


class Signature(Enum):
    """What a device says about an image.

    Attributes:
        HASH_ONLY: The hash inside it is good; this release says nothing about a signature.
        REFUSED: It is not good, or there is none.
        UNKNOWN: The device printed nothing that we know.
    """

    VERIFIED = "verified"
    HASH_ONLY = "hash only"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureReport:
    """The outcome, and the device's own words for it."""

    outcome: Signature
    words: str
    duration_s: float = 0.0


def read_signature(output: str, path: str, names: FileSystems) -> SignatureReport:
    """Return what the output of `verify PATH` says about the file.

    A bad word outweighs any number of good ones, and a good word about another file counts for nothing.
    """
    if (refusal := _refusal(output)) is not None:
        return SignatureReport(outcome=Signature.REFUSED, words=refusal)
    signed = ""
    hashed = ""
    for row in rows(SignatureVerified, output):
        if row.file and not names.same_file(path, row.file.rstrip(".")):
            continue
        if "ignature" in row.by:
            signed = signed or row.by
        else:
            hashed = hashed or row.by
    if signed:
        return SignatureReport(outcome=Signature.VERIFIED, words=signed)
    if hashed:
        return SignatureReport(outcome=Signature.HASH_ONLY, words=hashed)
    return SignatureReport(outcome=Signature.UNKNOWN, words="")


def _refusal(output: str) -> str | None:
    if (refused := first(SignatureRefused, output)) is not None:
        return refused.reason.strip()
    if (error := first(VerifyError, output)) is not None:
        return error.reason
    hashes = {(row.origin, row.algorithm): "".join(row.digest).lower() for row in rows(ImageHash, output)}
    for (origin, algorithm), digest in hashes.items():
        computed = hashes.get(("Computed", algorithm))
        if origin != "Computed" and computed is not None and computed != digest:
            return f"{origin} {algorithm} {digest} and computed {algorithm} {computed} differ"
    return None

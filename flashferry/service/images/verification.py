"""State of an image by its digests and the published ones, and whether plans may use it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from flashferry.images.families import family_of_image
from flashferry.images.image import Digests
from flashferry.store.service.images import ImageState, Published, image_of

_IN_THE_WAY = {
    ImageState.ARRIVING: "is not completely uploaded",
    ImageState.MISMATCH: "is not what the vendor published",
    ImageState.HIDDEN: "was removed",
    ImageState.UNKNOWN: "is unknown: no published digest is known, and no admin approved it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A SHA-512 that a user pasted as the vendor's: 128 digits in lower case, and who."""

    sha512: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """State of an image, and why, without a full stop."""

    state: ImageState
    reason: str


def judged(name: str, digests: Digests, published: Sequence[Published], stated: Stated | None) -> Verdict:
    """Return the state of an image.

    All known digests must agree: one that differs makes it a mismatch. A digest that was published under another name
    counts.

    Args:
        name: File name.
        digests: Of its content.
        published: Published under its name, or for its content.
        stated: Pasted by a user, or None.
    """
    found = f"its SHA-512 is {_short(digests.sha512)}"
    if stated is not None and stated.sha512 != digests.sha512:
        details = f"{found}, and {stated.by} pasted {_short(stated.sha512)} as the vendor's"
        return Verdict(state=ImageState.MISMATCH, reason=details)
    same = [one for one in published if one.sha512 == digests.sha512 and one.md5 in ("", digests.md5)]
    of_name = [one for one in published if one.name == name]
    if of_name and not any(one in same for one in of_name):
        details = f"{found}, and {of_name[0].source} has {_short(of_name[0].sha512)} for it"
        return Verdict(state=ImageState.MISMATCH, reason=details)
    if same:
        first = next((one for one in same if one.name == name), same[0])
        called = "" if first.name == name else f", as {first.name}"
        return Verdict(state=ImageState.PUBLISHED, reason=f"{first.source} has its SHA-512{called}")
    if stated is not None:
        return Verdict(
            state=ImageState.PUBLISHED, reason=f"its SHA-512 is the one that {stated.by} pasted as the vendor's"
        )
    return Verdict(state=ImageState.UNKNOWN, reason="no published digest of it is known here")


def why_not_what_it_says(name: str, inside: str | None) -> str:
    """Return how an image's name contradicts the name inside the file; empty if not, or unknown."""
    by_name, by_file = family_of_image(name), family_of_image(inside) if inside else None
    if by_name is None or by_file is None or by_name is by_file:
        return ""
    return f"its name is of the family {by_name.name}, and the name inside the file, {inside}, of {by_file.name}"


def object_of(name: str) -> str:
    """Return the object of audit entries."""
    return f"image:{name}"


def why_not_usable(database: sqlite3.Connection, name: str, sha512: str | None = None) -> str:
    """Return why plans may not use an image, without a full stop; empty if they may.

    With a `sha512`, the image must have that content. Read in the caller's transaction.
    """
    image = image_of(database, name)
    if image is None:
        return f"image {name} is not in the image store, which checks its folder each minute"
    if not image.is_usable:
        because = f" ({image.told})" if image.told and image.state is ImageState.MISMATCH else ""
        return f"image {name} {_IN_THE_WAY[image.state]}{because}"
    if sha512 is not None and image.sha512 != sha512:
        return f"image {name} in the image store is not the one that the plan was made for"
    return ""


def _short(digest: str) -> str:
    return f"{digest[:16]}…"

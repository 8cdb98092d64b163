"""What is held of an image, by its digests and by what the vendor published; and whether plans may be begun with it.

They may only where it was published, or an admin vouched for it. Whoever begins something asks in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from flashferry.images.families import family_of_image
from flashferry.images.image import Digests
from flashferry.store.service.images import ImageState, Published, image_of

_IN_THE_WAY = {
    ImageState.ARRIVING: "has not wholly arrived",
    ImageState.MISMATCH: "is not what the vendor published",
    ImageState.HIDDEN: "was taken away",
    ImageState.UNKNOWN: "is unknown: nothing is known that the vendor published of it, and no admin vouched for it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What somebody pasted as the vendor's.

    Attributes:
        sha512: 128 digits in lower case.
        by: Who.
    """

    sha512: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is held of an image.

    Attributes:
        state: Published, unknown or a mismatch.
        told: Why, in a sentence without a full stop.
    """

    state: ImageState
    told: str


def judged(name: str, digests: Digests, published: Sequence[Published], stated: Stated | None) -> Verdict:
    """Return what is held of an image.

    Whatever is known must agree: one digest that differs makes it a mismatch, whoever published another. What the
    vendor published of the same content under another name counts, for files are given other names.

    Args:
        name: Its file's name.
        digests: Of its content.
        published: What is known to be published under its name, or of its content.
        stated: What somebody pasted, or None.
    """
    found = f"its SHA-512 is {_short(digests.sha512)}"
    if stated is not None and stated.sha512 != digests.sha512:
        told = f"{found}, and {stated.by} pasted {_short(stated.sha512)} as the vendor's"
        return Verdict(state=ImageState.MISMATCH, told=told)
    same = [one for one in published if one.sha512 == digests.sha512 and one.md5 in ("", digests.md5)]
    of_name = [one for one in published if one.name == name]
    if of_name and not any(one in same for one in of_name):
        told = f"{found}, and {of_name[0].source} has {_short(of_name[0].sha512)} for it"
        return Verdict(state=ImageState.MISMATCH, told=told)
    if same:
        first = next((one for one in same if one.name == name), same[0])
        called = "" if first.name == name else f", as {first.name}"
        return Verdict(state=ImageState.PUBLISHED, told=f"{first.source} has its SHA-512{called}")
    if stated is not None:
        return Verdict(
            state=ImageState.PUBLISHED, told=f"its SHA-512 is the one that {stated.by} pasted as the vendor's"
        )
    return Verdict(state=ImageState.UNKNOWN, told="nothing that was published about it is known here")


def why_not_what_it_says(name: str, inside: str | None) -> str:
    """Return in what an image's name and the one inside the file disagree; empty where they do not, or nobody knows."""
    by_name, by_file = family_of_image(name), family_of_image(inside) if inside else None
    if by_name is None or by_file is None or by_name is by_file:
        return ""
    return f"its name is of the family {by_name.name}, and the name inside the file, {inside}, of {by_file.name}"


def object_of(name: str) -> str:
    """Return what the audit calls an image."""
    return f"image:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How an image stands.

    Attributes:
        why_not: Why nothing may be begun with it, in a sentence without a full stop; empty where it may.
    """

    why_not: str = ""

    @property
    def is_usable(self) -> bool:
        """Return whether something may be begun with it."""
        return not self.why_not


def usable(database: sqlite3.Connection, name: str, sha512: str | None = None) -> Standing:
    """Return how an image stands.

    Args:
        database: The connection of the caller's transaction.
        name: The image.
        sha512: What is to be in it; None: whatever is in the image of that name.
    """
    image = image_of(database, name)
    if image is None:
        return Standing(
            why_not=f"image {name} is not known to the image store, which looks into its folder each minute"
        )
    if not image.is_usable:
        because = f" ({image.told})" if image.told and image.state is ImageState.MISMATCH else ""
        return Standing(why_not=f"image {name} {_IN_THE_WAY[image.state]}{because}")
    if sha512 is not None and image.sha512 != sha512:
        return Standing(why_not=f"image {name} of the image store is another one than the plan was made for")
    return Standing()


def _short(digest: str) -> str:
    return f"{digest[:16]}…"

"""State of an image by its digests; whether plans can use it; path of its file."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from flashferry.core.files import sync_folder
from flashferry.images.image import Digests
from flashferry.images.image_platform_match import family_of_image
from flashferry.service.errors import DiskFull, InvalidRequest
from flashferry.service.service import Service
from flashferry.store.service.images import ImageState, Published, StoredImage, image_of, images

MOST_PUBLISHED_BYTES = 256 << 20
"""Limit of a file of published hashes, of the tar in it, and of the CSV in that."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,119}", re.ASCII)
_PART = ".part"

_BESIDE = {
    ImageState.UPLOADING: (".arriving", _PART),
    ImageState.MISMATCH: (".refused", ""),
    ImageState.HIDDEN: (".hidden", ""),
}
"""Folder below that of images, and suffix, for states in which the file must not be served."""


def is_image_name(name: str) -> bool:
    """Return whether an image name is valid: at most 120 of letters, digits and `. _ + -`, a letter or digit first."""
    return _NAME.fullmatch(name) is not None and not name.endswith(_PART)


def checked_name(name: str) -> str:
    """Check and return an image name. Raises `InvalidRequest`."""
    if not is_image_name(name):
        raise InvalidRequest(
            f"image: expected a name of at most 120 letters, digits and '. _ + -', a letter or digit first, and not "
            f"'{_PART}' last; found {name[:130]!r}",
            hint="Give the file's name as the vendor has it, without folders",
        )
    return name


def place_of(service: Service, name: str, state: ImageState) -> Path:
    """Return the path of an image's file, which depends on the image's state."""
    folder, suffix = _BESIDE.get(state, (".", ""))
    return service.images / folder / f"{name}{suffix}"


def settle(service: Service, image: StoredImage) -> bool:
    """Move an image's file to the folder for its state; return whether it is there.

    Repeated by the next pass if the service stopped before the move. Files placed by hand are not overwritten. Raises
    `OSError` if the file cannot be moved.
    """
    requested = place_of(service, image.name, image.state)
    if os.path.lexists(requested):
        return True
    found = next((place for place in _places(service, image.name) if place.is_file() and not place.is_symlink()), None)
    if found is None or found == requested:
        return False
    make_folder(requested.parent)
    found.rename(requested)
    sync_folder(requested.parent)
    sync_folder(found.parent)
    return True


def remove_files(service: Service, name: str) -> None:
    """Delete an image's files beside the image folder; one in the folder itself stays. Raises `OSError`."""
    for state in _BESIDE:
        place_of(service, name, state).unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder for images, accessible to its owner alone. Raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_free_space(service: Service, needed_bytes: int, outstanding_bytes: int) -> None:
    """Check that a write leaves the configured reserve of free space. Raises `DiskFull`.

    `outstanding_bytes` are announced by other uploads and not yet received.
    """
    free_bytes = shutil.disk_usage(service.images).free
    reserve_bytes = service.settings.images.reserve_bytes
    if free_bytes - outstanding_bytes - needed_bytes < reserve_bytes:
        raise DiskFull(
            f"images: expected room for {needed_bytes:,} bytes beside {outstanding_bytes:,} that others are sending "
            f"and {reserve_bytes:,} that stay free, found {free_bytes:,} bytes free",
            hint="Remove images that are not needed, or free disk space; what was uploaded stays",
        )


def _places(service: Service, name: str) -> list[Path]:
    found = []
    for state in (*_BESIDE, ImageState.UNKNOWN):
        with suppress(OSError):
            found.append(place_of(service, name, state))
    return found


_WHY_NOT = {
    ImageState.UPLOADING: "is not completely uploaded",
    ImageState.MISMATCH: "is not what the vendor published",
    ImageState.HIDDEN: "was removed",
    ImageState.UNKNOWN: "is unknown: no published digest is known, and no admin approved it",
}


class Stated(Struct, frozen=True, kw_only=True):
    """SHA-512 that a user pasted as the vendor's, in lower case, and the user's name."""

    sha512: str
    by: str


class Verdict(Struct, frozen=True, kw_only=True):
    """State of an image, and the reason as a sentence without a full stop."""

    state: ImageState
    reason: str


def judged(name: str, digests: Digests, published: Sequence[Published], stated: Stated | None) -> Verdict:
    """Return the state of an image by its digests.

    `published` are the digests published under its name or for its content; `stated` was pasted by a user. All must
    agree: a single difference is a mismatch. A digest that was published under another name counts.
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
    """Return how an image's name contradicts the name inside its file; empty if it does not, or that is unknown."""
    by_name, by_file = family_of_image(name), family_of_image(inside) if inside else None
    if by_name is None or by_file is None or by_name is by_file:
        return ""
    return f"its name is of the family {by_name.name}, and the name inside the file, {inside}, of {by_file.name}"


def object_of(name: str) -> str:
    """Return the audit object of an image."""
    return f"image:{name}"


def why_not_usable(database: sqlite3.Connection, name: str, sha512: str | None = None) -> str:
    """Return why plans cannot use an image, as a sentence without a full stop; empty if they can.

    With `sha512`, the image must have that content. Reads in the caller's transaction.
    """
    image = image_of(database, name)
    if image is None:
        return f"image {name} is not in the image store, which checks its folder each minute"
    if not image.is_usable:
        because = f" ({image.state_reason})" if image.state_reason and image.state is ImageState.MISMATCH else ""
        return f"image {name} {_WHY_NOT[image.state]}{because}"
    if sha512 is not None and image.sha512 != sha512:
        return f"image {name} in the image store is not the one that the plan was made for"
    return ""


def usable_images(service: Service) -> tuple[str, ...]:
    """Return the names of the images that plans can use."""
    with service.database.reading() as database:
        return tuple(one.name for one in images(database) if one.is_usable)


def _short(digest: str) -> str:
    return f"{digest[:16]}…"

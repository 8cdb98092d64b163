"""Where the file of an image lies, by its state; valid names, and disk space.

Facts
-----
* Servers of an image folder skip names with a leading dot, and folders (`flashferry.images.catalogue`).
* A rename within a file system is atomic, so all places are below the image folder.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from flashferry.core.atomic_write import sync_folder
from flashferry.service.errors import DiskFull, InvalidRequest
from flashferry.service.service import Service
from flashferry.store.service.images import ImageState, StoredImage

MOST_PUBLISHED_BYTES = 256 << 20
"""Limit of a file of published hashes, of the tar in it, and of the CSV in that."""

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,119}", re.ASCII)
_PART = ".part"
_BESIDE = {
    ImageState.ARRIVING: (".arriving", _PART),
    ImageState.MISMATCH: (".refused", ""),
    ImageState.HIDDEN: (".hidden", ""),
}
"""Folder below that of images, and suffix, for states in which the file must not be served."""


def is_image_name(name: str) -> bool:
    """Return whether a name is valid: letters, digits and `. _ + -`, at most 120, a letter or digit first."""
    return _NAME.fullmatch(name) is not None and not name.endswith(_PART)


def checked_name(name: str) -> str:
    """Return a valid image name. Raises `InvalidRequest`."""
    if not is_image_name(name):
        raise InvalidRequest(
            f"image: expected a name of at most 120 letters, digits and '. _ + -', a letter or digit first, and not "
            f"'{_PART}' last; found {name[:130]!r}",
            hint="Give the file's name as the vendor has it, without folders",
        )
    return name


def place_of(service: Service, name: str, state: ImageState) -> Path:
    """Return where the file of an image in a state lies."""
    folder, behind = _BESIDE.get(state, (".", ""))
    return service.images / folder / f"{name}{behind}"


def settle(service: Service, image: StoredImage) -> bool:
    """Move the file of an image to where its state requires it; return whether it is there.

    A service that ended between a row and its file does this in its next pass. Files placed by hand are not
    overwritten.

    Raises:
        OSError: It cannot be moved.
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
    """Delete the files beside the image folder under a name; a file in the folder itself stays. May raise `OSError`."""
    for state in _BESIDE:
        place_of(service, name, state).unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder for images, for its owner alone. May raise `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_room(service: Service, wanted_bytes: int, outstanding_bytes: int) -> None:
    """Refuse what would leave less free space than the reserve.

    Args:
        service: The service.
        wanted_bytes: To be written now.
        outstanding_bytes: Promised to other uploads and not yet sent.

    Raises:
        DiskFull: There is not enough space.
    """
    free_bytes = shutil.disk_usage(service.images).free
    reserve_bytes = service.settings.images.reserve_bytes
    if free_bytes - outstanding_bytes - wanted_bytes < reserve_bytes:
        raise DiskFull(
            f"images: expected room for {wanted_bytes:,} bytes beside {outstanding_bytes:,} that others are sending "
            f"and {reserve_bytes:,} that stay free, found {free_bytes:,} bytes free",
            hint="Remove images that are not needed, or free disk space; what was uploaded stays",
        )


def _places(service: Service, name: str) -> list[Path]:
    found = []
    for state in (*_BESIDE, ImageState.UNKNOWN):
        with suppress(OSError):
            found.append(place_of(service, name, state))
    return found

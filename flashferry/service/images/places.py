"""Where the file of an image lies, by its state; which names are taken, how large one may be, and the room on the disk.

Facts
-----
* Whoever serves a folder of images leaves out what begins with a dot, and folders (`flashferry.images.catalogue`).
* A change of name within a file system is whole or was not: so all places are below the folder of images.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from flashferry.service.errors import DiskFull, InvalidRequest
from flashferry.core.atomic_write import sync_folder
from flashferry.service.service import Service
from flashferry.store.service.images import ImageState, StoredImage

MOST_PUBLISHED_BYTES = 256 << 20
"""A file of published hashes, the tar in it and the CSV in that are not larger."""

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,119}", re.ASCII)
_PART = ".part"
_BESIDE = {
    ImageState.ARRIVING: (".arriving", _PART),
    ImageState.MISMATCH: (".refused", ""),
    ImageState.HIDDEN: (".hidden", ""),
}
"""Folder below that of images, and what stands behind the name, for states in which nobody is to have the file."""


def is_image_name(name: str) -> bool:
    """Return whether an image may be called so: letters, digits and `. _ + -`, at most 120, no dot or sign first."""
    return _NAME.fullmatch(name) is not None and not name.endswith(_PART)


def checked_name(name: str) -> str:
    """Return the name of an image.

    Raises:
        ServiceError: It may not be called so.
    """
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
    """Have the file of an image where its state wants it; return whether it is there now.

    A service that ended between a row and its file does this at its next look. One that somebody put in the way by
    hand stays, and so does the other.

    Raises:
        OSError: It cannot be moved.
    """
    wanted = place_of(service, image.name, image.state)
    if os.path.lexists(wanted):
        return True
    found = next((place for place in _places(service, image.name) if place.is_file() and not place.is_symlink()), None)
    if found is None or found == wanted:
        return False
    make_folder(wanted.parent)
    found.rename(wanted)
    sync_folder(wanted.parent)
    sync_folder(found.parent)
    return True


def remove_files(service: Service, name: str) -> None:
    """Remove what lies beside the folder's images under a name; a file in the folder itself stays.

    Raises:
        OSError: One cannot be removed.
    """
    for state in _BESIDE:
        place_of(service, name, state).unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder for images where there is none, for its owner alone.

    Raises:
        OSError: It cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_room(service: Service, wanted_bytes: int, outstanding_bytes: int) -> None:
    """Refuse what would leave less room on the disk than is to stay free.

    Args:
        service: The service.
        wanted_bytes: How much more is to be written.
        outstanding_bytes: How much others were promised, and have not sent.

    Raises:
        ServiceError: There is not so much room.
    """
    free_bytes = shutil.disk_usage(service.images).free
    reserve_bytes = service.settings.images.reserve_bytes
    if free_bytes - outstanding_bytes - wanted_bytes < reserve_bytes:
        raise DiskFull(
            f"images: expected room for {wanted_bytes:,} bytes beside {outstanding_bytes:,} that others are sending "
            f"and {reserve_bytes:,} that stay free, found {free_bytes:,} bytes free",
            hint="Take images away that nobody needs, or make room on the disk; what has arrived stays",
        )


def _places(service: Service, name: str) -> list[Path]:
    found = []
    for state in (*_BESIDE, ImageState.UNKNOWN):
        with suppress(OSError):
            found.append(place_of(service, name, state))
    return found

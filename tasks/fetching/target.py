"""What is at a copy's target before it starts: nothing is ever overwritten.

Facts
-----
* With `file prompt quiet` in the configuration the device asks nothing before it overwrites (ansible 23263, napalm
  1033): only our own check protects another file.
* A listing proves that a file is not there only where every line of it is accounted for (`tasks.file_system`); else the
  device is asked for that name alone. Where it asks nothing before it overwrites, both proofs are needed.
"""

from __future__ import annotations

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.session import DeviceSession
from flashferry.images.image import Image
from tasks.file_system import file_named, free_bytes, read_listing
from tasks.flash_space import FlashSpace
from tasks.partial_file import file_at
from tasks.read_config import Configured
from tasks.step import CHECK_WORD
from templates.rows import DirError, DirFile, DirTotals, first, rows


def look_again(
    session: DeviceSession, file_system: str, image: Image, *, overwrites_silently: bool = False
) -> str | None:
    """Return why an image cannot be put where the check found space for it, right before the copy, or None.

    Raises:
        DeviceRefused: The file system cannot be listed any more.
    """
    listing = list_files(session, file_system)
    space = FlashSpace(file_system=file_system, free_bytes=free_bytes(listing))
    present = present_file(session, listing, image, file_system)
    if overwrites_silently and present is None:
        if (doubt := absence_doubt(file_system, listing, image)) is not None:
            return doubt
        present = _asked_by_name(session, file_system, image.name)
    return image_refusal(space, image, present)


def overwrites_silently(running: Configured) -> bool:
    """Return whether the device overwrites a file without a question."""
    return any(line.split() == ["file", "prompt", "quiet"] for line in running.lines)


def absence_doubt(file_system: str, listing: str, image: Image) -> str | None:
    """Return why a copy may overwrite a file on a device that asks nothing, or None."""
    doubt = read_listing(listing).doubt
    if doubt is None:
        return None
    return (
        f"with 'file prompt quiet' the device overwrites without a question, and the listing of {file_system} does not "
        f"prove that there is no {image.name}: {doubt}"
    )


def doubt_hint(session: DeviceSession) -> str:
    """Return what to do where a listing proves no absence and the device asks nothing."""
    words = session.width_refusal
    width = f"let the user give 'terminal width 511', which the device refuses ({words}), or " if words else ""
    return f"Look at 'dir' by hand: {width}have the device ask before it overwrites ('no file prompt quiet')"


def list_files(session: DeviceSession, file_system: str) -> str:
    """Return what `dir` prints of a file system.

    Raises:
        DeviceRefused: It cannot be listed.
    """
    listing = session.ask(session.platform.list_command(file_system), limit_s=60)
    if (error := first(DirError, listing)) is not None and not rows(DirTotals, listing):
        command = session.platform.list_command(error.subject)
        raise DeviceRefused(
            f"'{command}': {error.reason}",
            host=session.name,
            step=CHECK_WORD,
            hint="Look at the file system with 'dir' by hand: it may be absent, unformatted or in use",
        )
    return listing


def present_file(session: DeviceSession, listing: str, image: Image, file_system: str) -> DirFile | None:
    """Return the file of the image's name; where the listing is in doubt, the device is asked for that name alone."""
    try:
        return file_named(listing, image.name)
    except ValueError:
        return _asked_by_name(session, file_system, image.name)


def _asked_by_name(session: DeviceSession, file_system: str, name: str) -> DirFile | None:
    found = file_at(session, f"{file_system}{name}")
    if found.size_bytes is None:
        return None
    return DirFile(permissions="-", size_bytes=found.size_bytes, modified=found.modified, name=name)


def image_refusal(space: FlashSpace, image: Image, present: DirFile | None) -> str | None:
    """Return why an image cannot be put on a file system, or None: a file, or too little space."""
    file_system = space.file_system
    if present is None:
        return space.refusal(image.size_bytes)
    if present.name != image.name:
        return (
            f"{file_system}{present.name} exists, which a file system may take for {image.name}; nothing is "
            "overwritten: rename or delete it first"
        )
    return _other_contents(f"{file_system}{image.name}", image, present)


def _other_contents(path: str, image: Image, present: DirFile) -> str:
    found = f"{present.size_bytes} bytes, expected {image.size_bytes}"
    if present.size_bytes == image.size_bytes:
        found = f"{present.size_bytes} bytes, but another hash"
    return f"{path} exists with other contents ({found}); nothing is overwritten: rename or delete it first"

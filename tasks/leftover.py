"""What a broken copy left on a device's flash, in words. Looks only: nothing is deleted unless the operator asks."""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.devices.session import DeviceSession
from tasks.flash_file import FlashFile, file_at

CANNOT_TELL = "cannot tell: "
"""How the answer begins where there is none, with the reason behind it; never taken for the absence of a file."""


def leftover(session: DeviceSession, target: str) -> str | None:
    """Return path and size of the file at a copy's target, None where there is none, or why nobody can tell.

    Args:
        session: An open session.
        target: For example `bootflash:image.bin`; `null:` leaves nothing.
    """
    try:
        return in_words(file_at(session, target))
    except FlashferryError as error:
        return f"{CANNOT_TELL}{error.message}"


def advice(named: str, *, image_bytes: int, is_other: bool, run_id: str) -> str:
    """Return what to do about what a copy left: a sentence that agrees with what the next run does.

    The next check hashes a file of the image's size, and copies nothing where it is the image; it refuses any other
    file, unless it may remove what this run left.

    Args:
        named: The file, as `leftover` names it.
        image_bytes: Size of the image.
        is_other: Whether the device proved that the file is not the image.
        run_id: The run that left it.
    """
    resume = f"'flashferry stage --resume {run_id}'"
    if named.startswith(CANNOT_TELL):
        return f"Look at the device's flash; {resume} copies nothing over a file that is there"
    if is_other:
        return "It is not the image: delete it, and do not boot from it"
    if named.endswith(_size(image_bytes)):
        return (
            f"It has the image's size and is not proven yet: leave it there; {resume} has it hashed, and copies "
            "nothing if it is the image"
        )
    return f"It is cut off: {resume} with --remove-partial removes it and goes on; else delete it before staging again"


def _size(size_bytes: int) -> str:
    return f", {size_bytes:,} bytes"


def in_words(file: FlashFile) -> str | None:
    """Return path and size of a file; None where there is none."""
    return None if file.size_bytes is None else f"{file.path}{_size(file.size_bytes)}"

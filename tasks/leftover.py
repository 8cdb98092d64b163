"""What a broken copy left on a device's flash, in words. Looks only: nothing is deleted unless the operator asks."""

from __future__ import annotations

from inventory.errors import FlashferryError
from tasks.flash_file import FlashFile, file_at
from tasks.session import DeviceSession

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


def in_words(file: FlashFile) -> str | None:
    """Return path and size of a file; None where there is none."""
    return None if file.size_bytes is None else f"{file.path}, {file.size_bytes:,} bytes"

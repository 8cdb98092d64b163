"""What keeps a catalogue from taking an image in: another process uses it, or the disk is full.

Both leave everything as it is: what was verified stays, and the next sync goes on behind it. Other errors of the disk
are reported as unusable settings: a folder that cannot be written is one to be changed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.units import size

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class CatalogueBusy(FlashferryError):
    """Another process has the catalogue: it is filled by one at a time."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_BUSY
    advice: ClassVar[str | None] = "Let it end; what it brings is there then"


class CatalogueFull(FlashferryError):
    """The disk has no room for an image; what was verified of it is kept."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_FULL
    advice: ClassVar[str | None] = "Make room there, then sync again: it goes on behind what is there"


def disk_full(folder: Path, name: str, needed_bytes: int, free_bytes: int | None = None) -> CatalogueFull:
    """Return the error for a full disk.

    Args:
        folder: The catalogue.
        name: The image.
        needed_bytes: What is still to be written of it.
        free_bytes: What there is; None where the disk said no without a number.
    """
    found = "the disk says that it is full" if free_bytes is None else f"found {size(free_bytes)}"
    return CatalogueFull(f"catalogue {folder}: expected room for {size(needed_bytes)} of {name}, {found}")


@contextmanager
def disk_errors(folder: Path, name: str, needed_bytes: int = 0) -> Iterator[None]:
    """Raise an error of the disk in the block as one of ours.

    Raises:
        CatalogueFull: There is no room.
        ConfigInvalid: It cannot be read or written for another reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise disk_full(folder, name, needed_bytes) from None
        raise ConfigInvalid(
            f"catalogue {folder}: {name}: {error.strerror or error}",
            hint="Look at the disk and the folder's rights; what was verified is kept",
        ) from None

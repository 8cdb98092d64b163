"""Which file system an image belongs on, and what is there. Pure.

Facts
-----
* The running image's prefix is the right one (`flash0`, `bootflash`, `flash`, `harddisk`); a device that was booted
  over the network has only the row with `*` in `show file systems`.
* `flash:` asked, `bootflash:` answered: one is an alias of the other on most platforms; other prefixes are other
  devices.
* A FAT file system takes `IMAGE.BIN` and `image.bin` for one file.
"""

from __future__ import annotations

from flashferry.devices.platforms.platform import FileSystems
from templates.rows import DirFile, DirTotals, FileSystem, first, rows
from templates.version import SoftwareVersion


def file_system_of_image(version: SoftwareVersion, names: FileSystems) -> str | None:
    """Return the file system of the running image, with its colon; None for a device booted over the network."""
    name = version.image_file_system
    return f"{name}:" if name is not None and names.may_hold_image(name) else None


def default_file_system(listing: str, names: FileSystems) -> str | None:
    """Return the current default of `show file systems`, with its colon, if it is one that files can be put on."""
    for row in rows(FileSystem, listing):
        name = row.names[0]
        if row.default and row.flags == "rw" and names.may_hold_image(name.rstrip(":")):
            return name
    return None


def free_bytes(listing: str) -> int | None:
    """Return the room that an output of `dir` tells, or None where it tells none."""
    totals = first(DirTotals, listing)
    return totals.free_bytes if totals is not None else None


def file_named(listing: str, name: str) -> DirFile | None:
    """Return a file or folder of `dir`, or None; one whose name differs in the case of its letters only stands for it.

    Raises:
        ValueError: A row seems to name it and cannot be read: nobody could say that it is not there.
    """
    found = rows(DirFile, listing)
    alike = [row for row in found if row.name.casefold() == name.casefold()]
    if not alike and (row := next((line for line in listing.splitlines() if _names(line, name)), None)) is not None:
        raise ValueError(f"expected a row of 'dir', found {row.strip()!r}")
    return next((row for row in alike if row.name == name), alike[0] if alike else None)


def _names(line: str, name: str) -> bool:
    words = line.split()
    return len(words) > 2 and words[-1].casefold() == name.casefold()


def same_file(asked: str, answered: str, names: FileSystems) -> bool:
    """Return whether a device answers about the file that it was asked about: the same name on the same file system.

    Args:
        asked: For example `flash:image.bin`.
        answered: For example `bootflash:/image.bin`.
        names: What the platform calls its file systems.
    """
    (where, name), (there, found) = (path.rpartition(":")[::2] for path in (asked, answered))
    same_device = where.casefold() == there.casefold() or {where, there} <= names.aliases
    return same_device and name.lstrip("/") == found.lstrip("/")

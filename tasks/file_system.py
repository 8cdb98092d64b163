"""Which file system an image belongs on, and how much room is there. Pure.

Facts
-----
* The running image's prefix is the right one (`flash0`, `bootflash`, `flash`, `harddisk`); a device that was booted
  over the network has only the row with `*` in `show file systems`.
* A stack in install mode takes the copy on its active member; `install add` hands it to the others, which need the
  room too. Their file systems are `flash-2:`, `flash-3:`, ...
* `flash:` asked, `bootflash:` answered: one is an alias of the other on most platforms; other prefixes are other
  devices.
* A FAT file system takes `IMAGE.BIN` and `image.bin` for one file.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.devices.platforms.platform import FileSystems
from templates.rows import DirFile, DirTotals, FileSystem, first, rows
from templates.version import SoftwareVersion

SPACE_MARGIN = 1.02
"""A file takes whole blocks and the file system keeps records of it: 2 % on top of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRoom:
    """Room on another member of the stack."""

    file_system: str
    free_bytes: int


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


def room_of_members(listing: str, file_system: str, names: FileSystems) -> tuple[MemberRoom, ...]:
    """Return the room on the other members of a stack, from `show file systems`.

    Args:
        listing: Output of `show file systems`.
        file_system: The active member's, which is not among them.
        names: What the platform calls its file systems.
    """
    others = [row for row in rows(FileSystem, listing) if names.member.fullmatch(row.names[0]) and row.free.isdigit()]
    return tuple(
        MemberRoom(file_system=row.names[0], free_bytes=int(row.free)) for row in others if file_system not in row.names
    )


def needed_bytes(size_bytes: int) -> int:
    """Return the room that an image needs."""
    return int(size_bytes * SPACE_MARGIN) + 1


def room_refusal(file_system: str, free: int | None, size_bytes: int) -> str | None:
    """Return why an image does not fit, or None."""
    if free is None or free >= needed_bytes(size_bytes):
        return None
    return (
        f"{file_system} has {free} bytes free, the image needs {size_bytes} and a margin of {SPACE_MARGIN - 1:.0%}: "
        "delete what is not needed there"
    )


def room_notes(file_system: str, free: int | None, members: tuple[MemberRoom, ...], size_bytes: int) -> tuple[str, ...]:
    """Return what the operator should know about the room although the copy itself fits."""
    notes = []
    if free is None:
        notes.append(f"{file_system} does not say how much room it has: the copy may end with a full file system")
    notes += [
        f"{one.file_system} of another stack member has {one.free_bytes} bytes free, the image needs {size_bytes}: the "
        "copy lands on the active member only, 'install add' will not find room there"
        for one in members
        if one.free_bytes < needed_bytes(size_bytes)
    ]
    return tuple(notes)

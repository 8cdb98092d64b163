"""How much space an image needs, by how the device boots, and what to report where there is too little. Pure.

Facts
-----
* A stack in install mode takes the copy on its active member; `install add` hands it to the others, which need the
  space too. Their file systems are `flash-2:`, `flash-3:`, ...
* `install add` unpacks the image into packages of the same size beside it: a C9200L with an image of 473,808,711
  bytes asked for 462,703 KB more, and kept both. So what is to be added needs twice its size, on each member.
* In bundle mode each member boots an image file of its own: once its size, on each.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.devices.platforms.platform import FileSystems
from tasks.software_state import Mode
from templates.rows import FileSystem, rows

SPACE_MARGIN = 1.02
"""A file takes whole blocks and the file system keeps records of it: 2 % on top of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpace:
    """Free space on another member of the stack."""

    file_system: str
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashSpace:
    """The space that a device has for an image, and what it is needed for.

    Attributes:
        file_system: Where the image goes, with its colon.
        free_bytes: Free space there, or None where the device does not show it.
        members: Free space on the other members of a stack.
        mode: How the device boots.
        adds: Whether the image is added (`install add`) after the copy.
    """

    file_system: str
    free_bytes: int | None
    members: tuple[MemberSpace, ...] = ()
    mode: Mode = Mode.UNKNOWN
    adds: bool = False

    def refusal(self, size_bytes: int) -> str | None:
        """Return why an image of a size is not copied, or None."""
        is_added = self.adds and self.mode is Mode.INSTALL
        needed = needed_bytes(size_bytes, times=2 if is_added else 1)
        what = f"the image needs {size_bytes} and a margin of {SPACE_MARGIN - 1:.0%}"
        if is_added:
            what += ", and as much again for 'install add'"
        if self.free_bytes is not None and self.free_bytes < needed:
            return f"{self.file_system} has {self.free_bytes} bytes free, {what}: delete what is not needed there"
        if not is_added and self.mode is not Mode.BUNDLE:
            return None
        short = next((one for one in self.members if one.free_bytes < needed), None)
        if short is None:
            return None
        return f"{short.file_system} of another member has {short.free_bytes} bytes free, {what}"

    def notes(self, size_bytes: int) -> tuple[str, ...]:
        """Return what the operator should know about the space although the copy itself fits."""
        notes = []
        if self.free_bytes is None:
            notes.append(
                f"{self.file_system} does not say how much room it has: the copy may end with a full file system"
            )
        if self.mode is Mode.INSTALL and not self.adds and self._is_short_for_add(size_bytes):
            notes.append(
                f"{self.file_system} has {self.free_bytes} bytes free: the copy fits, 'install add' after it would "
                f"not find the {size_bytes} bytes more that it needs"
            )
        notes += [
            f"{one.file_system} of another stack member has {one.free_bytes} bytes free, the image needs {size_bytes}: "
            "the copy lands on the active member only, 'install add' will not find room there"
            for one in self.members
            if self.mode is not Mode.BUNDLE and one.free_bytes < needed_bytes(size_bytes)
        ]
        return tuple(notes)

    def _is_short_for_add(self, size_bytes: int) -> bool:
        needed, twice = needed_bytes(size_bytes), needed_bytes(size_bytes, times=2)
        return self.free_bytes is not None and needed <= self.free_bytes < twice


def space_of_members(listing: str, file_system: str, names: FileSystems) -> tuple[MemberSpace, ...]:
    """Return the free space on the other members of a stack, from `show file systems`."""
    others = [row for row in rows(FileSystem, listing) if names.member.fullmatch(row.names[0]) and row.free.isdigit()]
    return tuple(
        MemberSpace(file_system=row.names[0], free_bytes=int(row.free))
        for row in others
        if file_system not in row.names
    )


def needed_bytes(size_bytes: int, *, times: int = 1) -> int:
    """Return the space that an image needs, so many times over."""
    return int(times * size_bytes * SPACE_MARGIN) + 1

"""File systems of a device and its members: which files exist, how much space an image needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from flashferry.devices.errors import OutputNotUnderstood
from flashferry.devices.platforms.platform import FileSystems
from flashferry.devices.prompts import is_syslog
from flashferry.devices.session import DeviceSession
from tasks.software_state import STANDBY, Mode, Outcome, SoftwareState, Topic
from templates.rows import DirError, DirFile, DirTotals, FileSystem, first, rows
from templates.version import SoftwareVersion

COLUMNS = 80
"""Width at which a line breaks on a terminal whose width was not set."""

_BEGINS_ROW = re.compile(r"\s*-?\d+\s+[d-][-rwx]{1,9}\s|[d-][-rwx]{1,9}\s+\d+\s")

_NAMELESS = re.compile(
    r"\s*-?\d+\s+[d-][-rwx]{1,9}(?:\s+-)?\s+\d+"
    r"(?:\s+(?:[A-Z][a-z]{2}\s+\d+\s+\d{4}\s+[\d:.]+(?:\s+[+-]\d\d:\d\d)?|<no date>|-))?\s*"
)

_NAME = re.compile(r"(?![.*-]*$)[^\s%]+")
"""A name alone on its line; one with a space in it could be anything."""

_PLAIN = re.compile(r"[A-Za-z0-9_+@~=,./-]+", re.ASCII)

_HEAD = re.compile(r"Directory of (?P<path>\S+:.*?)\s*")

_NO_FILE = re.compile(
    r"No files in directory|No space information available|Attributes\s+Size\s+Name|-+"
    r"|Load for five secs: .*|Time source is .*"
)


class Listing(Struct, frozen=True, kw_only=True):
    """The parsed output of `dir`, with every line accounted for.

    Attributes:
        path: The path that the device lists, for example `bootflash:/image.bin`; may be empty.
        files: Files and folders, in order.
        unread: Lines that do not belong to a listing as far as known.
        is_ended: Whether the last line is there, so that nothing was cut off.
    """

    path: str
    files: tuple[DirFile, ...]
    unread: tuple[str, ...]
    is_ended: bool

    @property
    def doubt(self) -> str | None:
        """Return why the listing does not prove a file absent, or None if every line is accounted for."""
        if self.unread:
            return f"expected a row of 'dir', found {self.unread[0].strip()!r}"
        return None if self.is_ended else "expected the line with the free space as the last one, found none"


def read_listing(output: str) -> Listing:
    """Parse the output of `dir`.

    A name on the line after its row is joined to it. If a row is as wide as the terminal, the word on the next line may
    be the rest of its name: it is joined, and also counts as unread, since that is not certain.
    """
    joined: list[str] = []
    unread: list[str] = []
    path = ""
    lines = [line.rstrip("\r") for line in output.replace("\r\n", "\n").split("\n")]
    for number, line in enumerate(lines):
        above = lines[number - 1] if number else ""
        if not path and (head := _HEAD.fullmatch(line)) is not None:
            path = head["path"]
        elif _BEGINS_ROW.match(line):
            joined.append(line)
        elif _is_name(line) and _NAMELESS.fullmatch(above):
            joined[-1] = f"{above.rstrip()}  {line.strip()}"
        elif not _is_other(line):
            unread.append(line)
            if _is_name(line) and _BEGINS_ROW.match(above) and len(above) >= COLUMNS - 1:
                joined[-1] = f"{above}{line.strip()}"
    named = [line for line in joined if not _NAMELESS.fullmatch(line)]
    files = rows(DirFile, "\n".join(named))
    unread += [line for line in joined if _NAMELESS.fullmatch(line)]
    if len(files) != len(named):
        unread += [line for line in named if len(rows(DirFile, line)) != 1]
    totals = first(DirTotals, output)
    if totals is not None and sum(row.size_bytes for row in files) > totals.total_bytes:
        unread.append(next(row.name for row in sorted(files, key=lambda row: -row.size_bytes)))
    is_ended = _is_last(output)
    return Listing(path=path, files=files, unread=tuple(unread), is_ended=is_ended)


def _is_last(output: str) -> bool:
    """Return whether only log lines follow the line with the free space; without it, rows may be cut off."""
    lines = [line for line in output.splitlines() if line.strip() and not is_syslog(line)]
    return bool(lines) and (first(DirTotals, lines[-1]) is not None or "No space information available" in lines[-1])


def _is_name(line: str) -> bool:
    return _NAME.fullmatch(line.rstrip()) is not None


def _is_other(line: str) -> bool:
    """Return whether a line belongs to a listing and names no file."""
    stripped = line.strip()
    return bool(is_syslog(line) or _NO_FILE.fullmatch(stripped) or first(DirTotals, line) or first(DirError, line))


def file_system_of_image(version: SoftwareVersion, names: FileSystems) -> str | None:
    """Return the file system of the running image, with its colon; None for a device booted over the network."""
    name = version.image_file_system
    return f"{name}:" if name is not None and names.may_hold_image(name) else None


def default_file_system(listing: str, names: FileSystems) -> str | None:
    """Return the default of `show file systems`, with its colon, or None if it takes no files."""
    for row in rows(FileSystem, listing):
        name = row.names[0]
        if row.default and row.flags == "rw" and names.may_hold_image(name.rstrip(":")):
            return name
    return None


def target_file_system(session: DeviceSession, version: SoftwareVersion, show: Callable[[], str], step: str) -> str:
    """Return the file system for images, with its colon: that of the running image, else the default one.

    `show` returns the output of `show file systems`; it is called only for a device booted over the network.

    Raises:
        OutputNotUnderstood: There is none.
    """
    names = session.platform.file_systems
    found = file_system_of_image(version, names) or default_file_system(show(), names)
    if found is None:
        raise OutputNotUnderstood(
            f"expected a default (*) in '{session.platform.commands.file_systems}' that takes files, found none",
            host=session.name,
            step=step,
            hint="A device without flash (IOL) cannot take an image",
        )
    return found


def free_bytes(listing: str) -> int | None:
    """Return the free space in the output of `dir`, or None."""
    totals = first(DirTotals, listing)
    return totals.free_bytes if totals is not None else None


def file_named(listing: str, name: str) -> DirFile | None:
    """Return a file or folder in the output of `dir`, or None; a name that differs only in case counts.

    Raises:
        ValueError: It is not among the rows, and a line is unread that may be its row.
    """
    found = read_listing(listing)
    alike = [row for row in found.files if row.name.casefold() == name.casefold()]
    if not alike and found.unread:
        raise ValueError(found.doubt)
    return next((row for row in alike if row.name == name), alike[0] if alike else None)


def is_plain(name: str) -> bool:
    """Return whether a name means one file in a command: no wild card (`*`, `?`, `[a]`), space or pipe."""
    return _PLAIN.fullmatch(name) is not None


SPACE_MARGIN = 1.02
"""A file takes whole blocks, and the file system keeps records of it: 2 % on top of its size."""


class MemberSpace(Struct, frozen=True, kw_only=True):
    """Free space on another member of the stack."""

    file_system: str
    free_bytes: int


class FlashSpace(Struct, frozen=True, kw_only=True):
    """The space that a device has for an image, and what it is needed for.

    Attributes:
        file_system: Where the image goes, with its colon.
        free_bytes: Free space there, or None if the device does not show it.
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
        """Return notes on the space for the operator although the copy itself fits."""
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
            "the copy lands on the active member only, 'install add' will not find space there"
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
    """Return the space that `times` copies of an image need."""
    return int(times * size_bytes * SPACE_MARGIN) + 1


READY_STATE = "ready"
"""State of a member that takes part in `show switch`, in lower case."""

HOT = "STANDBY HOT"
"""State in `show redundancy states` of a supervisor that could take over."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a member keeps an image.

    Attributes:
        place: The member's number, or `standby`.
        file_system: Its file system with the colon; empty if the device lists none for it.
        state: The member's state as printed, such as `Ready` or `STANDBY HOT`; may be empty.
    """

    place: str
    file_system: str
    state: str

    @property
    def takes_part(self) -> bool:
        """Return whether the device shows the member as ready."""
        return self.state.casefold() == READY_STATE or HOT in self.state.upper()

    def __str__(self) -> str:
        """Return `member 2` or `the standby`."""
        return "the standby" if self.place == STANDBY else f"member {self.place}"


def other_places(state: SoftwareState, file_systems: str, active: str) -> tuple[Place, ...]:
    """Return where the other members keep an image; empty for a device without members."""
    known = {name for row in rows(FileSystem, file_systems) for name in row.names}
    if state.is_stack:
        states = {unit.number: unit.state for unit in state.units}
        numbers = tuple(states) or tuple(member.number for member in state.version.members)
        own = next((unit.number for unit in state.units if unit.active), None)
        return tuple(
            Place(
                place=str(number),
                file_system=_listed((f"flash-{number}:", f"flash{number}:"), known),
                state=states.get(number, ""),
            )
            for number in numbers
            if number != own
        )
    unknown = state.redundancy is None and state.answers[Topic.REDUNDANCY].outcome is not Outcome.NOT_THERE
    if not state.has_standby and not (unknown and f"stby-{active}" in known):
        return ()
    peer = state.redundancy.peer if state.redundancy is not None else ""
    return (Place(place=STANDBY, file_system=_listed((f"stby-{active}",), known), state=peer),)


def count_others(version: SoftwareVersion, file_systems: Callable[[], str], active: str) -> int:
    """Return how many other switches or supervisors a device has, as far as a check can see.

    `show file systems` is read only if `show version` has no table of members.
    """
    if len(version.members) > 1:
        return len(version.members) - 1
    listed = {name for row in rows(FileSystem, file_systems()) for name in row.names}
    return int(f"stby-{active}" in listed)


def may_have_members(file_systems: str, active: str, names: FileSystems) -> bool:
    """Return whether a device lists file systems that may be other members'."""
    listed = [name for row in rows(FileSystem, file_systems) for name in row.names]
    return any(name == f"stby-{active}" or names.member.fullmatch(name) for name in listed)


def _listed(names: Iterable[str], known: set[str]) -> str:
    return next((name for name in names if name in known), "")

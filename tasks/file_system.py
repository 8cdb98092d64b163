"""Which file system an image belongs on, and which files are there. Pure.

Facts
-----
* The running image's prefix is the right one (`flash0`, `bootflash`, `flash`, `harddisk`); a device that was booted
  over the network has only the row with `*` in `show file systems`.
* `flash:` asked, `bootflash:` answered: one is an alias of the other on most platforms; other prefixes are other
  devices.
* A FAT file system takes `IMAGE.BIN` and `image.bin` for one file.
* At 80 columns a 3750-X prints a name that is too long for its row on the line after it (ChartinoLabs/Muninn 1030 and
  1031); whether that follows `terminal width` is not known. A line that breaks inside a name is assumed, too.
* The first line names the path as the device understands it, the last one has the free space.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from flashferry.devices.errors import OutputNotUnderstood
from flashferry.devices.platforms.platform import FileSystems
from flashferry.devices.prompts import is_syslog
from flashferry.devices.session import DeviceSession
from templates.rows import DirError, DirFile, DirTotals, FileSystem, first, rows
from templates.version import SoftwareVersion

COLUMNS = 80
"""Where a line breaks on a terminal whose width was not set."""

_BEGINS_ROW = re.compile(r"\s*-?\d+\s+[d-][-rwx]{1,9}\s|[d-][-rwx]{1,9}\s+\d+\s")
_NAMELESS = re.compile(
    r"\s*-?\d+\s+[d-][-rwx]{1,9}(?:\s+-)?\s+\d+"
    r"(?:\s+(?:[A-Z][a-z]{2}\s+\d+\s+\d{4}\s+[\d:.]+(?:\s+[+-]\d\d:\d\d)?|<no date>|-))?\s*"
)
_NAME = re.compile(r"(?![.*-]*$)[^\s%]+")
"""A name that stands alone on its line; one with a blank in it could be anything."""

_PLAIN = re.compile(r"[A-Za-z0-9_+@~=,./-]+", re.ASCII)
_HEAD = re.compile(r"Directory of (?P<path>\S+:.*?)\s*")
_NO_FILE = re.compile(
    r"No files in directory|No space information available|Attributes\s+Size\s+Name|-+"
    r"|Load for five secs: .*|Time source is .*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The output of `dir`, every line accounted for.

    Attributes:
        path: The path that the device lists, for example `bootflash:/image.bin`; may be empty.
        files: Files and folders, in order.
        unread: Lines that are neither a row nor anything else that belongs to a listing.
        is_ended: Whether the last line is there, so that nothing was cut off.
    """

    path: str
    files: tuple[DirFile, ...]
    unread: tuple[str, ...]
    is_ended: bool

    @property
    def doubt(self) -> str | None:
        """Return why it does not prove that a file is absent, or None where every line is accounted for."""
        if self.unread:
            return f"expected a row of 'dir', found {self.unread[0].strip()!r}"
        return None if self.is_ended else "expected the line with the free space as the last one, found none"


def read_listing(output: str) -> Listing:
    """Read an output of `dir`.

    A name on the line after its row is joined to it. Where a row is as wide as the terminal, the word on the next line
    may
    be the rest of its name: it is read so, and also counts as unread, for that is not certain.
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
    """Return whether only log lines follow the line with the free space: rows after it were cut."""
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
    """Return the current default of `show file systems`, with its colon, or None where it takes no files."""
    for row in rows(FileSystem, listing):
        name = row.names[0]
        if row.default and row.flags == "rw" and names.may_hold_image(name.rstrip(":")):
            return name
    return None


def target_file_system(session: DeviceSession, version: SoftwareVersion, show: Callable[[], str], step: str) -> str:
    """Return where an image belongs: the file system of the running image, else the default one, with its colon.

    `show` returns the output of `show file systems`; it is asked only of a device that was booted over the network.

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
    """Return the free space in an output of `dir`, or None."""
    totals = first(DirTotals, listing)
    return totals.free_bytes if totals is not None else None


def file_named(listing: str, name: str) -> DirFile | None:
    """Return a file or folder of `dir`, or None; a name that differs only in case counts.

    Raises:
        ValueError: It is not among the rows, and a line is not accounted for, which may be its own.
    """
    found = read_listing(listing)
    alike = [row for row in found.files if row.name.casefold() == name.casefold()]
    if not alike and found.unread:
        raise ValueError(found.doubt)
    return next((row for row in alike if row.name == name), alike[0] if alike else None)


def is_plain(name: str) -> bool:
    """Return whether a name means one file in a command: no wild card (`*`, `?`, `[a]`), blank or pipe."""
    return _PLAIN.fullmatch(name) is not None

"""Step `check`: may this device be staged, and does it have the image already? Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from nornir.core.task import Result, Task

from tasks.connection import session_of
from tasks.errors import DeviceRefused, OutputNotUnderstood
from tasks.session import DeviceSession, Facts
from tasks.snapshot import read_running_lines, read_startup_lines
from tasks.tuning import TcpLines
from tasks.verify import digest_of
from templates.rows import DirError, DirFile, DirTotals, FileSystem, first, rows
from templates.version import SoftwareVersion, parse_version

STEP = "check"
SPACE_MARGIN = 1.02
"""A file takes whole blocks and the file system keeps records of it: 2 % on top of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The image that a device is to have.

    Attributes:
        name: File name on the device.
        size_bytes: Its size.
        md5: Its MD5, 32 hexadecimal digits.
    """

    name: str
    size_bytes: int
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a device is and has.

    Attributes:
        facts: NAPALM's facts.
        version: What `show version` tells.
        file_system: Where an image belongs, for example `bootflash:`.
        free_bytes: Room on it, or None where the device does not say.
        running: The `ip tcp` lines of the running configuration.
        startup: Those of the startup configuration.
        rtt_s: Least round-trip time of the SSH connection, or None.
        server_address: Our own address towards the device.
        already_there: Whether the wanted image is on the device, proven by size and hash.
        refusal: Why the device must not be staged, or None.
    """

    facts: Facts
    version: SoftwareVersion
    file_system: str
    free_bytes: int | None
    running: TcpLines
    startup: TcpLines
    rtt_s: float | None
    server_address: str
    already_there: bool
    refusal: str | None


def check(task: Task, wanted: Wanted | None = None) -> Result:
    """Nornir task: return a CheckReport. See `check_device`."""
    return Result(host=task.host, result=check_device(session_of(task), wanted))


def check_device(session: DeviceSession, wanted: Wanted | None) -> CheckReport:
    """Look at a device without changing anything.

    Args:
        session: An open session.
        wanted: The image that it is to have, or None for a look without one.

    Raises:
        DeviceRefused: The session is not privileged, or a command is not authorised.
        OutputNotUnderstood: The device answered something we have no reading for.
        DeviceUnreachable: The session was lost.
    """
    if not session.privileged:
        raise DeviceRefused(
            "expected the privileged prompt '#', found '>'",
            host=session.name,
            step=STEP,
            hint="Give a user with privilege 15 or an enable secret",
        )
    version = parse_version(session.ask("show version"))
    file_system = _file_system(session, version)
    listing = session.ask(f"dir {file_system}", limit_s=60)
    present = _file(listing, wanted)
    room = first(DirTotals, listing)
    there = wanted is not None and present is not None and _same(session, file_system, wanted, present)
    return CheckReport(
        facts=session.facts(),
        version=version,
        file_system=file_system,
        free_bytes=room.free_bytes if room else None,
        running=read_running_lines(session),
        startup=read_startup_lines(session),
        rtt_s=session.rtt_s,
        server_address=session.local_address,
        already_there=there,
        refusal=None if there else _refusal(version, file_system, wanted, present, room),
    )


def _file_system(session: DeviceSession, version: SoftwareVersion) -> str:
    """Return where the running image lives; a device that was booted over the network tells its default instead."""
    if version.image_file_system and version.image_file_system not in {"tftp", "ftp", "http", "https", "rcp", "scp"}:
        return f"{version.image_file_system}:"
    for row in rows(FileSystem, session.ask("show file systems")):
        if row.default:
            return row.prefixes.split()[0]
    raise OutputNotUnderstood(
        "expected a default (*) in 'show file systems', found none",
        host=session.name,
        step=STEP,
        hint="A device without flash (IOL) cannot take an image",
    )


def _file(listing: str, wanted: Wanted | None) -> DirFile | None:
    if (error := first(DirError, listing)) is not None and not rows(DirTotals, listing):
        raise DeviceRefused(f"'dir {error.subject}': {error.reason}", step=STEP)
    if wanted is None:
        return None
    return next((row for row in rows(DirFile, listing) if row.name == wanted.name), None)


def _same(session: DeviceSession, file_system: str, wanted: Wanted, present: DirFile) -> bool:
    """Compare size, then hash: a hash takes minutes on a slow device, a size nothing."""
    if present.size_bytes != wanted.size_bytes:
        return False
    return digest_of(session, f"{file_system}{wanted.name}", size_bytes=wanted.size_bytes) == wanted.md5


def _refusal(
    version: SoftwareVersion, file_system: str, wanted: Wanted | None, present: DirFile | None, room: DirTotals | None
) -> str | None:
    if version.controller_managed:
        return "the device is managed by an SD-WAN controller, which owns its configuration"
    if wanted is None:
        return None
    if present is not None:
        return (
            f"{file_system}{wanted.name} exists with other contents ({present.size_bytes} bytes, expected "
            f"{wanted.size_bytes}); nothing is overwritten: rename or delete it first"
        )
    if room is not None and room.free_bytes < wanted.size_bytes * SPACE_MARGIN:
        return (
            f"{file_system} has {room.free_bytes} bytes free, the image needs {wanted.size_bytes} and a margin of "
            f"{SPACE_MARGIN - 1:.0%}: delete what is not needed there"
        )
    return None

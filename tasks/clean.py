"""Step `clean`: delete old images that nothing refers to, file by file as the operator confirmed.

`tasks.partial_file` decides which files may be deleted, again right before each deletion: a colleague may have referred
to one in between, and only files that the operator saw may go. No other removing command is ever sent; `install remove
inactive` would delete what was staged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import release_of_image
from tasks.applet import of_another_run
from tasks.file_system import file_system_of_image, free_bytes, read_listing
from tasks.partial_file import delete_file, removable
from tasks.read_config import read_running, read_startup
from tasks.software_state import SoftwareState, read_software
from tasks.step import Step

STEP = "clean"
CLEAN = Step(word=STEP, label="old images are listed or removed (`flashferry clean`)")
LIST_LIMIT_S = 120.0
"""Longest silence of `dir` of a large flash."""


class OldFile(Struct, frozen=True, kw_only=True):
    """An image that may be deleted.

    Attributes:
        path: For example `flash:cat9k_iosxe.17.03.05.SPA.bin`.
        modified: Its date as printed; may be empty.
    """

    path: str
    size_bytes: int
    modified: str
    reason: str


class RemovableImages(Struct, frozen=True, kw_only=True):
    """The images of a device that may be deleted.

    Attributes:
        file_system: File system of the running image, with its colon; empty if unknown.
        free_bytes: Free space there, or None.
        files: The removable files, the largest first.
        reason: Why they are unknown; empty if they are known.
        note: What was not checked; empty if all was.
    """

    serial_number: str
    file_system: str
    free_bytes: int | None
    files: tuple[OldFile, ...] = ()
    reason: str = ""
    note: str = ""


def find_old_images(session: DeviceSession, *, kept: Iterable[str], only: Collection[str] = ()) -> RemovableImages:
    """Find the removable images on the file system that a device booted from. Changes nothing.

    Images in `kept` are never removable; `only` limits the result to some files.

    Raises:
        DeviceRefused: The session is not privileged, another run holds the device, or a file in `only` is there and
            must stay.
    """
    session.check_privileged(STEP)
    running, startup = read_running(session, without_syslog=True), read_startup(session)
    if (refusal := of_another_run(session.name, STEP, (*running.tcp.lines, *startup.tcp.lines))) is not None:
        raise refusal
    software, serial = read_software(session), session.facts().serial_number
    file_system = file_system_of_image(software.version, session.platform.file_systems)
    if file_system is None:
        return RemovableImages(serial_number=serial, file_system="", free_bytes=None, reason="it booted from no flash")
    listing = session.ask(session.platform.list_command(file_system), limit_s=LIST_LIMIT_S)
    names, lines = session.platform.file_systems, (running.text, startup.text)
    found = removable(software, listing, file_system=file_system, names=names, lines=lines, kept=kept)
    if not found.reason:
        _check_asked(session, listing, only, {row.name for row in found.files})
    asked = [row for row in found.files if not only or row.name in only]
    old = tuple(
        OldFile(
            path=f"{file_system}{row.name}",
            size_bytes=row.size_bytes,
            modified=" ".join(row.modified.split()),
            reason=_reason(row.name, software.version.release),
        )
        for row in asked
    )
    free, note = free_bytes(listing), _unseen(software)
    return RemovableImages(
        serial_number=serial, file_system=file_system, free_bytes=free, files=old, reason=found.reason, note=note
    )


def delete_old(session: DeviceSession, file: OldFile, *, seen: RemovableImages, kept: Iterable[str]) -> int | None:
    """Check a file again and delete it; return the free space afterwards, or None if not shown.

    Raises:
        DeviceRefused: Another device answers, the file is not as it was listed or must stay by now, or it is still
            there afterwards.
        OutputNotUnderstood: An output or a question is not known; nothing was confirmed.
        DeviceUnreachable: The session was lost; the file may be gone.
    """
    now = find_old_images(session, kept=kept)
    if now.serial_number != seen.serial_number:
        raise _stays(session, file, f"serial number {now.serial_number} answers, {seen.serial_number} was looked at")
    if now.reason:
        raise _stays(session, file, f"whether it may go is no longer known: {now.reason}")
    if not any(_is_same(one, file) for one in now.files):
        raise _stays(session, file, "it is not what was shown: gone, changed, or named by something meanwhile")
    delete_file(session, file.path)
    listing = session.ask(session.platform.list_command(now.file_system), limit_s=LIST_LIMIT_S)
    return free_bytes(listing)


def _is_same(one: OldFile, other: OldFile) -> bool:
    return (one.path, one.size_bytes, one.modified) == (other.path, other.size_bytes, other.modified)


def _check_asked(session: DeviceSession, listing: str, only: Collection[str], old: Collection[str]) -> None:
    """Refuse a file that was asked for, exists, and must stay."""
    there = {row.name for row in read_listing(listing).files}
    if staying := sorted(name for name in only if name in there and name not in old):
        raise DeviceRefused(
            f"{', '.join(staying)} must stay: no image older than what runs, or something names it",
            host=session.name,
            step=STEP,
            hint="Leave --file out, with --dry-run, to see what could go",
        )


def _reason(name: str, running: str) -> str:
    return (
        f"{release_of_image(name)} is older than {running}, which runs; no boot variable, no line of a configuration "
        "and no packages.conf names it, and no run of this journal staged it"
    )


def _unseen(software: SoftwareState) -> str:
    if software.is_stack or software.has_standby:
        return "the flash of other members, or of the standby, is not looked at"
    return ""


def _stays(session: DeviceSession, file: OldFile, reason: str) -> DeviceRefused:
    return DeviceRefused(
        f"{file.path} stays: {reason}",
        host=session.name,
        step=STEP,
        hint="Run 'flashferry clean --dry-run' to see what could go now",
    )

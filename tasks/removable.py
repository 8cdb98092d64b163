"""Which files of a full file system could go: old images that nothing names. They are named, and none is removed.

Facts
-----
* What runs, what any boot table names, now or from the next reload on, what a line of a configuration names (`boot
  system`, but also `tftp-server` or an applet's action), and what `packages.conf` names must stay; so must patches
  (`.smu.bin`), whose absence kept stack members down (CSCwe70969).
* Without a wireless sub-package (`C9800-SW-iosxe-wlc...`, `.apsp`, `.apdp`) every later `install add` ends in
  "Improper State" (CSCwd69880). Names of system images have `universalk9` or `_iosxe` in front of the release; what
  has neither stays.
* A command may name files by a pattern (an applet's `copy flash:cat9k* usb0:`): what fits one is named by it.
* A file that nothing names may be there for a purpose all the same: an image that was staged for a later night is one.
  So of all files only images older than what runs are ever named, by the release in their names.
* Where one of the tables cannot be read, a member is away, or an operation is half done, it is not known what is
  needed: then nothing is named, and the reason is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from flashferry.core.safe_quote import counted
from flashferry.devices.errors import DeviceUnreachable, OutputNotUnderstood
from flashferry.devices.platforms.platform import FileSystems, file_name
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import FileKind, read_file_name
from flashferry.images.release import release_in, release_of_image
from tasks.file_system import file_named, is_plain, read_listing
from tasks.software_state import Issu, Mode, Outcome, SoftwareState, Topic, read_software
from templates.rows import DirFile, DirTotals, first

_READY = "ready"

_SYSTEM = re.compile(r"universalk9|_iosxe(?:_npe)?\.")
"""What the name of a system image has; firmware of a part of the device has none of it, and is never named."""

_PATTERN = re.compile(r"[^\s:/\"']*[*?\[][^\s:/\"']*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """Files that could go, by all that the device shows.

    Attributes:
        files: The files, the largest first.
        reason: Why that is not known; empty where it is.
    """

    files: tuple[DirFile, ...] = ()
    reason: str = ""


def could_go(
    session: DeviceSession, listing: str, *, file_system: str, lines: Iterable[str], kept: Iterable[str]
) -> str:
    """Check what a device needs, and return which files could go, as a hint; see `removable`.

    A device that stops answering here was checked already: what was found is not lost for the want of a hint.
    """
    names = session.platform.file_systems
    try:
        software = read_software(session)
    except (DeviceUnreachable, OutputNotUnderstood) as error:
        return removable_in_words(Removable(reason=error.message), file_system)
    found = removable(software, listing, file_system=file_system, names=names, lines=lines, kept=kept)
    return removable_in_words(found, file_system)


def removable(
    software: SoftwareState,
    listing: str,
    *,
    file_system: str,
    names: FileSystems,
    lines: Iterable[str],
    kept: Iterable[str],
) -> Removable:
    """Return the images on a file system that are older than what runs and that nothing names.

    `listing` is the output of `dir` of the running image's file system. A file that one of the `lines` of a
    configuration
    names stays, and so do those in `kept`: images that are to come, or were staged.
    """
    reason = _unreadable(software, listing) or _unsettled(software) or _strange(software, listing, file_system, names)
    if reason:
        return Removable(reason=reason)
    running = release_in(software.version.release)
    if running is None:
        return Removable(reason=f"it runs a release that has no number to compare ({software.version.release})")
    said = _said(software, lines, kept)
    old = [row for row in read_listing(listing).files if _is_image(row) and not is_named(row.name, said)]
    installed = {release_in(row.version) for row in software.packages}
    releases = {row.name: release_of_image(row.name) for row in old}
    older = [row for row in old if (its := releases[row.name]) is not None and its < running and its not in installed]
    return Removable(files=tuple(sorted(older, key=lambda row: -row.size_bytes)))


def removable_in_words(found: Removable, file_system: str) -> str:
    """Return what could go, as a hint for a full file system."""
    if found.reason:
        return f"Which files could go is not known: {found.reason}"
    if not found.files:
        return "No image there is older than what runs and named by nothing: find out what else is not needed"
    named = ", ".join(f"{file_system}{row.name} ({row.size_bytes:,} bytes)" for row in found.files)
    return f"{counted(len(found.files), 'image')} older than what runs, which nothing there boots or names: {named}"


def _unreadable(software: SoftwareState, listing: str) -> str:
    """Return which table is missing or cut; empty where all are whole."""
    bad = next((one for one in software.answers.values() if one.outcome is Outcome.UNREADABLE), None)
    if bad is not None:
        return f"'{bad.command}' cannot be read"
    if first(DirTotals, listing) is None or read_listing(listing).doubt is not None:
        return "the listing of its files is not whole"
    if not software.answers[Topic.BOOT].is_read or any(one.next is None for one in software.boot):
        return "what is booted next is not shown"
    own = {"", *(str(unit.number) for unit in software.units if unit.active)}
    if software.units and own.isdisjoint(one.place for one in software.boot):
        return "what is booted next is not shown for the active member"
    needed = (Topic.INSTALL, Topic.PACKAGES) if software.mode is Mode.INSTALL else ()
    missing = next((topic for topic in needed if not software.answers[topic].is_read), None)
    return f"'{software.answers[missing].command}' was not read" if missing is not None else ""


def _unsettled(software: SoftwareState) -> str:
    """Return what is half done, or which member is away; empty where the device is at rest."""
    if software.mode is Mode.UNKNOWN:
        return "how it boots is not shown"
    if software.timer is not None and software.timer.state.casefold() != "inactive":
        return "the timer that brings the old image back is running"
    if software.versions("U", "D"):
        return "what was activated is not committed"
    if software.issu in {Issu.GOING_ON, Issu.UNKNOWN}:
        return "an upgrade in service is going on, or that is not known"
    if len(software.version.members) > max(1, len(software.units)):
        return "the members of the stack are not all shown"
    away = next((unit for unit in software.units if unit.state.casefold() != _READY), None)
    return f"member {away.number} is {away.state}" if away is not None else ""


def _strange(software: SoftwareState, listing: str, file_system: str, names: FileSystems) -> str:
    """Return why what runs is not found on the file system; empty where it is."""
    running = software.running_file
    if running is None:
        return "what it runs is not shown"
    name = file_name(running)
    if "/" in name or not names.same_file(f"{file_system}{name}", running):
        return f"what it runs, {running}, is elsewhere"
    try:
        found = file_named(listing, name)
    except ValueError as error:
        return f"the listing cannot be read: {error}"
    return "" if found is not None else f"what it runs, {running}, is not in the listing"


def _is_image(row: DirFile) -> bool:
    name = row.name.casefold()
    is_file = is_plain(row.name) and not row.permissions.startswith("d")
    is_system = name.endswith(".bin") and _SYSTEM.search(name) is not None
    return is_file and is_system and read_file_name(name).kind is FileKind.IMAGE


def _said(software: SoftwareState, lines: Iterable[str], kept: Iterable[str]) -> str:
    """Return all that names files, as one text."""
    booted = [path for boot in software.boot for path in boot.all_files]
    installed = [row.version for row in software.packages]
    named = (*booted, *lines, *software.package_files, *installed, software.running_file or "", *kept)
    return "\n".join(named)


def is_named(name: str, text: str) -> bool:
    """Return whether a file's name stands anywhere in a text, in any case, or fits a pattern in it.

    Also as a part of another name: that only keeps a file. Signs may be escaped in it, as in a regular expression, and
    a
    set of letters be excluded by `^`.
    """
    name, text = name.casefold(), text.casefold().replace("\\", "").replace("[^", "[!")
    patterns = (one for one in _PATTERN.findall(text) if any(letter.isalnum() for letter in one))
    return name in text or any(fnmatchcase(name, one) for one in patterns)

"""Files on flash: what a copy left, and which old images could be deleted from a full file system.

Removable images are only named here; `tasks.clean` deletes them.

Facts
-----

* These must stay: what runs; what any boot table names, now or from the next reload on; what a configuration line names
  (`boot system`, but also `tftp-server` or an applet's action); what `packages.conf` names; and patches (`.smu.bin`),
  whose absence kept stack members down (CSCwe70969).
* Without a wireless sub-package (`C9800-SW-iosxe-wlc...`, `.apsp`, `.apdp`) every later `install add` ends in "Improper
  State" (CSCwd69880). Names of system images have `universalk9` or `_iosxe` in front of the release; files with neither
  stay.
* A command may name files by a pattern (an applet's `copy flash:cat9k* usb0:`): a file that matches is named by it.
* A file that nothing names may still have a purpose, for example an image that was staged for a later night. So only
  images older than the running one are removable, by the release in their names.
* If one of the tables cannot be read, a member is away, or an operation is incomplete, it is unknown what is needed:
  then no file is named, and the reason is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.core.units import counted
from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import Dialogue, PromptWait, Question, WaitLimits
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, FlashBusy, OutputNotUnderstood
from flashferry.devices.platforms.platform import FileSystems, file_name, split_path
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import FileKind, read_file_name, release_in, release_of_image
from tasks.file_system import READY_STATE, file_named, is_plain, read_listing
from tasks.read_config import read_running, read_startup
from tasks.software_state import Issu, Mode, Outcome, SoftwareState, Topic, read_software
from tasks.step import Step
from templates.rows import DirError, DirFile, DirTotals, Refusal, first

_SYSTEM = re.compile(r"universalk9|_iosxe(?:_npe)?\.")
"""Part of the name of every system image. Firmware of a part of the device has none of it, and is never named."""

_PATTERN = re.compile(r"[^\s:/\"']*[*?\[][^\s:/\"']*")


class Removable(Struct, frozen=True, kw_only=True):
    """Files that could be deleted, by all that the device shows.

    Attributes:
        files: The files, the largest first.
        reason: Why they are unknown; empty if they are known.
    """

    files: tuple[DirFile, ...] = ()
    reason: str = ""


def could_go(
    session: DeviceSession, listing: str, *, file_system: str, lines: Iterable[str], kept: Iterable[str]
) -> str:
    """Return as a hint which files of a device could be deleted; see `removable`.

    If the device stops answering, the hint says so: the result of the check must not be lost for it.
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
    """Return the images on a file system that are older than the running one and that nothing names.

    `listing` is the output of `dir` of the running image's file system. A file that one of the configuration's `lines`
    names stays, and so do those in `kept`: images to come, or staged ones.
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
    """Return which files could be deleted, as a hint for a full file system."""
    if found.reason:
        return f"Which files could go is not known: {found.reason}"
    if not found.files:
        return "No image there is older than what runs and named by nothing: find out what else is not needed"
    named = ", ".join(f"{file_system}{row.name} ({row.size_bytes:,} bytes)" for row in found.files)
    return f"{counted(len(found.files), 'image')} older than what runs, which nothing there boots or names: {named}"


def _unreadable(software: SoftwareState, listing: str) -> str:
    """Return which table is missing or cut; empty if all are complete."""
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
    """Return which operation is incomplete, or which member is away; empty if there is neither."""
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
    away = next((unit for unit in software.units if unit.state.casefold() != READY_STATE), None)
    return f"member {away.number} is {away.state}" if away is not None else ""


def _strange(software: SoftwareState, listing: str, file_system: str, names: FileSystems) -> str:
    """Return why the running image is not found on the file system; empty if it is."""
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
    """Return all texts that may name files, as one text."""
    booted = [path for boot in software.boot for path in boot.all_files]
    installed = [row.version for row in software.packages]
    named = (*booted, *lines, *software.package_files, *installed, software.running_file or "", *kept)
    return "\n".join(named)


def is_named(name: str, text: str) -> bool:
    """Return whether a file's name occurs anywhere in a text, in any case, or matches a pattern in it.

    A match within another name counts too: that only keeps a file. Characters may be escaped as in a regular
    expression, and a set of letters be negated by `^`.
    """
    name, text = name.casefold(), text.casefold().replace("\\", "").replace("[^", "[!")
    patterns = (one for one in _PATTERN.findall(text) if any(letter.isalnum() for letter in one))
    return name in text or any(fnmatchcase(name, one) for one in patterns)


STEP = "remove"

REMOVE = Step(word=STEP, label="what a broken copy left on flash is removed")

LIMIT_S = 120.0
"""Longest duration of a deletion: half a gigabyte on class-C flash takes some ten seconds."""

_BUSY = re.compile(r"\bbusy\b|\bin (exclusive )?use\b", re.IGNORECASE)


class FlashFile(Struct, frozen=True, kw_only=True):
    """The file at a copy's target.

    Attributes:
        path: The path that was asked for, for example `flash:image.bin`.
        size_bytes: Its size; None if there is no file.
        modified: Its time stamp, as printed; may be empty.
        shown_as: The path as the device prints it, for example `bootflash:/image.bin`; may be empty.
    """

    path: str
    size_bytes: int | None
    modified: str = ""
    shown_as: str = ""


def remove(task: Task, path: str, no_larger_than_bytes: int) -> Result:
    """Nornir task: remove a file of ours; see `remove_file`."""
    remove_file(session_of(task), path, no_larger_than_bytes=no_larger_than_bytes)
    return Result(host=task.host, result=None, changed=True)


def file_at(session: DeviceSession, path: str) -> FlashFile:
    """Return the file at a path, for example `bootflash:image.bin`; `null:` holds none.

    Raises:
        DeviceRefused: The user may not list it.
        FlashBusy: The device has it open.
        OutputNotUnderstood: The output shows neither the file nor its absence; nothing is guessed.
    """
    platform = session.platform
    if path == platform.copying.no_file:
        return FlashFile(path=path, size_bytes=None)
    command = platform.list_command(path)
    output = session.ask(command, limit_s=60)
    name, listing = file_name(path), read_listing(output)
    shown_as = f"{listing.path}{name}" if listing.path.endswith((":", ":/")) else listing.path
    is_ours = not shown_as or _is_answer_about(path, shown_as, platform.file_systems)
    for row in listing.files if is_ours else ():
        if file_name(row.name) == name and not row.permissions.startswith("d"):
            return FlashFile(path=path, size_bytes=row.size_bytes, modified=row.modified, shown_as=shown_as)
    error = first(DirError, output)
    is_absent = error is not None and "no such file" in error.reason.lower() and not listing.files
    if is_absent and error is not None and _is_answer_about(path, error.subject, platform.file_systems):
        return FlashFile(path=path, size_bytes=None)
    kind = FlashBusy if error is not None and _BUSY.search(error.reason) else OutputNotUnderstood
    raise kind(f"'{command}': expected the file or its absence, found {output[-160:].strip()!r}", host=session.name)


def _is_answer_about(path: str, answered: str, names: FileSystems) -> bool:
    """Return whether the output is about the file on the file system asked for; some devices omit the file system."""
    return names.same_file(path, answered) if ":" in answered else file_name(path) == file_name(answered)


def remove_file(session: DeviceSession, path: str, *, no_larger_than_bytes: int) -> None:
    """Remove a file that a copy of ours left, and check that it is gone.

    A file larger than what our server delivered is not ours.

    Raises:
        DeviceRefused: The file is larger than ours, a configuration names it, or it is still there afterwards.
        OutputNotUnderstood: The device asked about another file; nothing was confirmed.
    """
    present = file_at(session, path)
    if present.size_bytes is None:
        return
    if present.size_bytes > no_larger_than_bytes:
        raise DeviceRefused(
            f"{path} has {present.size_bytes} bytes, more than the {no_larger_than_bytes} that it got from us: it is "
            "not ours and stays",
            host=session.name,
            step=STEP,
            hint="Find out whose it is; delete it by hand if it is not needed",
        )
    if is_named(file_name(path), f"{read_running(session).text}\n{read_startup(session).text}"):
        raise DeviceRefused(
            f"{path} stays: a line of the device's configuration names it",
            host=session.name,
            step=STEP,
            hint="Look at 'show running-config' and 'show startup-config' for its name; delete it by hand if it may go",
        )
    _delete(session, present)


def delete_file(session: DeviceSession, path: str) -> None:
    """Delete a file, confirming only questions about that file, and check that it is gone.

    With `file prompt quiet` the device asks nothing: then only the path decides what is deleted.

    Raises:
        DeviceRefused: Its name may stand for several files, or it is still there afterwards.
        OutputNotUnderstood: The device asked about another file; nothing was confirmed.
    """
    present = file_at(session, path)
    if present.size_bytes is not None:
        _delete(session, present)


def _delete(session: DeviceSession, present: FlashFile) -> None:
    path = present.path
    if not is_plain(file_name(path)):
        raise DeviceRefused(
            f"{path} stays: its name has characters that a command may take for a pattern, which fits other files",
            host=session.name,
            step=STEP,
            hint="Delete it by hand",
        )
    command = session.platform.delete_command(path)
    dialogue = DeleteDialogue(
        path=path,
        shown_as=present.shown_as,
        prompt_pattern=session.prompt_pattern,
        questions=session.platform.deleting,
    )
    hint = "Delete it by hand and see what the device asks"
    wait = PromptWait(dialogue, command, WaitLimits(total_s=LIMIT_S), host=session.name, step=STEP, hint=hint)
    session.converse(command, dialogue, wait.check)
    if file_at(session, path).size_bytes is not None:
        raise DeviceRefused(
            f"{path} is still there after 'delete': {dialogue.words}",
            host=session.name,
            step=STEP,
            hint="Delete it by hand before staging again",
        )


class DeleteDialogue(Dialogue):
    """Answers the two questions of `delete` about one file, and no other question.

    Args:
        shown_as: The path as the device prints it, which means the same file; empty if unknown.
        questions: The command's questions; the first group of each is the file, that of the last one its whole path.
    """

    def __init__(self, *, path: str, shown_as: str = "", prompt_pattern: str, questions: tuple[Question, ...]) -> None:
        super().__init__(prompt_pattern=prompt_pattern, questions=questions)
        self._path = path
        self._paths = {_whole(path), _whole(shown_as or path)}
        self._confirmation = questions[-1]

    @property
    def objection(self) -> str | None:
        """Return why the question is not about our file, or None."""
        asked = self._asked()
        if asked is None:
            return None
        shown = str(asked.pattern.findall(self.text)[-1])
        # The first question may omit the file system, which the command has; the last one must name the whole path.
        if asked is not self._confirmation and ":" not in shown:
            shown = f"{split_path(self._path)[0]}:{shown}"
        return None if _whole(shown) in self._paths else f"expected a question about {self._path}"

    @property
    def is_refused_at_once(self) -> bool:
        """Return whether the question is about another file: it is never confirmed."""
        return self.objection is not None

    @property
    def words(self) -> str:
        """Return the device's output, for an error."""
        refusal = first(Refusal, self.text)
        return refusal.text if refusal else self.text[-160:].strip()


def _whole(path: str) -> tuple[str, str]:
    """Return file system and name of a path, so that equal pairs mean the same file."""
    system, name = split_path(path)
    return system.casefold(), name


NOT_KNOWN = "not known: "
"""Prefix of an answer that is unknown, before the reason; never taken for the absence of a file."""


def describe_partial_file(session: DeviceSession, target: str) -> str | None:
    """Return path and size of the file at a copy's target, None without a file, or why that is unknown."""
    try:
        return in_words(file_at(session, target))
    except FlashferryError as error:
        return f"{NOT_KNOWN}{error.message}"


def advice(named: str, *, image_bytes: int, is_other: bool, run_id: str) -> str:
    """Return what to do about the file that a copy left, in agreement with what the next run does.

    The next check hashes a file of the image's size, and copies nothing if it is the image; it refuses any other file,
    unless it may remove what this run left. With `is_other` the device proved that the file is not the image.
    """
    resume = f"'flashferry stage --resume {run_id}'"
    if named.startswith(NOT_KNOWN):
        return f"Look at the device's flash; {resume} copies nothing over a file that is there"
    if is_other:
        return "It is not the image: delete it, and do not boot from it"
    if named.endswith(_size(image_bytes)):
        return (
            f"It has the image's size and is not proven yet: leave it there; {resume} has it hashed, and copies "
            "nothing if it is the image"
        )
    return f"It is cut off: {resume} with --remove-partial removes it and goes on; else delete it before staging again"


def _size(size_bytes: int) -> str:
    return f", {size_bytes:,} bytes"


def in_words(file: FlashFile) -> str | None:
    """Return path and size of a file; None if there is none."""
    return None if file.size_bytes is None else f"{file.path}{_size(file.size_bytes)}"

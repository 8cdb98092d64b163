"""The file at a copy's target: read it, name what a broken copy left, and remove that where the operator allowed it.

Facts
-----
* `dir flash:x` of an absent file says `%Error opening bootflash:/x (No such file or directory)`.
* While something has the file open, some say `(Device or resource busy)` instead: then it may be there or not.
* What `delete` asks is the platform's. Its last question names the whole path; where `flash:` is another name of
  `bootflash:`, it may have either, and `dir` of the file shows which. A path on any other file system, such as another
  member's, is another file.
* With `file prompt quiet` it asks nothing, and a wild card in the name takes every file that fits.
* What a line of the configuration names (`boot system`, `tftp-server`, an applet, kron) is there for a purpose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import Dialogue, PromptWait, Question, WaitLimits
from flashferry.devices.errors import DeviceRefused, FlashBusy, OutputNotUnderstood
from flashferry.devices.platforms.platform import FileSystems, file_name, split_path
from flashferry.devices.session import DeviceSession
from tasks.file_system import is_plain, read_listing
from tasks.read_config import read_running, read_startup
from tasks.removable import is_named
from tasks.step import Step
from templates.rows import DirError, Refusal, first

STEP = "remove"
REMOVE = Step(word=STEP, label="what a broken copy left on flash is removed")
LIMIT_S = 120.0
"""Deleting half a gigabyte from class-C flash takes some ten seconds; twice a minute ends our patience."""

_BUSY = re.compile(r"\bbusy\b|\bin (exclusive )?use\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashFile:
    """What is at a copy's target.

    Attributes:
        path: The path that was asked for, for example `flash:image.bin`.
        size_bytes: Its size; None where there is no file.
        modified: When it was changed last, as printed; may be empty.
        shown_as: The path as the device itself has it, for example `bootflash:/image.bin`; may be empty.
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
        OutputNotUnderstood: The device answered neither with a file nor with its absence: nothing is guessed.
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
    """Return whether a device answers about a file, on the file system that was asked; some omit that."""
    return names.same_file(path, answered) if ":" in answered else file_name(path) == file_name(answered)


def remove_file(session: DeviceSession, path: str, *, no_larger_than_bytes: int) -> None:
    """Remove a file that a copy of ours left, and check that it is gone.

    A file larger than what our server gave the device is none of ours.

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
    """Delete a file that may go, answering the questions about that file alone, and check that it is gone.

    Where `file prompt quiet` is set nothing is asked: then the path alone says what goes.

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
            f"{path} stays: its name holds what a command may take for a pattern, which fits other files",
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
        path: The file.
        shown_as: The path as the device itself has it, which stands for the same file; empty where that is not known.
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        questions: What the command asks; the first group of each names the file, that of the last one its whole path.
    """

    def __init__(self, *, path: str, shown_as: str = "", prompt_pattern: str, questions: tuple[Question, ...]) -> None:
        super().__init__(prompt_pattern=prompt_pattern, questions=questions)
        self._path = path
        self._paths = {_whole(path), _whole(shown_as or path)}
        self._confirmation = questions[-1]

    @property
    def objection(self) -> str | None:
        """Return why the question is not one about our file, or None."""
        asked = self._asked()
        if asked is None:
            return None
        shown = str(asked.pattern.findall(self.text)[-1])
        # The first question may leave out the file system, which the command has; the last one must name all of it.
        if asked is not self._confirmation and ":" not in shown:
            shown = f"{split_path(self._path)[0]}:{shown}"
        return None if _whole(shown) in self._paths else f"expected a question about {self._path}"

    @property
    def is_refused_at_once(self) -> bool:
        """Return whether the question is about another file: it is never confirmed."""
        return self.objection is not None

    @property
    def words(self) -> str:
        """Return what the device said to it, for an error."""
        refusal = first(Refusal, self.text)
        return refusal.text if refusal else self.text[-160:].strip()


def _whole(path: str) -> tuple[str, str]:
    """Return file system and name of a path, so that two paths that are equal stand for one file."""
    system, name = split_path(path)
    return system.casefold(), name


CANNOT_TELL = "cannot tell: "
"""How the answer begins where there is none, with the reason after it; never taken for the absence of a file."""


def describe_partial_file(session: DeviceSession, target: str) -> str | None:
    """Return path and size of the file at a copy's target, None without a file, or why that is not known."""
    try:
        return in_words(file_at(session, target))
    except FlashferryError as error:
        return f"{CANNOT_TELL}{error.message}"


def advice(named: str, *, image_bytes: int, is_other: bool, run_id: str) -> str:
    """Return what to do about what a copy left: a sentence that agrees with what the next run does.

    The next check hashes a file of the image's size, and copies nothing where it is the image; it refuses any other
    file, unless it may remove what this run left. With `is_other` the device proved that the file is not the image.
    """
    resume = f"'flashferry stage --resume {run_id}'"
    if named.startswith(CANNOT_TELL):
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
    """Return path and size of a file; None where there is none."""
    return None if file.size_bytes is None else f"{file.path}{_size(file.size_bytes)}"

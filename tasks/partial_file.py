"""The file at a copy's target: look at it, name what a broken copy left, and remove that where the operator allowed it.

Facts
-----
* `dir flash:x` of an absent file says `%Error opening bootflash:/x (No such file or directory)`.
* While something has the file open, some say `(Device or resource busy)` instead: then it may be there or not.
* What `delete` asks is the platform's. `flash:` may read `bootflash:` in its second question: the file's name is
  compared, not the prefix.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import Dialogue, Question
from flashferry.devices.errors import DeviceRefused, FlashBusy, OutputNotUnderstood
from flashferry.devices.session import DeviceSession
from tasks.step import Step
from templates.rows import DirError, DirFile, Refusal, first, rows

STEP = "remove"
REMOVE = Step(word=STEP)
LIMIT_S = 120.0
"""Deleting half a gigabyte from class-C flash takes some ten seconds; twice a minute ends our patience."""

_BUSY = re.compile(r"\bbusy\b|\bin (exclusive )?use\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashFile:
    """What is at a copy's target; `size_bytes` is None where there is no file, `modified` is as printed."""

    path: str
    size_bytes: int | None
    modified: str = ""


def look(task: Task, path: str) -> Result:
    """Nornir task: return a FlashFile. See `file_at`."""
    return Result(host=task.host, result=file_at(session_of(task), path))


def remove(task: Task, path: str, no_larger_than_bytes: int) -> Result:
    """Nornir task: remove a file of ours; see `remove_file`."""
    remove_file(session_of(task), path, no_larger_than_bytes=no_larger_than_bytes)
    return Result(host=task.host, result=None, changed=True)


def file_at(session: DeviceSession, path: str) -> FlashFile:
    """Return size of the file at a path, for example `bootflash:image.bin`; `null:` holds none.

    Raises:
        DeviceRefused: The user may not list it.
        FlashBusy: The device has it open and tells nothing of it yet.
        OutputNotUnderstood: The device answered something else than a file or its absence: nothing is guessed.
        DeviceUnreachable: The session was lost.
    """
    platform = session.platform
    if path == platform.copying.no_file:
        return FlashFile(path=path, size_bytes=None)
    command = platform.list_command(path)
    output = session.ask(command, limit_s=60)
    name = _name(path)
    for row in rows(DirFile, output):
        if _name(row.name) == name and not row.permissions.startswith("d"):
            return FlashFile(path=path, size_bytes=row.size_bytes, modified=row.modified)
    error = first(DirError, output)
    if error is not None and "no such file" in error.reason.lower():
        return FlashFile(path=path, size_bytes=None)
    kind = FlashBusy if error is not None and _BUSY.search(error.reason) else OutputNotUnderstood
    raise kind(f"'{command}': expected the file or its absence, found {output[-160:].strip()!r}", host=session.name)


def remove_file(session: DeviceSession, path: str, *, no_larger_than_bytes: int) -> None:
    """Remove a file that a copy of ours left, and look that it is gone.

    Args:
        session: An open session.
        path: Exactly the file that our copy began.
        no_larger_than_bytes: As many bytes as our server gave the device; a larger file is none of ours.

    Raises:
        DeviceRefused: The file is larger than ours, or is still there afterwards.
        OutputNotUnderstood: The device asked about another file; nothing was confirmed.
        DeviceUnreachable: The session was lost.
    """
    present = file_at(session, path).size_bytes
    if present is None:
        return
    if present > no_larger_than_bytes:
        raise DeviceRefused(
            f"{path} has {present} bytes, more than the {no_larger_than_bytes} that it got from us: it is not ours and "
            "stays",
            host=session.name,
            step=STEP,
            hint="Find out whose it is; delete it by hand if nobody needs it",
        )
    delete_file(session, path)


def delete_file(session: DeviceSession, path: str) -> None:
    """Delete a file, answering the questions about that file alone, and look that it is gone.

    Args:
        session: An open session.
        path: The file; whoever calls has made sure that it may go.

    Raises:
        DeviceRefused: It is still there afterwards.
        OutputNotUnderstood: The device asked about another file; nothing was confirmed.
        DeviceUnreachable: The session was lost.
    """
    command = session.platform.delete_command(path)
    dialogue = DeleteDialogue(
        host=session.name,
        path=path,
        command=command,
        prompt_pattern=session.prompt_pattern,
        questions=session.platform.deleting,
    )
    session.converse(command, dialogue, dialogue.check)
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
        host: Inventory name, for errors.
        path: The file.
        command: The command that deletes it, for errors.
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        questions: What the command asks; the first group of each names the file.
    """

    def __init__(
        self, *, host: str, path: str, command: str, prompt_pattern: str, questions: tuple[Question, ...]
    ) -> None:
        super().__init__(prompt_pattern=prompt_pattern, questions=questions)
        self._host = host
        self._command = command
        self._path = path
        self._deadline = time.monotonic() + LIMIT_S

    @property
    def objection(self) -> str | None:
        """Return why the question is not one about our file, or None."""
        asked = self._asked()
        if asked is None or _name(asked.pattern.findall(self.text)[-1]) == _name(self._path):
            return None
        return f"expected a question about {self._path}"

    def check(self) -> None:
        """End the wait at a question that is not ours to answer, and at the limit.

        Raises:
            OutputNotUnderstood: The device asks something else, or the prompt did not come back in time.
        """
        reason = self.objection and self.stuck_at
        if reason is None and time.monotonic() > self._deadline:
            reason = self.stuck_at or f"no prompt within {LIMIT_S:.0f} s"
        if reason is not None:
            raise OutputNotUnderstood(
                f"'{self._command}': {reason}",
                host=self._host,
                step=STEP,
                hint="Delete it by hand and look at what the device asks",
            )

    @property
    def words(self) -> str:
        """Return what the device said to it, for an error."""
        refusal = first(Refusal, self.text)
        return refusal.text if refusal else self.text[-160:].strip()


def _name(path: str) -> str:
    """Return a path without file system and leading slash."""
    return path.rpartition(":")[2].lstrip("/")


CANNOT_TELL = "cannot tell: "
"""How the answer begins where there is none, with the reason behind it; never taken for the absence of a file."""


def describe_partial_file(session: DeviceSession, target: str) -> str | None:
    """Return path and size of the file at a copy's target, None where there is none, or why nobody can tell.

    Args:
        session: An open session.
        target: For example `bootflash:image.bin`; `null:` leaves nothing.
    """
    try:
        return in_words(file_at(session, target))
    except FlashferryError as error:
        return f"{CANNOT_TELL}{error.message}"


def advice(named: str, *, image_bytes: int, is_other: bool, run_id: str) -> str:
    """Return what to do about what a copy left: a sentence that agrees with what the next run does.

    The next check hashes a file of the image's size, and copies nothing where it is the image; it refuses any other
    file, unless it may remove what this run left.

    Args:
        named: The file, as `describe_partial_file` names it.
        image_bytes: Size of the image.
        is_other: Whether the device proved that the file is not the image.
        run_id: The run that left it.
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

"""Removing labs of ours that a dead night left: what each night does first, and `flashferry nightly reap` does alone.

A night that is killed with SIGKILL removes nothing; so the next one does, and a timer every hour. What may go, and what
is a stranger's or still runs, `flashferry.nightly.lab_notes` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from socket import gethostname

from flashferry.core.errors import FlashferryError
from flashferry.core.value_description import counted
from flashferry.nightly.backend import LabBackend, Leftover, RunningLab, UploadedImage
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.lab_notes import LabNotes, is_night_alive, is_night_locked, read_notes, why_removable
from flashferry.nightly.night import Fault, NightFault, StepName

REAP_EACH_S = 300.0

"""Removing one lab may take so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """A lab that was looked at.

    Attributes:
        lab: The lab.
        why: Why it was to be removed, or why it was left alone.
        is_removed: Whether it is gone.
        is_ours: Whether it is a lab of a night, which still runs where it was not to be removed.
        failure: Why it could not be removed; else empty.
    """

    lab: Leftover
    why: str
    is_removed: bool = False
    is_ours: bool = True
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapRules:
    """By what is decided which labs go.

    Attributes:
        is_alive: Returns whether a night of this host still runs, as far as is known.
        is_locked: Returns whether it surely runs, whatever the clock says of its lab.
        host: This host's name, as the notes of labs have it.
    """

    is_alive: Callable[[LabNotes], bool]
    is_locked: Callable[[LabNotes], bool] = lambda _: False
    host: str = field(default_factory=gethostname)

    @classmethod
    def of(cls, folder: Path) -> ReapRules:
        """Return the rules of this host, whose nights keep their locks in a folder."""
        return cls(is_alive=partial(is_night_alive, folder), is_locked=partial(is_night_locked, folder))

    def why_removable(self, lab: Leftover, *, now: datetime) -> str | None:
        """Return why a lab may be removed, or None where it may not."""
        return why_removable(lab, now=now, host=self.host, is_alive=self.is_alive, is_locked=self.is_locked)


NOT_OURS = "its notes are not a night's"

"""Why a lab with our prefix stays, for good."""

STILL_RUNS = "its night still runs, or its time is not over"

"""Why a lab that has a night's notes stays."""


def reap(backend: LabBackend, rules: ReapRules, *, deadline: Deadline) -> tuple[Reaped, ...]:
    """Remove the labs that dead nights left, each with its own five minutes at most; return what became of each.

    Raises:
        NightFault: The labs could not be listed; a lab that could not be removed is in the result.
    """
    now = deadline.clock.now()
    found = []
    for lab in backend.leftovers():
        why = rules.why_removable(lab, now=now)
        if why is None:
            is_ours = read_notes(lab) is not None
            found.append(Reaped(lab=lab, why=STILL_RUNS if is_ours else NOT_OURS, is_ours=is_ours))
            continue
        try:
            backend.down(RunningLab(lab_id=lab.lab_id, title=lab.title), deadline=deadline.within(REAP_EACH_S))
        except NightFault as error:
            found.append(Reaped(lab=lab, why=why, failure=error.message))
        else:
            found.append(Reaped(lab=lab, why=why, is_removed=True))
    return tuple(found)


def removable(backend: LabBackend, rules: ReapRules, *, now: datetime) -> tuple[Leftover, ...]:
    """Return the labs that `reap` would remove; changes nothing.

    Raises:
        NightFault: The labs could not be listed.
    """
    return tuple(lab for lab in backend.leftovers() if rules.why_removable(lab, now=now) is not None)


def reaped_labs(reaped: tuple[Reaped, ...]) -> str:
    """Return what became of leftovers in a sentence.

    Raises:
        NightFault: One that was to go is still there: `Fault.CLEANUP`.
    """
    if kept := next((one for one in reaped if one.failure), None):
        raise NightFault(
            f"lab {kept.lab.title} of a dead night could not be removed: {kept.failure}",
            fault=Fault.CLEANUP,
            step="reap",
            hint="Remove it by hand, or run 'flashferry nightly reap' once the controller answers",
        )
    gone = [one.lab.title for one in reaped if one.is_removed]
    others = len(reaped) - len(gone)
    words = f"removed {', '.join(gone)}" if gone else "nothing of ours is left"
    return f"{words}; {counted(others, 'lab')} left alone" if others else words


AGAIN_S = 15.0

"""Between two tries."""

NO_LAB = "no lab was made"

GONE = "the lab is gone"


def remove_lab(backend: LabBackend, lab: RunningLab | None, title: str, deadline: Deadline) -> str:
    """Remove a night's lab, and return a sentence.

    Args:
        backend: The backend.
        lab: The lab; None where its import was started and its result is unknown.
        title: Its title.
        deadline: When to give up.

    Raises:
        NightFault: `CLEANUP`: it may still be there.
    """
    return _again(
        lambda: _removed(backend, lab, title, deadline),
        deadline,
        what=f"lab {title}",
        hint="Run 'flashferry nightly reap' once the controller answers, or remove it by hand",
    )


def remove_image(backend: LabBackend, image: UploadedImage, deadline: Deadline) -> str:
    """Remove an image that a night brought, behind its lab, and return a sentence.

    Args:
        backend: The backend.
        image: The image.
        deadline: When to give up.

    Raises:
        NightFault: `CLEANUP`: it may still be there.
    """

    def once() -> str:
        backend.remove_image(image)
        return f"image {image.definition_id} too"

    name = f"image {image.definition_id} (file {image.file_name})"
    return _again(once, deadline, what=name, hint="Remove it by hand: the controller's page of images has it")


def _again(action: Callable[[], str], deadline: Deadline, *, what: str, hint: str) -> str:
    while True:
        try:
            return action()
        except Exception as error:  # whatever it is: a lab that is not removed stays for ever
            if deadline.left_s <= AGAIN_S:
                raise _left(what, error, hint) from error
        deadline.pause(AGAIN_S)


def _removed(backend: LabBackend, lab: RunningLab | None, title: str, deadline: Deadline) -> str:
    if lab is not None:
        backend.down(lab, deadline=deadline)
    try:
        # An import that was answered too late may have been made twice.
        others = tuple(one for one in _of_title(backend, title) if lab is None or one.lab_id != lab.lab_id)
    except NightFault:
        if lab is None:
            raise
        return GONE  # the lab that ran is gone; one that was never started the next night finds
    for one in others:
        backend.down(one, deadline=deadline)
    return GONE if lab is not None or others else NO_LAB


def _of_title(backend: LabBackend, title: str) -> tuple[RunningLab, ...]:
    """Return the labs that have the night's title, but for those that say that another process made them."""
    found = (one for one in backend.leftovers() if one.title == title and _is_ours(one))
    return tuple(RunningLab(lab_id=one.lab_id, title=one.title) for one in found)


def _is_ours(lab: Leftover) -> bool:
    notes = read_notes(lab)
    return not lab.notes.strip() if notes is None else notes.is_of_this_process


def _left(what: str, error: Exception, hint: str) -> NightFault:
    reason = error.message if isinstance(error, FlashferryError) else f"{type(error).__name__}: {error}"
    return NightFault(f"{what} may still be there: {reason}", fault=Fault.CLEANUP, step=StepName.CLEAN, hint=hint)

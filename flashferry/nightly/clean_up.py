"""Remove labs and images: those of this night, and labs left by nights that were killed.

Each night starts by removing leftovers, and `flashferry nightly reap` does it alone. `flashferry.nightly.lab_notes`
decides which labs may be removed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from socket import gethostname

from msgspec import Struct, field

from flashferry.core.errors import FlashferryError
from flashferry.core.units import counted
from flashferry.nightly.backend import Deadline, Leftover, RunningLab, UploadedImage
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.lab_notes import LabNotes, is_night_alive, is_night_locked, read_notes
from flashferry.nightly.night import Fault, NightFault, StepName

REAP_EACH_S = 300.0
"""Time limit for removing one leftover lab."""


class Reaped(Struct, frozen=True, kw_only=True):
    """A leftover lab and what was done with it.

    Attributes:
        why: Why it was to be removed, or why not.
        is_ours: Whether it belongs to a night, which still runs if the lab was not to be removed.
        failure: Why it could not be removed; else empty.
    """

    lab: Leftover
    why: str
    is_removed: bool = False
    is_ours: bool = True
    failure: str = ""


class ReapRules(Struct, frozen=True, kw_only=True):
    """The rules by which leftover labs are removed.

    Attributes:
        is_alive: Returns whether a night of this host still runs, as far as is known.
        is_locked: Returns whether its lock is held, so that it certainly runs.
        host: This host's name.
    """

    is_alive: Callable[[LabNotes], bool]
    is_locked: Callable[[LabNotes], bool] = lambda _: False
    host: str = field(default_factory=gethostname)

    @classmethod
    def of(cls, folder: Path) -> ReapRules:
        """Return the rules of this host, given the folder of its nights' locks."""
        return cls(is_alive=partial(is_night_alive, folder), is_locked=partial(is_night_locked, folder))

    def why_removable(self, lab: Leftover, *, now: datetime) -> str | None:
        """Return why a lab may be removed; None if it is not ours or its night still runs.

        A held lock overrides the expiry, because the clock may have been set.
        """
        notes = read_notes(lab)
        if notes is None or (notes.host == self.host and self.is_locked(notes)):
            return None
        if now >= datetime.fromisoformat(notes.expires):
            return f"its time ended {notes.expires}"
        if notes.host == self.host and not self.is_alive(notes):
            return f"its night on this host, process {notes.pid}, is dead"
        return None


NOT_OURS = "its notes are not a night's"
"""Why a lab with our prefix always stays."""

STILL_RUNS = "its night still runs, or its time is not over"
"""Why a night's lab stays."""


def reap(backend: CmlBackend, rules: ReapRules, *, deadline: Deadline) -> tuple[Reaped, ...]:
    """Remove the labs left by killed nights, five minutes each at most; return the result of each.

    Raises:
        NightFault: The labs could not be listed.
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


def removable(backend: CmlBackend, rules: ReapRules, *, now: datetime) -> tuple[Leftover, ...]:
    """Return the labs that `reap` would remove; changes nothing.

    Raises:
        NightFault: The labs could not be listed.
    """
    return tuple(lab for lab in backend.leftovers() if rules.why_removable(lab, now=now) is not None)


def reap_labs(backend: CmlBackend, rules: ReapRules, deadline: Deadline) -> str:
    """Remove labs left by killed nights, check that no other night runs on the controller, and return a sentence.

    Raises:
        NightFault: `CLEANUP`: a lab could not be removed. `LAB`: another night still runs.
    """
    reaped = reap(backend, rules, deadline=deadline)
    if kept := next((one for one in reaped if one.failure), None):
        raise NightFault(
            f"lab {kept.lab.title} of a dead night could not be removed: {kept.failure}",
            fault=Fault.CLEANUP,
            step=StepName.REAP,
            hint="Remove it by hand, or run 'flashferry nightly reap' once the controller answers",
        )
    if running := next((one for one in reaped if one.is_ours and not one.is_removed), None):
        raise NightFault(
            f"another night still runs there: {running.lab.title}",
            fault=Fault.LAB,
            step=StepName.REAP,
            hint="One at a time, or they measure each other: give them other hours",
        )
    gone = [one.lab.title for one in reaped if one.is_removed]
    others = len(reaped) - len(gone)
    words = f"removed {', '.join(gone)}" if gone else "nothing of ours is left"
    return f"{words}; {counted(others, 'lab')} left alone" if others else words


AGAIN_S = 15.0
"""Interval between attempts."""

NO_LAB = "no lab was made"
GONE = "the lab is gone"


def remove_lab(backend: CmlBackend, lab: RunningLab | None, title: str, deadline: Deadline) -> str:
    """Remove a night's lab, and return a sentence.

    Args:
        backend: The backend.
        lab: The lab; None if its import was started and the result is unknown.
        title: Its title.
        deadline: When to give up.

    Raises:
        NightFault: `CLEANUP`: it may still exist.
    """
    return _again(
        lambda: _removed(backend, lab, title, deadline),
        deadline,
        what=f"lab {title}",
        hint="Run 'flashferry nightly reap' once the controller answers, or remove it by hand",
    )


def remove_image(backend: CmlBackend, image: UploadedImage, deadline: Deadline) -> str:
    """Remove an image that a night uploaded, and return a sentence.

    Raises:
        NightFault: `CLEANUP`: it may still exist.
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
                reason = error.message if isinstance(error, FlashferryError) else f"{type(error).__name__}: {error}"
                raise NightFault(
                    f"{what} may still be there: {reason}", fault=Fault.CLEANUP, step=StepName.CLEAN, hint=hint
                ) from error
        deadline.pause(AGAIN_S)


def _removed(backend: CmlBackend, lab: RunningLab | None, title: str, deadline: Deadline) -> str:
    if lab is not None:
        backend.down(lab, deadline=deadline)
    try:
        # An import that was answered too late may have been made twice.
        others = [
            one
            for one in backend.leftovers()
            if one.title == title and one.lab_id != (lab and lab.lab_id) and _is_ours(one)
        ]
    except NightFault:
        if lab is None:
            raise
        return GONE  # the lab that ran is gone; one that was never started the next night finds
    for one in others:
        backend.down(RunningLab(lab_id=one.lab_id, title=title), deadline=deadline)
    return GONE if lab is not None or others else NO_LAB


def _is_ours(lab: Leftover) -> bool:
    """Return whether a lab's notes do not name another process."""
    notes = read_notes(lab)
    return not lab.notes.strip() if notes is None else notes.is_of_this_process

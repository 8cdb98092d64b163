"""The end of every night: its lab is removed, and an image that it brought, until the clean-up's own time is over.

The lab may be known by its id, or only by its title: an import that was cut off, by a signal or by the controller, may
have made a lab without an answer that says so.
"""

from __future__ import annotations

from collections.abc import Callable

from flashferry.core.errors import FlashferryError
from flashferry.nightly.backend import LabBackend, Leftover, RunningLab, UploadedImage
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.faults import Fault, NightFault
from flashferry.nightly.lab_notes import read_notes
from flashferry.nightly.night import StepName

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

"""Deliver the image between journal and restore: tune, copy, verify."""

from __future__ import annotations

from collections.abc import Callable

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import ImageCorrupt
from flashferry.model.states import Outcome
from flashferry.run.device.copy import copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.slots import free_copy_slot, hash_slot
from flashferry.run.device.transport_fallback import fall_back
from flashferry.run.device.tune import tune
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.source import blame_for_other_bytes, fetch_from_neighbour, proof_started
from tasks.copy import COPY
from tasks.partial_file import file_at
from tasks.snapshot import Snapshot
from tasks.step import Delivered, Step
from tasks.steps import DELIVERY
from tasks.tune import TUNE
from tasks.verify import VERIFY
from tasks.verify import verify as verify_task


def deliver(run: DeviceRun, plan: DevicePlan, before: Snapshot) -> None:
    """Carry out the steps of a delivery in the order of their list; the caller restores, whatever is raised."""
    for step in DELIVERY:
        special = _SPECIAL.get(step.word)
        if special is not None:
            special(run, plan, before)
        else:
            _plain_step(run, step, plan)
    run.update(outcome=Outcome.DONE)


def _tune(run: DeviceRun, plan: DevicePlan, before: Snapshot) -> None:
    if plan.tune.changes:
        tune(run, plan.tune, before)


def bring(run: DeviceRun, plan: DevicePlan, before: Snapshot) -> None:
    """Copy from a neighbour or from us, by one transport after the other where that is allowed."""
    image, left = run.context.image, plan
    if run.served_by is not None:
        over_wan = fetch_from_neighbour(run, CopyOrder(image=image, target=plan.target), before)
        if over_wan is None:
            free_copy_slot(run)
            return
        left = over_wan
    while True:
        try:
            copy(run, CopyOrder(image=image, target=left.target))
        except FlashferryError as error:
            following = fall_back(run, error, before)
            if following is None:
                raise
            left = following
        else:
            break
    free_copy_slot(run)


def _prove(run: DeviceRun, plan: DevicePlan, _before: Snapshot) -> None:
    if run.context.to_null:
        return
    proof_started(run)
    with hash_slot(run), blame_for_other_bytes(run):
        verify(run, plan.target)
    run.passed(VERIFY)


_SPECIAL: dict[str, Callable[[DeviceRun, DevicePlan, Snapshot], None]] = {
    TUNE.word: _tune,
    COPY.word: bring,
    VERIFY.word: _prove,
}
"""Steps that need more than their own Nornir task."""


def _plain_step(run: DeviceRun, step: Step, plan: DevicePlan) -> None:
    """Carry out a step that needs no more than `Delivered`."""
    assert step.task is not None, f"{step.word}: a step of a delivery has a task, or a function of its own here"
    given = Delivered(image=run.context.image, target=plan.target, interrupted=run.context.interrupted)
    run.keep(step, run.run_step(step, step.task, given=given))
    run.passed(step)


def verify(run: DeviceRun, target: str) -> None:
    """Have the device compute the hash of what it copied."""
    context = run.context
    report = run.run_step(
        VERIFY,
        verify_task,
        path=target,
        md5=context.image.md5,
        sha512=context.image.sha512,
        size_bytes=context.image.size_bytes,
        signature=context.policy.verify_signature,
        known_bytes_per_s=context.hash_speeds.get(run.record.host),
        interrupted=context.interrupted,
    )
    run.keep(VERIFY, report)


def final_check(run: DeviceRun, target: str) -> None:
    """Check after the restore that the image is still there: it may be gone, or a stack's `flash:` be another member's.

    One `dir`, of which the size counts; the hash is proven. A device that cannot be read any more keeps its proof.
    """
    expected = run.context.image.size_bytes
    try:
        file = file_at(run.session(), target)
    except FlashferryError as error:
        run.note(f"could not look at {target} once more: {error.message}")
        return
    if file.size_bytes == expected:
        if run.context.board is not None:
            run.context.board.keep_stamp(run.record.host, file.modified)
        return
    seen = "no such file" if file.size_bytes is None else f"{file.size_bytes:,} bytes"
    run.take_failure(
        ImageCorrupt(
            f"{target} was proven by its hash; in the end expected {expected:,} bytes there, found {seen}",
            host=run.record.host,
            step=VERIFY.word,
            hint="Find out who else works there, or which member of a stack became active; then stage again",
        )
    )
    run.move_to_failed()

"""The run of one device as one Nornir task: the steps in order, and the restore after them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import ImageCorrupt
from flashferry.devices.identity import identity_of, member_serials
from flashferry.fileserver import FileServerError
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, failure_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.run.context import RunContext
from flashferry.run.device.check import check, check_lease, recheck
from flashferry.run.device.copy import copy
from flashferry.run.device.copy_recovery import clean_up
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.finish import finish
from flashferry.run.device.restore import restore
from flashferry.run.device.slots import free_copy_slot, hash_slot, take_copy_slot
from flashferry.run.device.tickets import revoke_ticket
from flashferry.run.device.transports import STEP as TRANSPORT
from flashferry.run.device.transports import fall_back, first_plan, plan_now
from flashferry.run.device.tune import tune
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.neighbour_copy import (
    blame_for_other_bytes,
    choose_source,
    fetch_from_neighbour,
    is_needed,
    proof_started,
    serve,
)
from flashferry.tcp.ssh_channel_window import Limit
from tasks.copy import COPY
from tasks.fetch_check import announce
from tasks.partial_file import file_at
from tasks.snapshot import SNAPSHOT, Snapshot, snapshot
from tasks.step import Delivered, Step
from tasks.steps import DELIVERY
from tasks.tcp_config import Change
from tasks.tune import TUNE
from tasks.verify import VERIFY
from tasks.verify import verify as verify_task


def deliver(run: DeviceRun, plan: DevicePlan, before: Snapshot) -> None:
    """Run the steps of a delivery in the order of their list. The caller restores, whatever is raised."""
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


def transfer(run: DeviceRun, plan: DevicePlan, before: Snapshot) -> None:
    """Copy from a neighbour or from us, by one transport after the other if that is allowed."""
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
    COPY.word: transfer,
    VERIFY.word: _prove,
}
"""Steps that need more than their own Nornir task."""


def _plain_step(run: DeviceRun, step: Step, plan: DevicePlan) -> None:
    """Run a step that needs no more than `Delivered`."""
    assert step.task is not None, f"{step.word}: a step of a delivery has a task, or a function of its own here"
    given = Delivered(image=run.context.image, target=plan.target, interrupted=run.context.interrupted)
    run.keep(step, run.run_step(step, step.task, given=given))
    run.passed(step)


def verify(run: DeviceRun, target: str) -> None:
    """Have the device compute the hash of the file that it copied."""
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
    """Check after the restore that the image is still there: it may be gone, or `flash:` be another stack member's.

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


Deliver = Callable[[DeviceRun, DevicePlan, Snapshot], None]
"""The work on a device between journal and restore, given its plan and snapshot; it may raise."""


def stage_device(task: Task, context: RunContext) -> Result:
    """Nornir task: stage one device and return its DeviceRecord. Never raises for a device's fault."""
    return run_device(DeviceRun(task, context), deliver)


def run_device(run: DeviceRun, deliver: Deliver) -> Result:
    """Run a device, store its record in the journal and return it."""
    record = carry_out(run, deliver)
    try:
        run.context.journal.record(run.context.run_id, record.host, record)
    except JournalUnusable as error:
        # The report outweighs its copy in the journal.
        record = replace(record, failure=record.failure or failure_of("record", error))
    _emit_end(run, record)
    is_changed = record.transfer is not None or record.source is not None
    return Result(host=run.task.host, result=record, changed=is_changed)


def _emit_end(run: DeviceRun, record: DeviceRecord) -> None:
    failure = record.failure or record.restore_failure
    good = record.outcome.is_good and failure is None
    run.event(
        "device",
        "done" if good else "failed",
        record.outcome.label if failure is None else f"{record.outcome.label}: {failure.step}: {failure.reason}",
        outcome=record.outcome.value,
        restored=record.restored.value,
        failure=failure.kind if failure else None,
    )


def carry_out(run: DeviceRun, deliver: Deliver) -> DeviceRecord:
    """Run all steps and return the record."""
    context, board, name = run.context, run.context.board, run.host.name
    if board is not None:
        board.enter(name, has_image=context.is_helper)
    try:
        run.connect()
        check_lease(run)
        check(run)
        if context.is_helper or run.record.outcome is Outcome.ALREADY_THERE:
            _serve_image_there(run)
        elif _is_to_be_staged(run):
            wait_and_stage(run, deliver)
        if not context.is_helper:
            finish(run)
    except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' run
        run.take_failure(error)
    finally:
        with suppress(FileServerError):  # a server that is gone accepts no ticket
            revoke_ticket(run)
        run.end_session()
        if board is not None:
            board.leave(name)
    return run.record


def wait_and_stage(run: DeviceRun, deliver: Deliver) -> None:
    """Wait for a slot with the device unchanged, then stage it."""
    # Fails here, with the device unchanged, if no copy command can carry the name or addresses.
    first_plan(run, run.checked.running)
    if run.context.untuned_because is not None:
        run.note(f"not tuned: {run.context.untuned_because}")
    if not choose_source(run, lambda: recheck(run)):
        take_copy_slot(run, lambda: recheck(run))
    try:
        recheck(run)
        if _is_to_be_staged(run):
            _stage(run, deliver)
    finally:
        free_copy_slot(run)


def _serve_image_there(run: DeviceRun) -> None:
    """Have a device that has the image already serve it to others of its site, if they need it."""
    if _is_to_be_staged(run):
        run.note("it was to serve others of its site, and the image is not there any more: stage it again")
    if run.record.outcome is not Outcome.ALREADY_THERE or not is_needed(run):
        return
    before: Snapshot = run.run_step(SNAPSHOT, snapshot)
    _acquire(run, before, (), run.image_path)
    run.update(state=State.JOURNALED)
    # It needs no copy: the devices that it will serve can be checked.
    run.context.copied()
    try:
        serve(run, run.image_path)
    finally:
        restore(run, before)


def _is_to_be_staged(run: DeviceRun) -> bool:
    return run.record.outcome not in {Outcome.REFUSED, Outcome.ALREADY_THERE}


def _stage(run: DeviceRun, deliver: Deliver) -> None:
    """Take the lease, deliver, and restore, whatever was raised in between."""
    before: Snapshot = run.run_step(SNAPSHOT, snapshot)
    # Planned from the snapshot, not from the check: a line that others set in between is theirs and is restored.
    plan = plan_now(run, before.running)
    _take_lease(run, plan, before)
    try:
        deliver(run, plan, before)
        serve(run, plan.target)
    except BaseException as error:  # noqa: BLE001 -- whatever happened, restoring comes first
        run.take_failure(error)
    finally:
        free_copy_slot(run)
        restore(run, before)
        if run.record.failure is not None:
            clean_up(run)
    if run.record.outcome is Outcome.DONE and not run.context.to_null:
        final_check(run, plan.target)


def _take_lease(run: DeviceRun, plan: DevicePlan, before: Snapshot) -> None:
    """Write the device's configuration to the journal, before anything changes.

    Also if nothing is to be changed: without the lease, a device that a killed or another run tuned would count as
    unchanged.
    """
    _acquire(run, before, plan.tune.changes, plan.target)
    if plan.ceilings and plan.ceilings[0].limit is Limit.SSH_WINDOW:
        run.note_event(TRANSPORT, announce(plan.ceilings[:1]))
    restored = Restored.INCOMPLETE if plan.tune.changes else Restored.UNTOUCHED
    run.update(state=State.JOURNALED, restored=restored, window=plan.window, changes=plan.tune.changes)


def _acquire(run: DeviceRun, before: Snapshot, changes: tuple[Change, ...], target: str) -> None:
    run.context.journal.acquire_lease(
        run.context.run_id,
        run.host.name,
        identity=identity_of(run.checked.facts),
        snapshot=before,
        changes=changes,
        target=target,
        members=member_serials(run.session().show_version()),
    )

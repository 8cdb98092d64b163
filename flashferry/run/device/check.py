"""Check a device, and decide whether it is staged."""

from __future__ import annotations

from msgspec.structs import replace

from flashferry.core.errors import Kind
from flashferry.devices.identity import identity_of, member_serials
from flashferry.model.doubts import COPY_HINT, Doubts, doubts_about
from flashferry.model.record import Failure
from flashferry.model.states import Outcome, State
from flashferry.planning.image_platforms import HINT as ONE_PLATFORM
from flashferry.run.device.copy_recovery import remove_copy
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.slots import hash_slot_in_check
from flashferry.store.leases import lease_by_name, lease_on, leases
from flashferry.store.staged import doubts
from tasks.check import CHECK, CheckReport, ProvenFile, TargetImage
from tasks.check import check as check_task
from tasks.partial_file import file_at, in_words


def check_lease(run: DeviceRun) -> None:
    """Refuse a device that another run holds, before any other check: a killed run's lines may even look finished.

    Raises:
        DeviceRefused: Another run holds the device, or left it before it was proven restored.
    """
    session = run.session()
    held = leases(run.context.journal.directory, besides=run.context.run_id)
    if not held:
        return
    found = lease_by_name(held, run.host)
    found = found or lease_on(held, session.facts(), member_serials(session.show_version()))
    if found is not None:
        raise found.refusal(run.host.name)


def check(run: DeviceRun) -> None:
    """Check the device and decide from the report."""
    report = _checked(run)
    if report.refusal and _remove_own_partial_file(run, report):
        report = _checked(run)
    run.passed(CHECK)
    decide(run, report)


def recheck(run: DeviceRun) -> None:
    """Log in and check again if the device was logged out: what was read before may have changed."""
    if run.is_logged_out:
        run.connect()
        decide(run, _checked(run))


def decide(run: DeviceRun, report: CheckReport) -> None:
    """End the device's run if it is refused or has the image already."""
    refusal, hint = _refusal(run, report)
    if refusal:
        outcome = Outcome.REFUSED
        run.update(
            outcome=outcome, failure=Failure(step=CHECK.word, reason=refusal, hint=hint, kind=Kind.POLICY_VIOLATION)
        )
        run.event(CHECK.word, "failed", f"{outcome.label}: {refusal}", outcome=outcome.value)
    elif report.already_there:
        run.move(State.DONE)
        run.update(outcome=Outcome.ALREADY_THERE)
        name = run.context.image.name
        run.event(CHECK.word, "done", f"{report.file_system}{name} is there already, hash proven")


def _checked(run: DeviceRun) -> CheckReport:
    context, target = run.context, None
    if not context.to_null:
        target = TargetImage.of(context.image, is_insisted=context.policy.any_image, adds=context.policy.add)
        target = replace(target, proven=_proven(run))
    report: CheckReport = run.run_step(
        CHECK,
        check_task,
        target=target,
        signature=context.policy.verify_signature,
        interrupted=context.interrupted,
        hashing=lambda: hash_slot_in_check(run),
    )
    if report.already_there and (note := doubts_of(run, report).of_name):
        report = replace(report, notes=(*report.notes, note))
    run.keep(CHECK, report)
    for note in report.notes:
        run.note_event(CHECK.word, note)
    return report


def _proven(run: DeviceRun) -> ProvenFile | None:
    """Return the file as the device proved it in an earlier wave; None if it must be proven again."""
    proof, board = run.context.proof, run.context.board
    if proof is None or board is None:
        return None
    return ProvenFile(report=proof, modified=board.stamp_of(run.host.name))


def _remove_own_partial_file(run: DeviceRun, report: CheckReport) -> bool:
    """Remove the partial file that this run left before it was resumed; return whether it was removed.

    Only if the operator allowed it and the file has the size recorded when the device was restored.
    """
    context = run.context
    if context.leftover is None or not context.policy.remove_partial:
        return False
    target = f"{report.file_system}{context.image.name}"
    file = file_at(run.session(), target)
    if file.size_bytes is None or file.size_bytes >= context.image.size_bytes or in_words(file) != context.leftover:
        return False
    # The size is known exactly from the run's journal.
    run.traces.sent_bytes = file.size_bytes
    remove_copy(run, target)
    run.note(f"removed what this run's broken copy had left: {in_words(file)}")
    return True


def _refusal(run: DeviceRun, report: CheckReport) -> tuple[str | None, str | None]:
    """Return why a device must not be staged, and what to do about it; None for each if there is no reason."""
    context, planned, found = run.context, run.context.identity, identity_of(report.facts)
    if planned is not None and planned != found:
        return f"the plan was made for {planned} (serial number/host name), this is {found}: make a new plan", None
    if report.already_there:
        doubt = doubts_of(run, report).of_file(f"{report.file_system}{context.image.name}")
        if doubt:
            return doubt, COPY_HINT
    if report.refusal or report.already_there or context.policy.any_image:
        return report.refusal, report.refusal_hint
    shared = context.given.refusal(context.image.name, run.host.name, report.image)
    return shared, ONE_PLATFORM if shared else None


def doubts_of(run: DeviceRun, report: CheckReport) -> Doubts:
    """Return doubts about this device and image that earlier runs recorded."""
    names = (run.host.name, identity_of(report.facts))
    return doubts_about(doubts(run.context.journal.directory, *names), *names, run.context.image.name)

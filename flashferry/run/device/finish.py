"""The steps after the restore: copies for stack members, `install add`, the readiness check.

The lease has ended by then. If the run is killed here, the next run finds the image and does the rest.
"""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.images.file_name import read_file_name
from flashferry.run.device.check import doubts_of
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.slots import hash_slot_in_check
from tasks.add import ADD, AddReport, add
from tasks.check import TargetImage
from tasks.distribute import DISTRIBUTE, DistributionReport, distribute, has_members
from tasks.readiness.check import READY, ready
from tasks.readiness.values import Readiness


def finish(run: DeviceRun) -> None:
    """Run the steps. The first failure is the device's failure; the device stays restored."""
    if not _has_image(run) or run.context.to_null:
        return
    policy = run.context.policy
    try:
        _distribute(run)
        if policy.add:
            _add(run)
    except FlashferryError as error:
        run.take_failure(error)
        run.move_to_failed()
    if (policy.add or policy.ready) and _has_image(run) and not run.context.interrupted():
        _check_readiness(run)


def _has_image(run: DeviceRun) -> bool:
    """Return whether the device has the image and is restored."""
    record = run.record
    return record.outcome.is_good and record.failure is None and record.restore_failure is None


def _check_readiness(run: DeviceRun) -> None:
    """Check whether the device is ready to boot the image; a failed check only adds a note."""
    record, context = run.record, run.context
    try:
        run.connect_again()
        found: Readiness = run.run_step(
            READY,
            ready,
            target=TargetImage.of(context.image, is_insisted=context.policy.any_image),
            proven=_proven(run),
            failed_add=_failed_before(run) if record.added is None else None,
            signature=context.policy.verify_signature,
            expected_members=tuple(member.number for member in run.checked.version.members) or None,
            known_bytes_per_s=context.hash_speeds.get(record.host),
            interrupted=context.interrupted,
            hashing=lambda: hash_slot_in_check(run),
        )
    except FlashferryError as error:
        run.note(f"whether it is ready to boot the image could not be checked: {error.message}")
        return
    run.keep(READY, found)
    run.note_fact(READY.word, "readiness", found)


def _distribute(run: DeviceRun) -> None:
    """Copy the image to the other members; if they cannot be determined, only a note is added."""
    try:
        run.connect_again()
        if not has_members(run.session(), run.image_path):
            return
    except FlashferryError as error:
        run.note(f"whether other members lack the image could not be checked: {error.message}")
        return
    report: DistributionReport | None = run.run_step(
        DISTRIBUTE,
        distribute,
        path=run.image_path,
        image=run.context.image.of_record(),
        remove_partial=run.context.policy.remove_partial,
        interrupted=run.context.interrupted,
        notify=lambda line: run.event(DISTRIBUTE.word, "note", line),
    )
    run.keep(DISTRIBUTE, report)


def _add(run: DeviceRun) -> None:
    image = run.context.image
    release = read_file_name(image.inside or "").image_release or read_file_name(image.name).image_release
    report: AddReport = run.run_step(
        ADD,
        add,
        path=run.image_path,
        release=release,
        size_bytes=image.size_bytes,
        failed_before=_failed_before(run),
        notify=lambda line: run.event(ADD.word, "note", line),
    )
    run.keep(ADD, report)
    run.note_fact(ADD.word, "added", report)


def _failed_before(run: DeviceRun) -> str | None:
    """Return why an image that is listed as added may lack parts, from earlier runs of this journal."""
    return doubts_of(run, run.checked).of_add


def _proven(run: DeviceRun) -> dict[str, str]:
    """Return the digests that the device computed in this run, by path, members' files included."""
    record = run.record
    own = record.verify or (record.check.proof if record.check is not None else None)
    found = {own.path: own.digest} if own is not None else {}
    return found | {one.path: one.digest for one in (record.distribution.copies if record.distribution else ())}

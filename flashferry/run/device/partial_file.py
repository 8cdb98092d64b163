"""The file that a failed copy left on flash: always reported, removed only where it is ours, worthless, and allowed."""

from __future__ import annotations

from contextlib import suppress

from flashferry.core.errors import FlashferryError, Kind
from flashferry.fileserver import FileServerError
from flashferry.model.record import sentence_of
from flashferry.run.device.copy_recovery import remove_copy, settle_copy
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tickets import revoke_ticket, take_account
from tasks.partial_file import CANNOT_TELL, REMOVE, FlashFile, advice, describe_partial_file, file_at, in_words


def record_partial_file(run: DeviceRun) -> None:
    """Record what a failed copy left so far, before the lease ends; never raises.

    A run that is killed after that, while it cleans up, could not recognize the file as its own when it is resumed, and
    recovery does not read a device that no lease holds.
    """
    with suppress(Exception):
        target = _target_of_ours(run, is_known=_end_transfer(run))
        if target is not None:
            _record(run, describe_partial_file(run.session(), target))


def clean_up(run: DeviceRun) -> None:
    """Record what a failed copy left; remove it where it is ours and the operator allowed that."""
    is_known = _end_transfer(run)
    target = _target_of_ours(run, is_known=is_known)
    if target is None:
        return
    if run.record.restore_failure is not None:
        # Another login could lock the account.
        _record(run, f"{CANNOT_TELL}the device could not be looked at any more")
        return
    try:
        _record(run, describe_partial_file(run.session(), target))
        if run.context.policy.remove_partial and is_known and run.record.partial_file is not None:
            _remove_worthless(run, target)
    except FlashferryError as error:
        if run.record.partial_file is None:
            _record(run, f"{CANNOT_TELL}{sentence_of(error)}")
        run.event(REMOVE.word, "failed", f"could not see to what the copy left: {sentence_of(error)}")


def _end_transfer(run: DeviceRun) -> bool:
    """Record the server's account and revoke the ticket; return whether the server could be asked."""
    ticket = run.traces.ticket
    if ticket is None:
        return run.traces.is_from_neighbour
    try:
        take_account(run, run.context.server.progress(ticket.ticket_id))
    except FileServerError:
        return False
    finally:
        with suppress(FileServerError):  # a server that is gone accepts no ticket
            revoke_ticket(run)
    return True


def _target_of_ours(run: DeviceRun, *, is_known: bool) -> str | None:
    """Return the target of a copy that may have left a file: the check found none there, and a copy started.

    Args:
        run: The device's run.
        is_known: Whether the server's account is known; otherwise the file is reported, and never removed.
    """
    traces = run.traces
    has_copied = traces.ticket is not None or traces.is_from_neighbour
    if traces.order is None or traces.order.target == "null:" or not has_copied:
        return None
    if traces.is_theirs or run.record.verify is not None:
        return None
    return traces.order.target if traces.began or not is_known else None


def _record(run: DeviceRun, found: str | None) -> None:
    """Record what a failed copy left, and what to do about it."""
    text = None
    if found is not None:
        text = advice(
            found,
            image_bytes=run.context.image.size_bytes,
            is_other=_is_other_image(run),
            run_id=run.context.run_id,
        )
    run.update(partial_file=found, partial_advice=text)


def _remove_worthless(run: DeviceRun, target: str) -> None:
    """Remove the file, once nothing writes to it any more, if it is certain to be worthless."""
    settle_copy(run)
    file = file_at(run.session(), target)
    _record(run, in_words(file))
    if _is_worthless(run, file):
        remove_copy(run, target)
        run.update(partial_advice=None, partial_removed=True)


def _is_worthless(run: DeviceRun, file: FlashFile) -> bool:
    """Return whether a file is cut off, or has another hash; one that is merely unproven is kept."""
    if file.size_bytes is None:
        return False
    return _is_other_image(run) or file.size_bytes < run.context.image.size_bytes


def _is_other_image(run: DeviceRun) -> bool:
    """Return whether the device proved that the file is not the image."""
    failure = run.record.failure
    return failure is not None and failure.kind == Kind.IMAGE_CORRUPT

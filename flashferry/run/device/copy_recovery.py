"""Recover a copy that ended without a result, and clean up the partial file of a failed one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import session_of
from flashferry.devices.errors import SESSION_LOST, DeviceUnreachable, FlashBusy, Interrupted
from flashferry.fileserver import FileServerError, Ticket, TransferProgress
from flashferry.model.lost_copy_rules import Decision, Evidence, RecoveryDecision, decide_recovery
from flashferry.model.record import sentence_of
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.tickets import RUNNING, has_started, revoke_ticket, take_account
from flashferry.transports.transport import delivered_whole
from tasks.copy import COPY, SLOWEST_BYTES_PER_S, copy_limits
from tasks.partial_file import NOT_KNOWN, REMOVE, FlashFile, advice, describe_partial_file, file_at, in_words, remove
from tasks.steps import COPY_RECOVERY

RECONNECT_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses between logins: a router that reboots takes minutes; one whose vty lines are full, seconds."""

POLL_S = 2.0

SETTLED_S = 5.0
"""If flash and server are unchanged for this long, all buffers are written."""

STALLED_S = 20.0
"""A transfer without a session and without progress is ended after this time: its device may have restarted."""


class LostCopy(Struct, frozen=True, kw_only=True):
    """A copy whose session was lost.

    Attributes:
        may_remove: Whether the operator allowed to remove our partial file.
        may_repeat: Whether the copy was not repeated yet.
        is_counted: Whether our server counts what the device fetches.
        began: Whether an earlier transfer of this run started: its file is ours too.
        progress: Returns the server's account.
        end_transfer: Makes the server end the transfer.
        interrupted: Whether the operator stops the run.
    """

    target: str
    image_bytes: int
    may_remove: bool
    may_repeat: bool
    began: bool
    progress: Callable[[], TransferProgress]
    is_counted: bool = True
    end_transfer: Callable[[], None]
    interrupted: Callable[[], bool]


def recover_copy(task: Task, lost: LostCopy) -> Result:
    """Nornir task: wait until the lost copy can be decided, and return that RecoveryDecision.

    Raises:
        DeviceUnreachable: No further login succeeded.
        Interrupted: The operator stops the run.
    """
    settling = _Settling(lost)
    while (decided := settling.decide(_read(task, lost))).decision is Decision.WAIT:
        _check_interrupted(lost)
        time.sleep(POLL_S)
    return Result(host=task.host, result=decided)


class _Settling:
    """Compares each reading of flash and server with the one before."""

    def __init__(self, lost: LostCopy) -> None:
        self._lost = lost
        self._last: tuple[object, ...] = ()
        self._changed_at = time.monotonic()
        self._patience_s = copy_limits(size_bytes=lost.image_bytes, expected_bytes_per_s=SLOWEST_BYTES_PER_S).end_s

    def decide(self, file: FlashFile | None) -> RecoveryDecision:
        """Decide from a reading. None means a file that the device still has open, of unknown size."""
        lost, seen, now = self._lost, self._lost.progress(), time.monotonic()
        flash_bytes = file.size_bytes if file is not None else None
        reading = (seen.state in RUNNING, seen.bytes_acked, flash_bytes, file is None)
        if reading != self._last:
            self._last, self._changed_at = reading, now
        same_s = now - self._changed_at
        if seen.state in RUNNING and same_s > STALLED_S:
            lost.end_transfer()
        return decide_recovery(
            Evidence(
                image_bytes=lost.image_bytes,
                to_null=lost.target == "null:",
                began=lost.began or has_started(seen),
                transferring=seen.state in RUNNING,
                delivered=delivered_whole(seen) if lost.is_counted else None,
                delivered_bytes=seen.bytes_acked,
                flash_bytes=flash_bytes,
                busy=file is None,
                settled=same_s >= SETTLED_S,
                waited=same_s >= self._patience_s,
                may_remove=lost.may_remove,
                may_repeat=lost.may_repeat,
            )
        )


def _read(task: Task, lost: LostCopy) -> FlashFile | None:
    """Read the target on flash, with several logins if needed; None if the device has the file open."""
    for pause_s in (*RECONNECT_PAUSES_S, None):
        try:
            return file_at(session_of(task), lost.target)
        except FlashBusy:
            return None
        except DeviceUnreachable:
            if pause_s is None:
                raise
            _pause(lost, pause_s)
    raise AssertionError("the last attempt returns or raises")


def _pause(lost: LostCopy, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        _check_interrupted(lost)
        time.sleep(min(0.5, seconds))


def _check_interrupted(lost: LostCopy) -> None:
    if lost.interrupted():
        raise Interrupted("stopped by the operator while looking for what became of the copy", step=COPY_RECOVERY.word)


def clear_copy(run: DeviceRun, order: CopyOrder, *, may_repeat: bool) -> RecoveryDecision:
    """Find out what is left of a lost copy; remove it if the next copy would find it in its place.

    Raises:
        DeviceUnreachable: The session was lost before the copy started, or no further login succeeded.
    """
    ticket = run.traces.ticket
    if ticket is None:
        raise DeviceUnreachable(
            "the session was lost before the copy began", host=run.record.host, step=COPY.word, hint=SESSION_LOST
        )
    found: RecoveryDecision = run.run_step(
        COPY_RECOVERY, recover_copy, lost=_lost_copy(run, order, ticket, may_repeat=may_repeat)
    )
    run.traces.may_be_writing = False
    take_account(run, run.context.server.progress(ticket.ticket_id))
    run.update(reconciled=(*run.record.reconciled, found))
    run.compare_clocks()
    run.event(COPY_RECOVERY.word, "done", f"{found.reason}: {found.decision.value}")
    if found.decision is Decision.REMOVE_AND_AGAIN:
        remove_copy(run, order.target)
    return found


def settle_copy(run: DeviceRun) -> None:
    """Wait until nothing writes to the target of the last copy any more."""
    order, ticket = run.traces.order, run.traces.ticket
    if run.traces.may_be_writing and order is not None and ticket is not None:
        run.run_step(COPY_RECOVERY, recover_copy, lost=_lost_copy(run, order, ticket, may_repeat=False))
        run.traces.may_be_writing = False


def remove_copy(run: DeviceRun, target: str) -> None:
    """Remove the file that a copy left; its ticket is revoked first, so that nothing is written there any more."""
    revoke_ticket(run)
    run.run_step(REMOVE, remove, path=target, no_larger_than_bytes=run.traces.sent_bytes)
    run.traces.began = False


def _lost_copy(run: DeviceRun, order: CopyOrder, ticket: Ticket, *, may_repeat: bool) -> LostCopy:
    server = run.context.server
    return LostCopy(
        target=order.target,
        image_bytes=order.image.size_bytes,
        may_remove=run.context.policy.remove_partial,
        may_repeat=may_repeat,
        began=run.traces.began,
        progress=lambda: server.progress(ticket.ticket_id),
        end_transfer=lambda: server.revoke(ticket.ticket_id),
        interrupted=run.context.interrupted,
    )


def record_partial_file(run: DeviceRun) -> None:
    """Record the partial file of a failed copy before the lease ends. Never raises.

    If the run is killed during the clean-up, this record is what identifies the file as its own when it is resumed;
    recovery reads only devices with a lease.
    """
    with suppress(Exception):
        target = _target_of_ours(run, is_known=_end_transfer(run))
        if target is not None:
            _record(run, describe_partial_file(run.session(), target))


def clean_up(run: DeviceRun) -> None:
    """Record the partial file of a failed copy; remove it if it is ours and the operator allowed that."""
    is_known = _end_transfer(run)
    target = _target_of_ours(run, is_known=is_known)
    if target is None:
        return
    if run.record.restore_failure is not None:
        # The restore failed: another login could lock the account.
        _record(run, f"{NOT_KNOWN}the device could not be checked any more")
        return
    try:
        _record(run, describe_partial_file(run.session(), target))
        if run.context.policy.remove_partial and is_known and run.record.partial_file is not None:
            _remove_worthless(run, target)
    except FlashferryError as error:
        if run.record.partial_file is None:
            _record(run, f"{NOT_KNOWN}{sentence_of(error)}")
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

    `is_known` says whether the server's account is known; if not, the file is reported and never removed.
    """
    traces = run.traces
    has_copied = traces.ticket is not None or traces.is_from_neighbour
    if traces.order is None or traces.order.target == "null:" or not has_copied:
        return None
    if traces.is_theirs or run.record.verify is not None:
        return None
    return traces.order.target if traces.began or not is_known else None


def _record(run: DeviceRun, found: str | None) -> None:
    """Record the partial file, and what to do about it."""
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
    """Remove the file, once nothing writes to it, if it is certainly not the whole image."""
    settle_copy(run)
    file = file_at(run.session(), target)
    _record(run, in_words(file))
    if _is_worthless(run, file):
        remove_copy(run, target)
        run.update(partial_advice=None, partial_removed=True)


def _is_worthless(run: DeviceRun, file: FlashFile) -> bool:
    """Return whether a file is cut off or has another hash. A file that is merely unproven is kept."""
    if file.size_bytes is None:
        return False
    return _is_other_image(run) or file.size_bytes < run.context.image.size_bytes


def _is_other_image(run: DeviceRun) -> bool:
    """Return whether the device proved that the file is not the image."""
    failure = run.record.failure
    return failure is not None and failure.kind == Kind.IMAGE_CORRUPT

"""What became of a copy that ended without a result: look at flash and server, wait, decide, and clear up behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import SESSION_LOST, DeviceUnreachable, FlashBusy, Interrupted
from flashferry.fileserver import Ticket, TransferProgress
from flashferry.model.lost_copy_rules import Decision, Evidence, RecoveryDecision, decide_recovery
from flashferry.run.context import RunContext
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import RUNNING, CopyOrder, CopyTraces, DeviceTickets, has_begun
from flashferry.transports.server_view import delivered_whole
from tasks.copy import COPY
from tasks.copy_watch import SLOWEST_BYTES_PER_S, copy_limits
from tasks.partial_file import REMOVE, FlashFile, file_at, remove
from tasks.steps import COPY_RECOVERY

RECONNECT_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses behind attempts to log in again: a router that reboots takes minutes, one whose vty lines are full seconds."""

LOOK_EVERY_S = 2.0
SETTLED_S = 5.0
"""Flash and server that stay the same for so long have settled: buffers are written by then."""

STALLED_S = 20.0
"""A transfer without its session that makes no progress for so long is ended: its device may have restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCopy:
    """A copy whose session was lost.

    Attributes:
        target: Where it was going.
        image_bytes: Size of the image.
        may_remove: The operator allowed to remove a partial file of ours.
        may_repeat: The copy was not begun again yet.
        is_counted: Whether a server of ours counts what the device fetches.
        began: The device began an earlier transfer of this run; what that one left is ours, too.
        progress: Returns the server's account.
        end_transfer: Makes the server end the transfer.
        interrupted: Whether the operator wants to stop.
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
    """Nornir task: return a RecoveryDecision that is not to wait.

    Raises:
        DeviceUnreachable: No session could be opened any more.
        Interrupted: The operator wants to stop.
    """
    watch = _Watch(lost)
    while (decided := watch.decide(_seen(task, lost))).decision is Decision.WAIT:
        _check_interrupted(lost)
        time.sleep(LOOK_EVERY_S)
    return Result(host=task.host, result=decided)


class _Watch:
    """Compares each look with the one before."""

    def __init__(self, lost: LostCopy) -> None:
        self._lost = lost
        self._last: tuple[object, ...] = ()
        self._changed_at = time.monotonic()
        self._patience_s = copy_limits(size_bytes=lost.image_bytes, expected_bytes_per_s=SLOWEST_BYTES_PER_S).end_s

    def decide(self, file: FlashFile | None) -> RecoveryDecision:
        """Decide by a look; None stands for a file that the device has open and tells nothing of."""
        lost, seen, now = self._lost, self._lost.progress(), time.monotonic()
        flash_bytes = file.size_bytes if file is not None else None
        looks = (seen.state in RUNNING, seen.bytes_acked, flash_bytes, file is None)
        if looks != self._last:
            self._last, self._changed_at = looks, now
        same_s = now - self._changed_at
        if seen.state in RUNNING and same_s > STALLED_S:
            lost.end_transfer()
        return decide_recovery(
            Evidence(
                image_bytes=lost.image_bytes,
                to_null=lost.target == "null:",
                began=lost.began or has_begun(seen),
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


def _seen(task: Task, lost: LostCopy) -> FlashFile | None:
    """Look at the flash, with as many logins as it takes; None where the device has the file open."""
    for pause_s in RECONNECT_PAUSES_S:
        try:
            return _look(task, lost)
        except DeviceUnreachable:
            _pause(lost, pause_s)
    return _look(task, lost)


def _look(task: Task, lost: LostCopy) -> FlashFile | None:
    try:
        return file_at(session_of(task), lost.target)
    except FlashBusy:
        return None


def _pause(lost: LostCopy, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        _check_interrupted(lost)
        time.sleep(min(0.5, seconds))


def _check_interrupted(lost: LostCopy) -> None:
    if lost.interrupted():
        raise Interrupted("stopped by the operator while looking for what became of the copy", step=COPY_RECOVERY.word)


class CopyRecovery:
    """Finds out what became of a copy of a device, and clears up behind it."""

    def __init__(
        self,
        context: RunContext,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        traces: CopyTraces,
        tickets: DeviceTickets,
    ) -> None:
        self._context, self._events, self._keeper, self._steps = context, events, keeper, steps
        self._traces, self._tickets = traces, tickets

    def clear(self, order: CopyOrder, *, may_repeat: bool) -> RecoveryDecision:
        """Find out what is left of a copy, and remove it where it stands in the way of another one."""
        found = self._find_out(order, may_repeat=may_repeat)
        if found.decision is Decision.REMOVE_AND_AGAIN:
            self.remove(order.target)
        return found

    def settle(self) -> None:
        """Wait until nothing writes to the target of the last copy any more."""
        order, ticket = self._traces.order, self._traces.ticket
        if self._traces.may_be_writing and order is not None and ticket is not None:
            self._steps.run(COPY_RECOVERY, recover_copy, lost=self._lost_copy(order, ticket, may_repeat=False))
            self._traces.may_be_writing = False

    def remove(self, target: str) -> None:
        """Remove what a copy left, and nothing that could still be written to."""
        self._tickets.revoke()
        self._steps.run(REMOVE, remove, path=target, no_larger_than_bytes=self._traces.sent_bytes)
        self._traces.began = False

    def _find_out(self, order: CopyOrder, *, may_repeat: bool) -> RecoveryDecision:
        """Return what became of a copy that ended without a result, when there is nothing more to wait for."""
        ticket = self._traces.ticket
        if ticket is None:
            raise DeviceUnreachable(
                "the session was lost before the copy began",
                host=self._keeper.record.host,
                step=COPY.word,
                hint=SESSION_LOST,
            )
        found: RecoveryDecision = self._steps.run(
            COPY_RECOVERY, recover_copy, lost=self._lost_copy(order, ticket, may_repeat=may_repeat)
        )
        self._traces.may_be_writing = False
        self._tickets.take_account(self._context.server.progress(ticket.ticket_id))
        self._keeper.update(reconciled=(*self._keeper.record.reconciled, found))
        self._keeper.compare_clocks()
        self._events.tell(COPY_RECOVERY.word, "done", f"{found.reason}: {found.decision.value}")
        return found

    def _lost_copy(self, order: CopyOrder, ticket: Ticket, *, may_repeat: bool) -> LostCopy:
        server = self._context.server
        return LostCopy(
            target=order.target,
            image_bytes=order.image.size_bytes,
            may_remove=self._context.policy.remove_partial,
            may_repeat=may_repeat,
            began=self._traces.began,
            progress=lambda: server.progress(ticket.ticket_id),
            end_transfer=lambda: server.revoke(ticket.ticket_id),
            interrupted=self._context.interrupted,
        )

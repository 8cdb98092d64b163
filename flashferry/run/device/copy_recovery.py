"""What became of a copy whose session was lost: log in again, look at flash and server, wait, decide."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceUnreachable, FlashBusy, Interrupted
from flashferry.fileserver import TransferProgress, TransferState
from flashferry.model.recovery_rules import Decision, Evidence, Judgement, decide_recovery
from tasks.copy_watch import SLOWEST_BYTES_PER_S, copy_limits
from tasks.partial_file import FlashFile, file_at
from tasks.steps import RECONCILE

RECONNECT_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses behind attempts to log in again: a router that reboots takes minutes, one whose vty lines are full seconds."""

LOOK_EVERY_S = 2.0
SETTLED_S = 5.0
"""Flash and server that stay the same for so long have settled: buffers are written by then."""

STALLED_S = 20.0
"""A transfer without its session that makes no progress for so long is ended: its device may have restarted."""

_RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A copy whose session was lost.

    Attributes:
        target: Where it was going.
        image_bytes: Size of the image.
        may_remove: The operator allowed to remove a partial file of ours.
        may_repeat: The copy was not begun again yet.
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
    end_transfer: Callable[[], None]
    interrupted: Callable[[], bool]


def reconcile(task: Task, case: Case) -> Result:
    """Nornir task: return a Judgement that is not to wait.

    Raises:
        DeviceUnreachable: No session could be opened any more.
        Interrupted: The operator wants to stop.
    """
    watch = _Watch(case)
    while (judgement := watch.judge(_seen(task, case))).decision is Decision.WAIT:
        _check_interrupted(case)
        time.sleep(LOOK_EVERY_S)
    return Result(host=task.host, result=judgement)


class _Watch:
    """Compares each look with the one before."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._last: tuple[object, ...] = ()
        self._changed_at = time.monotonic()
        self._patience_s = copy_limits(size_bytes=case.image_bytes, expected_bytes_per_s=SLOWEST_BYTES_PER_S).end_s

    def judge(self, file: FlashFile | None) -> Judgement:
        """Judge a look; None stands for a file that the device has open and tells nothing of."""
        case, seen, now = self._case, self._case.progress(), time.monotonic()
        flash_bytes = file.size_bytes if file is not None else None
        looks = (seen.state in _RUNNING, seen.bytes_acked, flash_bytes, file is None)
        if looks != self._last:
            self._last, self._changed_at = looks, now
        same_s = now - self._changed_at
        if seen.state in _RUNNING and same_s > STALLED_S:
            case.end_transfer()
        return decide_recovery(
            Evidence(
                image_bytes=case.image_bytes,
                to_null=case.target == "null:",
                began=case.began or has_begun(seen),
                transferring=seen.state in _RUNNING,
                delivered=seen.bytes_acked >= case.image_bytes,
                flash_bytes=flash_bytes,
                busy=file is None,
                settled=same_s >= SETTLED_S,
                waited=same_s >= self._patience_s,
                may_remove=case.may_remove,
                may_repeat=case.may_repeat,
            )
        )


def has_begun(seen: TransferProgress) -> bool:
    """Tell whether the device began to fetch the image: then a file at the target is our copy's."""
    return seen.record is not None or seen.state in _RUNNING


def _seen(task: Task, case: Case) -> FlashFile | None:
    """Look at the flash, with as many logins as it takes; None where the device has the file open."""
    for pause_s in RECONNECT_PAUSES_S:
        try:
            return _look(task, case)
        except DeviceUnreachable:
            _pause(case, pause_s)
    return _look(task, case)


def _look(task: Task, case: Case) -> FlashFile | None:
    try:
        return file_at(session_of(task), case.target)
    except FlashBusy:
        return None


def _pause(case: Case, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        _check_interrupted(case)
        time.sleep(min(0.5, seconds))


def _check_interrupted(case: Case) -> None:
    if case.interrupted():
        raise Interrupted("stopped by the operator while looking for what became of the copy", step=RECONCILE.word)

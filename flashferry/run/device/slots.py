"""The slots for a device's copy and hash.

A device is never tuned while it waits for its copy. It is logged out after a while: vty lines are few, and an
exec-timeout would end the session without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from flashferry.monitor.events import Progress
from flashferry.run.concurrency import is_nearly_over, is_soon_over
from flashferry.run.device.device_run import DeviceRun, SlotState
from tasks.check import CHECK
from tasks.copy import COPY
from tasks.verify import VERIFY

PATIENCE_S = 60.0
"""A device that waits longer is logged out, and logged in again before its turn."""


def holds_copy_slot(run: DeviceRun) -> bool:
    """Return whether the device holds its copy slot."""
    return run.slot in {SlotState.HELD, SlotState.ANNOUNCED}


def take_copy_slot(run: DeviceRun, recheck: Callable[[], None]) -> None:
    """Wait for the copy slot of fleet and site; afterwards the device may be logged out (`DeviceRun.is_logged_out`).

    `recheck` logs in again; it is called if the device was logged out and its slot is near.
    """
    queued = run.queued(COPY.word)

    def prepare() -> None:
        if run.is_logged_out:
            recheck()
            queued("logged in again, its copy slot comes soon")

    run.context.slots.copies.enter(
        run.host.site,
        interrupted=run.context.interrupted,
        on_wait=queued,
        patience_s=PATIENCE_S,
        on_patience=run.log_out,
        on_soon=prepare,
    )
    run.slot = SlotState.HELD


def copy_progressed(run: DeviceRun, so_far: Progress) -> None:
    """Announce the slot to the next device, then release it, as the copy nears its end."""
    copied = (so_far.acked_bytes, so_far.size_bytes, so_far.rate_bytes_per_s)
    if is_nearly_over(*copied):
        if holds_copy_slot(run):
            free_copy_slot(run)
            run.slot = SlotState.RELEASED_EARLY
    elif is_soon_over(*copied) and run.slot is SlotState.HELD:
        run.slot = SlotState.ANNOUNCED
        run.context.slots.copies.expect(run.host.site)


def retake_copy_slot(run: DeviceRun) -> None:
    """Take a slot again for a repeated copy if it was released early; see `take_extra_copy_slot`."""
    if run.slot is SlotState.RELEASED_EARLY:
        take_extra_copy_slot(run)


def take_extra_copy_slot(run: DeviceRun) -> None:
    """Take a slot beyond the limit: the device is tuned, and a tuned device never waits."""
    run.context.slots.copies.enter_beyond_limit(run.host.site)
    run.slot = SlotState.HELD


def free_copy_slot(run: DeviceRun) -> None:
    """Release the slot, once, so that another device can be checked."""
    if holds_copy_slot(run):
        was_announced, run.slot = run.slot is SlotState.ANNOUNCED, SlotState.NOT_HELD
        run.context.slots.copies.leave(run.host.site, was_expected=was_announced)
        run.context.copied()


@contextmanager
def hash_slot(run: DeviceRun) -> Iterator[None]:
    """Hold a hash slot while the block runs, with an open session."""
    pool = run.context.slots.hashes
    pool.enter(
        interrupted=run.context.interrupted,
        on_wait=run.queued(VERIFY.word),
        patience_s=PATIENCE_S,
        on_patience=run.log_out,
    )
    try:
        run.connect_again()
        yield
    finally:
        pool.leave()


def hash_slot_in_check(run: DeviceRun) -> AbstractContextManager[None]:
    """Hold a hash slot during a dialogue: the device is not logged out while it waits."""
    return run.context.slots.hashes.slot(interrupted=run.context.interrupted, on_wait=run.queued(CHECK.word))

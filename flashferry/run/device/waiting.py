"""Where a device of a run waits: for its copy, for its hash run.

A device is never tuned while it waits for its copy, and one that waits long is logged out: a vty line is a scarce
thing, and an exec-timeout would end the session in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum, auto

from flashferry.monitor.events import Progress
from flashferry.run.concurrency import is_nearly_over, is_soon_over
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents
from tasks.check import CHECK
from tasks.copy import COPY
from tasks.verify import VERIFY

PATIENCE_S = 60.0
"""Who waits longer is logged out, and logged in again when it is its turn."""


class SlotState(Enum):
    """How a device stands to its copy slot.

    *Leaving*: who waits for it was told to make ready. *Released early*: others may have it, though the copy goes on.
    """

    NOT_HELD = auto()
    HELD = auto()
    LEAVING = auto()
    RELEASED_EARLY = auto()


class CopySlot:
    """A device's slot for its copy: of the fleet and of its site."""

    def __init__(self, site: str | None, context: RunContext, events: DeviceEvents, login: DeviceLogin) -> None:
        self._site, self._context = site, context
        self._events, self._login = events, login
        self._state = SlotState.NOT_HELD

    @property
    def is_held(self) -> bool:
        """Whether the device has the slot."""
        return self._state in {SlotState.HELD, SlotState.LEAVING}

    def take(self, recheck: Callable[[], None]) -> None:
        """Wait for the slot; see `DeviceLogin.is_logged_out` afterwards.

        Args:
            recheck: Logs in again; called where it was logged out and the slot is about to come.
        """
        queued = self._events.queued(COPY.word)

        def make_ready() -> None:
            if self._login.is_logged_out:
                recheck()
                queued("logged in again, its copy slot comes soon")

        self._context.slots.copies.enter(
            self._site,
            interrupted=self._context.interrupted,
            on_wait=queued,
            patience_s=PATIENCE_S,
            on_patience=self._login.log_out,
            on_soon=make_ready,
        )
        self._state = SlotState.HELD

    def copied(self, so_far: Progress) -> None:
        """Have the next one make ready, then give it the slot, when the end of the copy is near."""
        copied = (so_far.acked_bytes, so_far.size_bytes, so_far.rate_bytes_per_s)
        if is_nearly_over(*copied):
            self._release_early()
        elif is_soon_over(*copied):
            self._leave_soon()

    def _leave_soon(self) -> None:
        """Tell who waits for the slot to make ready, once."""
        if self._state is SlotState.HELD:
            self._state = SlotState.LEAVING
            self._context.slots.copies.expect(self._site)

    def _release_early(self) -> None:
        """Give the slot to who waits for it, before the copy is over."""
        if self.is_held:
            self.free()
            self._state = SlotState.RELEASED_EARLY

    def take_back(self) -> None:
        """Hold the slot again that was released early, for a copy that is repeated.

        Beside whoever has it now: the device is tuned, and so never waits.
        """
        if self._state is SlotState.RELEASED_EARLY:
            self.take_beside()

    def take_beside(self) -> None:
        """Take a slot beside whoever has one now: for a copy over the WAN of a device that is tuned already."""
        self._context.slots.copies.enter_beside(self._site)
        self._state = SlotState.HELD

    def free(self) -> None:
        """Give the slot back, once; let another device be looked at."""
        if self.is_held:
            was_leaving, self._state = self._state is SlotState.LEAVING, SlotState.NOT_HELD
            self._context.slots.copies.leave(self._site, was_expected=was_leaving)
            self._context.copied()


class HashSlot:
    """A device's slot for a hash run."""

    def __init__(self, context: RunContext, events: DeviceEvents, login: DeviceLogin) -> None:
        self._context, self._events, self._login = context, events, login

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the slot for as long as the block lasts, with a session that is open."""
        pool = self._context.slots.hashes
        pool.enter(
            interrupted=self._context.interrupted,
            on_wait=self._events.queued(VERIFY.word),
            patience_s=PATIENCE_S,
            on_patience=self._login.log_out,
        )
        try:
            if self._login.is_logged_out:
                self._login.connect()
            yield
        finally:
            pool.leave()

    def in_check(self) -> AbstractContextManager[None]:
        """Hold the slot inside a dialogue that goes on behind it: the session stays open."""
        pool = self._context.slots.hashes
        return pool.slot(interrupted=self._context.interrupted, on_wait=self._events.queued(CHECK.word))

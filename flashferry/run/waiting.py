"""Where a device of a run waits: for its login, for its copy, for its hash run.

A device is never tuned while it waits for its copy, and one that waits long is logged out: a vty line is a scarce
thing, and an exec-timeout would end the session in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from nornir.core.task import Task

from flashferry.devices.connection import remark, session_of
from flashferry.devices.errors import Interrupted
from flashferry.model.record import sentence_of
from flashferry.run.context import RunContext
from flashferry.run.steps import StepRunner

PATIENCE_S = 60.0
"""Who waits longer is logged out, and logged in again when it is its turn."""


class SlotRun(StepRunner):
    """The part of a device's run that has to do with slots."""

    def __init__(self, task: Task, context: RunContext) -> None:
        super().__init__(task, context)
        self._holds_copy_slot = False
        self._is_leaving = False
        self._was_handed_on = False
        self._is_logged_out = False

    def _connect(self) -> None:
        """Open the session, with not too many others at the same time."""
        self._heed("connect")
        with (
            self._context.gates.logins.slot(interrupted=self._context.interrupted, on_wait=self._queued("connect")),
            self._telling("connect"),
        ):
            session_of(self._task)
            remark(self._task, f"run {self._context.run_id}, {self._context.verb}, attempt {self._context.attempt}")
        self._is_logged_out = False

    def _take_copy_slot(self, come_back: Callable[[], None]) -> None:
        """Wait for the slot of the fleet and that of the site; see `_is_logged_out` afterwards.

        Args:
            come_back: Logs in again; called where it was logged out and the slot is about to come.
        """
        queued = self._queued("pull")

        def make_ready() -> None:
            if self._is_logged_out:
                come_back()
                queued("logged in again, its copy slot comes soon")

        self._context.gates.copies.enter(
            self._host.site,
            interrupted=self._context.interrupted,
            on_wait=queued,
            patience_s=PATIENCE_S,
            on_patience=self._log_out,
            on_soon=make_ready,
        )
        self._holds_copy_slot = True

    def _leave_soon(self) -> None:
        """Tell who waits for the slot to make ready, once."""
        if self._holds_copy_slot and not self._is_leaving:
            self._is_leaving = True
            self._context.gates.copies.expect(self._host.site)

    def _hand_copy_slot_on(self) -> None:
        """Give the slot to who waits for it, before the copy is over."""
        self._was_handed_on = self._was_handed_on or self._holds_copy_slot
        self._free_copy_slot()

    def _take_copy_slot_back(self) -> None:
        """Hold the slot again that was handed on, for a copy that is repeated.

        Beside whoever has it now: the device is tuned, and so never waits.
        """
        if self._was_handed_on:
            self._was_handed_on = False
            self._context.gates.copies.enter_beside(self._host.site)
            self._holds_copy_slot = True

    def _free_copy_slot(self) -> None:
        """Give the slot back, once; let another device be looked at."""
        if self._holds_copy_slot:
            self._holds_copy_slot = False
            self._context.gates.copies.leave(self._host.site, was_expected=self._is_leaving)
            self._is_leaving = False
            self._context.copied()

    @contextmanager
    def _hashing(self) -> Iterator[None]:
        """Hold a slot for a hash run for as long as the block lasts, with a session that is open."""
        gate = self._context.gates.hashes
        gate.enter(
            interrupted=self._context.interrupted,
            on_wait=self._queued("verify"),
            patience_s=PATIENCE_S,
            on_patience=self._log_out,
        )
        try:
            if self._is_logged_out:
                self._connect()
            yield
        finally:
            gate.leave()

    def _hash_slot(self) -> AbstractContextManager[None]:
        """Hold a slot for a hash run inside a dialogue that goes on behind it: the session stays open."""
        gate = self._context.gates.hashes
        return gate.slot(interrupted=self._context.interrupted, on_wait=self._queued("check"))

    @contextmanager
    def _telling(self, step: str) -> Iterator[None]:
        """Tell a step that is no Nornir task, and take its time."""
        self._tell(step, "started", "")
        started = time.monotonic()
        try:
            yield
        except Exception as error:
            self._tell(step, "failed", sentence_of(error))
            raise
        finally:
            self._spent(step, time.monotonic() - started)
        self._tell(step, "done", f"{time.monotonic() - started:.1f} s")

    def _queued(self, step: str) -> Callable[[str], None]:
        """Return what tells that the device waits before a step."""
        return lambda text: self._tell(step, "queued", text)

    def _heed(self, step: str) -> None:
        """Stop before a step where the run is to stop.

        Raises:
            Interrupted: It is.
        """
        if self._context.interrupted():
            raise Interrupted("stopped by the operator before this step", host=self._record.host, step=step)

    def _log_out(self) -> None:
        self._is_logged_out = True
        try:
            self._task.host.close_connections()
        except Exception as error:  # noqa: BLE001 -- a session that cannot be ended is not used any more either
            self._tell("connect", "note", f"note: logging out: {sentence_of(error)}")

"""Requests of the operator to a running run: pause, stop, approve a wave; by Ctrl-C or `flashferry run`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from flashferry.core.units import counted
from flashferry.model.lease import JournalUnusable
from flashferry.model.waves import Wave
from flashferry.planning.device_queue import Hold
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import Asker
from flashferry.store.journal import Journal

POLL_S = 1.0

_STOPPED = Hold(reason="the run was stopped before this device", for_good=True)

_AT_THE_TERMINAL = Asker(via="command-line", reason="asked at the run's own terminal")

Notify = Callable[[str, str, str], None]
"""Receives step, status and text of an event of the run."""

Approve = Callable[[Wave], bool | None]
"""Asks at the terminal whether a wave may start; None if no answer was given."""


class RunControl:
    """The operator's requests. Reads the journal before each start of a device, otherwise at most once a second.

    Args:
        journal: Holds the requests of other terminals.
        interrupted: Whether the operator pressed Ctrl-C here.
        approve: Asks at the terminal; None if there is none.
        stopping: Text of the event that is emitted when the run stops.
    """

    def __init__(
        self,
        journal: Journal,
        run_id: str,
        *,
        interrupted: Callable[[], bool],
        notify: Notify,
        approve: Approve | None = None,
        stopping: str = "ending what is under way and restoring every device",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal, self._run_id = journal, run_id
        self._interrupted, self._notify, self._approve, self._clock = interrupted, notify, approve, clock
        self._stopping = stopping
        self._requested = ControlRequest()
        self._looked_at = float("-inf")
        self._is_stopped = False

    def is_stopping(self) -> bool:
        """Return whether everything under way must end. Costs no I/O."""
        return self._is_stopped or self._interrupted() or self._requested.stopping

    def poll(self) -> ControlRequest:
        """Return the requests, at most a second old."""
        if self._clock() - self._looked_at < POLL_S:
            return self._requested
        return self._read()

    def _read(self) -> ControlRequest:
        """Read the requests, and report what changed."""
        self._looked_at = self._clock()
        before = self._requested
        try:
            self._requested = self._journal.control(self._run_id)
        except JournalUnusable:
            # The steps report that; the last requests still hold.
            return before
        self._notify_changes(before, self._requested)
        return self._requested

    def _notify_changes(self, before: ControlRequest, now: ControlRequest) -> None:
        if now.paused != before.paused:
            text = "nothing new begins, what is under way goes on" if now.paused else "goes on"
            self._notify("run", "paused" if now.paused else "continued", text)
        if now.stopping and not before.stopping:
            self._notify("run", "stopping", self._stopping)

    def hold(self) -> Hold | None:
        """Return why nothing may start at present, or None. Reads the journal: nothing starts after a request."""
        requested = self._read()
        if self.is_stopping():
            return _STOPPED
        if requested.paused:
            return Hold(reason="paused", for_good=False)
        return None

    def stop(self) -> None:
        """End everything under way: the run itself cannot continue."""
        self._is_stopped = True

    def await_approval(self, wave: Wave, over: Callable[[], Hold | None] = lambda: None) -> Hold | None:
        """Wait until a wave is approved; return why it may not start, or None.

        At a terminal the operator is asked; elsewhere `flashferry run approve` approves. `over` returns why waiting is
        pointless by now, or None.
        """
        self._notify(
            "wave",
            "waiting",
            f"wave {wave.number} ({wave.name}, {counted(len(wave.hosts), 'device')}) waits for approval",
        )
        self._note_waiting(wave.number)
        try:
            while not self.is_stopping():
                if self.poll().approved_wave >= wave.number:
                    return None
                if (hold := over()) is not None:
                    return hold
                answer = self._approve(wave) if self._approve is not None else None
                if answer is not None:
                    return self._answered(wave, is_approved=answer)
                time.sleep(POLL_S)
            return _STOPPED
        finally:
            self._note_waiting(None)

    def _answered(self, wave: Wave, *, is_approved: bool) -> Hold | None:
        if not is_approved:
            return Hold(reason=f"wave {wave.label} was not approved", for_good=True)
        # A run that is killed in this wave and resumed does not ask again.
        with suppress(JournalUnusable):
            self._journal.set_control(self._run_id, approved_wave=wave.number, asker=_AT_THE_TERMINAL)
        return None

    def _note_waiting(self, wave: int | None) -> None:
        # Shown to other terminals; an unusable journal must not end the run.
        with suppress(JournalUnusable):
            self._journal.set_waiting_wave(self._run_id, wave)

"""What the operator wants of a run that is under way, by Ctrl-C here or by `flashferry run` at another terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from staging.fleet.line import Bar
from staging.journal import Journal
from staging.planning.waves import Wave
from staging.store.control import RunControl
from staging.touched import JournalUnusable

LOOK_EVERY_S = 1.0

Tell = Callable[[str, str, str], None]
"""Takes step, status and text of an event of the run."""

Approve = Callable[[Wave], bool | None]
"""Asks whether a wave may begin; None where nobody can be asked here."""


class Steering:
    """Looks at the journal's wishes at most once a second; everybody else asks it.

    Args:
        journal: Where the wishes are.
        run_id: The run.
        interrupted: Whether the operator stopped it here.
        tell: Takes what changed.
        approve: Asks at the terminal, or None: nobody is there.
        clock: Seconds, going up.
    """

    def __init__(
        self,
        journal: Journal,
        run_id: str,
        *,
        interrupted: Callable[[], bool],
        tell: Tell,
        approve: Approve | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._journal, self._run_id = journal, run_id
        self._interrupted, self._tell, self._approve, self._clock = interrupted, tell, approve, clock
        self._wishes = RunControl()
        self._looked_at = float("-inf")
        self._declined: str | None = None

    def is_stopping(self) -> bool:
        """Return whether everything under way is to be ended; costs no I/O."""
        return self._interrupted() or self._wishes.stopping

    def look(self) -> RunControl:
        """Return the wishes as they are, a second old at most."""
        if self._clock() - self._looked_at < LOOK_EVERY_S:
            return self._wishes
        self._looked_at = self._clock()
        before = self._wishes
        try:
            self._wishes = self._journal.control(self._run_id)
        except JournalUnusable:
            # Steps find that out by themselves; what was wished last still holds.
            return before
        self._tell_changes(before, self._wishes)
        return self._wishes

    def _tell_changes(self, before: RunControl, now: RunControl) -> None:
        if now.paused != before.paused:
            text = "nothing new begins, what is under way goes on" if now.paused else "goes on"
            self._tell("run", "paused" if now.paused else "continued", text)
        if now.stopping and not before.stopping:
            self._tell("run", "stopping", "ending what is under way and restoring every device")

    def bar(self) -> Bar | None:
        """Return why nothing may begin at present, or None."""
        wishes = self.look()
        if self.is_stopping():
            return Bar(reason="the run was stopped before this device", for_good=True)
        if wishes.paused:
            return Bar(reason="paused", for_good=False)
        return None

    def may_begin(self, wave: Wave) -> str | None:
        """Wait until a wave is approved; return why it may not begin, or None.

        At a terminal the operator is asked; elsewhere `flashferry run approve` is waited for.
        """
        self._tell("wave", "waiting", f"wave {wave.number} ({wave.name}, {len(wave.hosts)} devices) waits for approval")
        self._journal.set_waiting_wave(self._run_id, wave.number)
        try:
            while not self.is_stopping():
                if self.look().approved_wave >= wave.number:
                    return None
                answer = self._approve(wave) if self._approve is not None else None
                if answer is not None:
                    return None if answer else f"wave {wave.number} ({wave.name}) was not approved"
                time.sleep(LOOK_EVERY_S)
            return "the run was stopped before this device"
        finally:
            self._journal.set_waiting_wave(self._run_id, None)

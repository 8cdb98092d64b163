"""Follow all open runs at once, reported in sentences only."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.core.value_description import counted
from flashferry.monitor.events import Event
from flashferry.sites.centre.centre import Centre
from flashferry.sites.centre.following import Follower
from flashferry.store.control_requests import Asker
from flashferry.store.sites.runs import open_runs

ALL_POLL_S = 1.0
_PRUNE_EVERY_S = 3600.0


class FleetFollower:
    """Follow every open run, including those that start meanwhile.

    Args:
        centre: The open centre.
        asker: The operator.
        say: Shows sentences: states of sites, silence, and failures.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, centre: Centre, asker: Asker, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._centre, self._asker, self._say, self._clock = centre, asker, say, clock
        self._prune_at_s = clock()
        self._followers: dict[str, Follower] = {}
        self._broken: set[str] = set()

    def check(self) -> tuple[str, ...]:
        """Check every open run once, and remove old events now and then; return the runs that ended."""
        try:
            self._prune()
            with self._centre.ledger.reading() as database:
                found = open_runs(database)
            return tuple(run for run in found if run not in self._broken and self._has_ended(run))
        except sqlite3.Error as error:
            self._say(f"the ledger cannot be used for now: {masked(str(error))}")
            return ()

    def _prune(self) -> None:
        if self._clock() < self._prune_at_s:
            return
        found = self._centre.drop_old_events()
        if found.events:
            days = self._centre.settings.keep_days
            self._say(f"{counted(found.events, 'event')} of runs that ended over {days} days ago went; records stay")
        # What is left goes with the next look: runs under way come first.
        self._prune_at_s = self._clock() + (_PRUNE_EVERY_S if found.is_all else 0.0)

    def _has_ended(self, run: str) -> bool:
        try:
            if run not in self._followers:
                self._followers[run] = Follower(self._centre, self._centre.run_named(run), self._asker)
                self._say(f"run {run} is followed")
            if not self._followers[run].check(_Spoken(run, self._say)):
                return False
        except ConfigInvalid as error:
            # Its plan in the ledger is damaged: others go on.
            self._broken.add(run)
            self._say(f"run {run} is left alone: {error}")
            return False
        del self._followers[run]
        self._say(f"run {run} has ended at all sites")
        return True


class _Spoken:
    """Show a run as sentences only."""

    def __init__(self, run: str, say: Callable[[str], None]) -> None:
        self._run, self._say = run, say

    def __call__(self, event: Event) -> None:
        """Show an event; of devices only failures."""
        if event.host is None and event.text and event.step.startswith("site "):
            self.say(f"{event.step}: {event.text}")
        elif event.host is not None and event.step == "device" and event.status == "failed":
            self.say(f"{event.host}: {event.text}")

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._say(f"run {self._run}: {text}")

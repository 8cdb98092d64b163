"""All runs of a ledger kept going at the same time: for a centre that is always there, without a view."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.core.safe_quote import counted
from flashferry.monitor.events import Event
from flashferry.sites.centre.centre import Centre
from flashferry.sites.centre.following import Follower
from flashferry.store.control_requests import Asker
from flashferry.store.sites.runs import open_runs

LOOK_S = 1.0
_PRUNE_EVERY_S = 3600.0


class Listener:
    """Follows every run that is open, those too that start meanwhile.

    Args:
        centre: Open, so that it collects.
        asker: Who runs it.
        say: Takes what people should know: of each run its sites' states, silence, and what failed.
        clock: Seconds, going up.
    """

    def __init__(
        self, centre: Centre, asker: Asker, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._centre, self._asker, self._say, self._clock = centre, asker, say, clock
        self._prune_at_s = clock()
        self._followers: dict[str, Follower] = {}
        self._broken: set[str] = set()

    def look(self) -> tuple[str, ...]:
        """Look once after every open run, and now and then after old events; return those that ended with this look."""
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
            if not self._followers[run].look(_Spoken(run, self._say)):
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
    """Report a run in sentences alone."""

    def __init__(self, run: str, say: Callable[[str], None]) -> None:
        self._run, self._say = run, say

    def __call__(self, event: Event) -> None:
        """Take an event: of devices only failures are reported."""
        if event.host is None and event.text and event.step.startswith("site "):
            self.say(f"{event.step}: {event.text}")
        elif event.host is not None and event.step == "device" and event.status == "failed":
            self.say(f"{event.host}: {event.text}")

    def say(self, text: str) -> None:
        """Report a sentence."""
        self._say(f"run {self._run}: {text}")

"""Runs followed from the ledger until all their parts have ended.

Following also keeps a run going: orders that no agent has acknowledged are sent again, agents' words are
acknowledged, and all sites continue once the canaries are good. A killed centre loses none of that: `sites follow`
reads the same ledger.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from flashferry.core.codec import CodecError, decode
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.core.units import size
from flashferry.core.value_description import counted
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.monitor.events import Event
from flashferry.monitor.progress import Expected, Roster
from flashferry.sites.centre.centre import Centre, plan_in
from flashferry.sites.centre.collecting import CANARIES, now
from flashferry.sites.centre.gate import decide, wave_that_waits
from flashferry.sites.centre.overview import fetching_for
from flashferry.sites.centre.sharing import ago
from flashferry.store.control_requests import Asker, SteerKind
from flashferry.store.database import moment, moment_of
from flashferry.store.sites.agents import AgentState
from flashferry.store.sites.runs import Part, PartState, SiteRun, end_run, open_runs, parts_of, run_of
from flashferry.store.sites.words import DeviceOutcome, News, news_of, outcomes_of

POLL_S = 0.5
_GATE_EVERY_S = 2.0
_REMIND_S = 300.0
"""So often it is said again that a site is silent."""
_MANY_NOTES = 3
_STEP_PERCENT = 25
"""An image that comes into a depot is reported again when it is so much further."""


class View(Protocol):
    """What shows a run's events to people."""

    def __call__(self, event: Event) -> None:
        """Take an event."""

    def say(self, text: str) -> None:
        """Show a sentence."""


def roster_of(plan: FleetPlan, sites: dict[str, str]) -> Roster:
    """Return which devices a run has, for its view.

    Args:
        plan: The plan.
        sites: The site to which each device was given, by device; others take no part.
    """
    sizes = {image.name: image.size_bytes for image in plan.images}
    devices = tuple(
        Expected(host=one.host, site=sites[one.host], size_bytes=sizes.get(one.image or ""))
        for one in plan.of(Action.STAGE)
        if one.host in sites
    )
    caps = {site.site: site.cap_bytes_per_s for site in plan.sites if site.cap_bytes_per_s is not None}
    return Roster(devices=devices, caps_bytes_per_s=caps)


class Follower:
    """Follows one run.

    Args:
        centre: Open, so that it collects.
        run: The run.
        asker: Who follows: in their name sites are asked to stop.
        clock: Seconds, going up.
    """

    def __init__(self, centre: Centre, run: SiteRun, asker: Asker, clock: Callable[[], float] = time.monotonic) -> None:
        self._centre, self._run, self._asker, self._clock = centre, run, asker, clock
        self._plan = plan_in(run)
        self._started_at, self._shown_s = moment_of(run.begun_at), 0.0
        self._seen = News(lines=(), event_seq=0, changed=0)
        self._states: dict[tuple[str, int], tuple[PartState, str]] = {}
        self._silent: dict[str, float] = {}
        self._last_at: dict[str, datetime | None] = {}
        self._fetched: dict[str, str] = {}
        self._fetched_to: dict[str, tuple[str, str, int]] = {}
        self._gate_at = self._trouble_at = float("-inf")
        self._is_stopping = False
        self._waiting: int | None = None
        self.has_left = False

    def roster(self) -> Roster:
        """Return which devices it has."""
        with self._centre.ledger.reading() as database:
            sites = {one.host: one.site for one in outcomes_of(database, self._run.run)}
        return roster_of(self._plan, sites)

    def silence(self) -> dict[str, str]:
        """Return, as text, when the last word came from each site that has work and is silent.

        A view calls it with each frame; it reads nothing.
        """
        at = now()
        return {site: _last_message(last, at) for site, last in self._last_at.items()}

    def fetching(self) -> dict[str, str]:
        """Return which image comes into the depot of each site whose part is under way, and how far it is, in words.

        Asked and answered as `silence` is.
        """
        return self._fetched

    def follow(
        self,
        view: View,
        interrupted: Callable[[], bool] = lambda: False,
        left: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Show what happens until all parts have ended; return whether they have.

        Args:
            view: Takes events and sentences.
            interrupted: Whether the operator wants it stopped: every site that is not through gets a stop, once.
            left: Whether the operator goes away: the run goes on at the sites.
        """
        view(Event(host=None, step="run", status="started", text=self._run.run, at_s=0.0, run_id=self._run.run))
        while True:
            if self.check(view):
                return True
            if left():
                self.has_left = True
                return False
            if interrupted() and not self._is_stopping:
                self._stop(view)
            time.sleep(POLL_S)

    def check(self, view: View) -> bool:
        """Take what is new to the view and to the sites, once; return whether all parts have ended."""
        # The parts first: what ended a part is then among the news of the same look.
        with self._centre.ledger.reading() as database:
            parts = parts_of(database, self._run.run)
        self._show_news(view)
        self._show_parts(view, parts)
        known = self._centre.agents()
        self._show_silence(view, parts, known)
        self._show_fetching(view, parts, known)
        self._tend(view)
        if self._clock() - self._gate_at >= _GATE_EVERY_S:
            self._gate_at = self._clock()
            self._check_waves(view, has_held=any(part.state is PartState.HELD for part in parts))
        if is_over := all(part.is_over for part in parts):
            self._end()
        return is_over

    def _show_news(self, view: View) -> None:
        while True:
            with self._centre.ledger.reading() as database:
                self._seen = news_of(
                    database, self._run.run, event_seq=self._seen.event_seq, changed=self._seen.changed
                )
            for site, line in self._seen.lines:
                if (event := self._event(site, line)) is not None:
                    view(event)
            if not self._seen.lines:
                return

    def _event(self, site: str, line: dict[str, Any]) -> Event | None:
        """Return an event as this run has it; of what a site's run reports of itself, what people are to know."""
        try:
            event = decode(Event, line)
        except CodecError:
            return None
        # A site's run counts from its own start, after ours.
        at = line.get("at")
        event = replace(event, site=site, run_id=None, at_s=self._since_start_s(at if isinstance(at, str) else ""))
        if event.host is not None:
            return event
        is_news = event.status in {"failed", "waiting", "paused", "continued", "stopping"} or event.step == "message"
        if not is_news or not event.text:
            return None
        return replace(event, step=f"site {site}", status="note")

    def _show_parts(self, view: View, parts: Sequence[Part]) -> None:
        for part in parts:
            now_is = (part.state, part.sentence)
            key = (part.site, part.round)
            if self._states.get(key) != now_is and part.state not in (PartState.HELD, PartState.GIVEN):
                is_bad = part.state is PartState.REFUSED
                which = "its canaries " if part.round == CANARIES else ""
                text = f"{which}{part.state.value}" + (f": {part.sentence}" if part.sentence else "")
                view(
                    Event(
                        host=None,
                        step=f"site {part.site}",
                        status="failed" if is_bad else "note",
                        text=masked(text),
                        at_s=self._since_start_s(part.changed_at),
                        site=part.site,
                    )
                )
            self._states[key] = now_is

    def _show_silence(self, view: View, parts: Sequence[Part], known: Mapping[str, AgentState]) -> None:
        """Report which sites are silent, once each time and then every few minutes, and which answer again."""
        at, fresh = now(), []
        last_at: dict[str, datetime | None] = {}
        for part in parts:
            last = moment_of(known[part.site].heard_at) if part.site in known else None
            is_silent = last is None or (at - last).total_seconds() > self._centre.settings.silent_after_s
            if is_silent and not part.is_over:
                last_at[part.site] = last
                if self._clock() - self._silent.get(part.site, float("-inf")) >= _REMIND_S:
                    self._silent[part.site] = self._clock()
                    fresh.append(f"{part.site} ({_last_message(last, at)})")
            elif not is_silent and self._silent.pop(part.site, None) is not None:
                view.say(f"site {part.site} answers again")
        # At once, for another thread may be drawing.
        self._last_at = last_at
        if fresh:
            more = f" and {len(fresh) - _MANY_NOTES} more" if len(fresh) > _MANY_NOTES else ""
            view.say(f"silent: {', '.join(fresh[:_MANY_NOTES])}{more}; what it has in hand goes on there")

    def _show_fetching(self, view: View, parts: Sequence[Part], known: Mapping[str, AgentState]) -> None:
        """Say which images come into depots of sites that answer: when one begins, and at each quarter of it."""
        fetched: dict[str, str] = {}
        for part in parts:
            found = fetching_for(part, known)
            if found is None or part.site in self._last_at or part.site in fetched:
                continue
            fetched[part.site] = masked(found.in_words)
            far = (found.image, found.phase, found.percent // _STEP_PERCENT)
            if self._fetched_to.get(part.site) != far:
                self._fetched_to[part.site] = far
                view.say(f"site {part.site} fetches {fetched[part.site]} of {size(found.size_bytes)}")
        # At once, for another thread may be drawing.
        self._fetched = fetched

    def _tend(self, view: View) -> None:
        tended = self._centre.orders.tend(self._run.run)
        if tended.trouble and self._clock() - self._trouble_at >= _REMIND_S:
            self._trouble_at = self._clock()
            view.say(f"{tended.trouble}. It is tried again; what sites have in hand goes on there")
        elif not tended.trouble and self._trouble_at != float("-inf"):
            self._trouble_at = float("-inf")
            view.say("the broker takes orders again")

    def _check_waves(self, view: View, *, has_held: bool) -> None:
        """Let sites start what can start now, and report which wave waits for an approval."""
        if has_held:
            # What a centre that died had entered, and not given out yet.
            self._centre.give_out(self._run.run)
        elif not self._plan.policy.approve:
            return
        with self._centre.ledger.reading() as database:
            run = run_of(database, self._run.run)
            if run is None or run.approved_wave is None or run.stopped is not None:
                return
            found = outcomes_of(database, self._run.run)
        if has_held and self._has_stopped(view, run, found):
            return
        self._show_waiting(view, run, found)

    def _has_stopped(self, view: View, run: SiteRun, found: Sequence[DeviceOutcome]) -> bool:
        """Open what canaries hold back where they are good, or end it; return whether nothing more begins."""
        decision = decide(self._plan, run.approved_wave, found, is_stopped=False)
        if decision.stop:
            view.say(f"no site begins anything more: {decision.stop}")
            self._centre.end(self._run.run, decision.stop)
        elif decision.goes_on:
            view.say("the first devices (canaries) are good: all sites go on")
            self._centre.let_on(self._run.run, None)
        return bool(decision.stop)

    def _show_waiting(self, view: View, run: SiteRun, found: Sequence[DeviceOutcome]) -> None:
        """Report which wave waits for an approval, once for each."""
        wave = wave_that_waits(self._plan.policy, run.approved_wave, found, is_stopped=False)
        if wave is not None and wave != self._waiting:
            view.say(f"wave {wave} waits: 'flashferry sites approve {run.run} --wave {wave}' lets sites begin it")
        self._waiting = wave

    def _stop(self, view: View) -> None:
        self._is_stopping = True
        sites = self._centre.steer(self._run, SteerKind.STOP, self._asker)
        view.say(
            f"{counted(len(sites), 'site')} asked to stop: copies under way end, every device is restored. "
            f"Press it once more to leave the run to them; 'flashferry sites follow {self._run.run}' follows it again"
        )

    def _end(self) -> None:
        with self._centre.ledger.writing() as database:
            end_run(database, self._run.run, at=moment(now()))
        self._centre.remove_old_plans()
        self._centre.orders.tend(self._run.run)

    def _since_start_s(self, at: str) -> float:
        """Return how long after the start of the run something happened, seconds: that of the latest event at least.

        Clocks of sites differ, and what a site that was cut off has to report comes late; lines do not go back in time.

        Args:
            at: When it happened, ISO 8601; anything else: not known.
        """
        try:
            happened_s = (moment_of(at) - self._started_at).total_seconds()
        except (ValueError, TypeError):
            happened_s = self._shown_s
        latest_s = (now() - self._started_at).total_seconds()
        self._shown_s = max(self._shown_s, min(happened_s, latest_s))
        return self._shown_s


def _last_message(last: datetime | None, at: datetime) -> str:
    return "no message yet" if last is None else f"last message {ago(last, at)}"


ALL_POLL_S = 1.0
_PRUNE_EVERY_S = 3600.0


class FleetFollower:
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

    def check(self) -> tuple[str, ...]:
        """Check every open run once, and now and then old events; return the runs that ended with this check."""
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

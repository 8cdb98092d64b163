"""Follow runs in the ledger until all their parts have ended, and keep them going.

Orders without an answer are sent again, agents' words are acknowledged, and all sites continue once the canaries are
good. After a crash of the centre, `sites follow` continues from the same ledger.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec.structs import replace

from flashferry.core.codec import CodecError, decode
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.core.units import counted, size
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.monitor.events import Event
from flashferry.monitor.progress import Expected, Roster
from flashferry.sites.centre.centre import Centre
from flashferry.sites.centre.collecting import CANARIES, now
from flashferry.sites.centre.gate import decide, wave_that_waits
from flashferry.sites.centre.overview import fetching_for
from flashferry.sites.centre.plans import plan_in, remove_old_plans
from flashferry.sites.centre.sharing import ago
from flashferry.store.control_requests import Asker, SteerKind
from flashferry.store.database import moment, moment_of
from flashferry.store.sites.agents import AgentState
from flashferry.store.sites.runs import Part, PartState, SiteRun, end_run, open_runs, parts_of, run_of
from flashferry.store.sites.words import DeviceOutcome, News, news_of, outcomes_of

REMIND_S = 300.0
"""Interval between reports that a site is silent."""
_MANY_NOTES = 3
_STEP_PERCENT = 25
"""Progress of a depot's fetch is reported in steps of this size."""


class SiteSignals:
    """What a run's sites signal between their reports.

    Args:
        silent_after_s: An agent without a word for this time counts as silent.
        clock: Returns monotonic seconds.

    Attributes:
        fetching: The fetch in progress of each site's depot, in words.
    """

    def __init__(self, silent_after_s: float, clock: Callable[[], float]) -> None:
        self._silent_after_s, self._clock = silent_after_s, clock
        self._silent: dict[str, float] = {}
        self._last_at: dict[str, datetime | None] = {}
        self.fetching: dict[str, str] = {}
        self._fetched_to: dict[str, tuple[str, str, int]] = {}

    def silence(self) -> dict[str, str]:
        """Return the time of the last message of each silent site with work; reads nothing."""
        at = now()
        return {site: _last_message(last, at) for site, last in self._last_at.items()}

    def check(self, parts: Sequence[Part], known: Mapping[str, AgentState], say: Callable[[str], None]) -> None:
        """Report what changed since the last call."""
        self._show_silence(parts, known, say)
        self._show_fetching(parts, known, say)

    def _show_silence(self, parts: Sequence[Part], known: Mapping[str, AgentState], say: Callable[[str], None]) -> None:
        """Report silent sites, repeated every few minutes, and sites that answer again."""
        at, fresh = now(), []
        last_at: dict[str, datetime | None] = {}
        for part in parts:
            last = moment_of(known[part.site].last_message_at) if part.site in known else None
            is_silent = last is None or (at - last).total_seconds() > self._silent_after_s
            if is_silent and not part.is_over:
                last_at[part.site] = last
                if self._clock() - self._silent.get(part.site, float("-inf")) >= REMIND_S:
                    self._silent[part.site] = self._clock()
                    fresh.append(f"{part.site} ({_last_message(last, at)})")
            elif not is_silent and self._silent.pop(part.site, None) is not None:
                say(f"site {part.site} answers again")
        # At once, for another thread may be drawing.
        self._last_at = last_at
        if fresh:
            more = f" and {len(fresh) - _MANY_NOTES} more" if len(fresh) > _MANY_NOTES else ""
            say(f"silent: {', '.join(fresh[:_MANY_NOTES])}{more}; what it has in hand goes on there")

    def _show_fetching(
        self, parts: Sequence[Part], known: Mapping[str, AgentState], say: Callable[[str], None]
    ) -> None:
        """Report the fetches into depots, at the start and after each quarter."""
        fetched: dict[str, str] = {}
        for part in parts:
            found = fetching_for(part, known)
            if found is None or part.site in self._last_at or part.site in fetched:
                continue
            fetched[part.site] = masked(found.in_words)
            far = (found.image, found.phase, found.percent // _STEP_PERCENT)
            if self._fetched_to.get(part.site) != far:
                self._fetched_to[part.site] = far
                say(f"site {part.site} fetches {fetched[part.site]} of {size(found.size_bytes)}")
        # At once, for another thread may be drawing.
        self.fetching = fetched


def _last_message(last: datetime | None, at: datetime) -> str:
    return "no message yet" if last is None else f"last message {ago(last, at)}"


POLL_S = 0.5
_GATE_EVERY_S = 2.0


class View(Protocol):
    """Shows a run's events to people."""

    def __call__(self, event: Event) -> None:
        """Show an event."""

    def say(self, text: str) -> None:
        """Show a sentence."""


def roster_of(plan: FleetPlan, sites: dict[str, str]) -> Roster:
    """Return the devices of a run for its view; `sites` has the site of each device that takes part."""
    sizes = {image.name: image.size_bytes for image in plan.images}
    devices = tuple(
        Expected(host=one.host, site=sites[one.host], size_bytes=sizes.get(one.image or ""))
        for one in plan.of(Action.STAGE)
        if one.host in sites
    )
    caps = {site.site: site.cap_bytes_per_s for site in plan.sites if site.cap_bytes_per_s is not None}
    return Roster(devices=devices, caps_bytes_per_s=caps)


class Follower:
    """Follow one run.

    Args:
        centre: The open centre.
        run: The run.
        asker: The operator, who is the requester of a stop.
        clock: Returns monotonic seconds.
    """

    def __init__(self, centre: Centre, run: SiteRun, asker: Asker, clock: Callable[[], float] = time.monotonic) -> None:
        self._centre, self._run, self._asker, self._clock = centre, run, asker, clock
        self._plan = plan_in(run)
        self._started_at, self._shown_s = moment_of(run.started_at), 0.0
        self._seen = News(lines=(), event_seq=0, changed=0)
        self._states: dict[tuple[str, int], tuple[PartState, str]] = {}
        self._signals = SiteSignals(centre.settings.silent_after_s, clock)
        self._gate_at = self._trouble_at = float("-inf")
        self._is_stopping = False
        self._waiting: int | None = None
        self.has_left = False

    def roster(self) -> Roster:
        """Return the run's devices."""
        with self._centre.ledger.reading() as database:
            sites = {one.host: one.site for one in outcomes_of(database, self._run.run)}
        return roster_of(self._plan, sites)

    def silence(self) -> dict[str, str]:
        """Return the time of the last message of each silent site with work; reads nothing."""
        return self._signals.silence()

    def fetching(self) -> dict[str, str]:
        """Return the fetch in progress of each site's depot, in words; reads nothing."""
        return self._signals.fetching

    def follow(
        self,
        view: View,
        interrupted: Callable[[], bool] = lambda: False,
        left: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Show what happens until all parts have ended; return whether they have.

        Args:
            view: Shows events and sentences.
            interrupted: Whether the operator asked to stop: every site that has not ended gets one stop.
            left: Whether the operator leaves: the run continues at the sites.
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
        """Show and send what is new, once; return whether all parts have ended."""
        # The parts first: what ended a part is then among the news of the same look.
        with self._centre.ledger.reading() as database:
            parts = parts_of(database, self._run.run)
        self._show_news(view)
        self._show_parts(view, parts)
        self._signals.check(parts, self._centre.agents(), view.say)
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
        """Convert an event of a site's run to one of this run; None if it is not for people."""
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

    def _tend(self, view: View) -> None:
        tended = self._centre.orders.tend(self._run.run)
        if tended.trouble and self._clock() - self._trouble_at >= REMIND_S:
            self._trouble_at = self._clock()
            view.say(f"{tended.trouble}. It is tried again; what sites have in hand goes on there")
        elif not tended.trouble and self._trouble_at != float("-inf"):
            self._trouble_at = float("-inf")
            view.say("the broker takes orders again")

    def _check_waves(self, view: View, *, has_held: bool) -> None:
        """Let sites start what can start now, and report the wave that waits for an approval."""
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
        """Continue after good canaries, or end the run; return whether it ended."""
        decision = decide(self._plan, run.approved_wave, found, is_stopped=False)
        if decision.stop:
            view.say(f"no site begins anything more: {decision.stop}")
            self._centre.end(self._run.run, decision.stop)
        elif decision.goes_on:
            view.say("the first devices (canaries) are good: all sites go on")
            self._centre.let_on(self._run.run, None)
        return bool(decision.stop)

    def _show_waiting(self, view: View, run: SiteRun, found: Sequence[DeviceOutcome]) -> None:
        """Report the wave that waits for an approval, once for each."""
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
        remove_old_plans(self._centre.ledger, self._centre.settings)
        self._centre.orders.tend(self._run.run)

    def _since_start_s(self, at: str) -> float:
        """Return the seconds from the run's start to an event, never less than for the event before.

        Sites' clocks differ, and reports of a disconnected site come late; lines must not go back in time. `at`: ISO
        8601; anything else is unknown.
        """
        try:
            happened_s = (moment_of(at) - self._started_at).total_seconds()
        except (ValueError, TypeError):
            happened_s = self._shown_s
        latest_s = (now() - self._started_at).total_seconds()
        self._shown_s = max(self._shown_s, min(happened_s, latest_s))
        return self._shown_s


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

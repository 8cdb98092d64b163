"""Open the centre for a command: receive agents' words, give runs to sites, and steer them.

Several can be open at once, such as `stage` and `sites follow`; both use the same ledger.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.model.fleet_plan import FleetPlan, PlannedDevice
from flashferry.sites.centre.collecting import CANARIES, CHECK_PREFIX, OTHERS, Collector, now
from flashferry.sites.centre.gate import first_wave
from flashferry.sites.centre.ordering import ListeningBroker, Orders, fresh_id
from flashferry.sites.centre.plans import ReadPlan, offer, remove_old_plans, run_in
from flashferry.sites.centre.settings import CentreSettings
from flashferry.sites.centre.sharing import Share, check_ready, refusals
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import OrderJob
from flashferry.store.control_requests import Asker, SteerKind
from flashferry.store.database import moment, moment_of
from flashferry.store.sites.agents import AgentState, agents_by_site
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import (
    Dropped,
    Part,
    PartDevice,
    PartState,
    SiteRun,
    add_orders,
    add_run,
    add_steer_request,
    drop_events,
    end_held,
    give,
    parts_of,
    run_of,
    set_approved,
    set_stopped,
    waves_of,
)

_LOG = logging.getLogger("flashferry.sites.centre")
OWNER = "centre"
"""Our name at the broker."""
LONGEST_S = 12 * 3600.0
"""How long a part can start if the plan has no end, seconds."""
_POLL_S = 0.25
_MOST_EVENTS = 50_000
"""Old events removed at a time, to keep the transaction short."""
_JOBS = {
    SteerKind.PAUSE: OrderJob.PAUSE,
    SteerKind.CONTINUE: OrderJob.CONTINUE,
    SteerKind.STOP: OrderJob.STOP,
    SteerKind.APPROVE: OrderJob.APPROVE,
}


def our_release() -> str:
    """Return our release, as orders name it."""
    return version("flashferry")


@contextmanager
def open_centre(settings: CentreSettings, state: Path) -> Iterator[Centre]:
    """Open the centre for a block and receive words from now on. Removes some old events and plans.

    Args:
        settings: The centre's settings.
        state: The state folder, where the ledger is.

    Raises:
        ConfigInvalid: The key, the ledger or the broker's settings are invalid.
    """
    key = PrivateKey.load(settings.key)
    ledger = SitesDatabase(state)
    broker = ListeningBroker(settings.broker, owner=OWNER)
    collector = Collector(ledger, settings)
    try:
        with broker.listening(collector.take):
            centre = Centre(settings, ledger, collector, Orders(broker, ledger, settings, key, our_release()))
            _tidy(centre)
            yield centre
    finally:
        broker.close()


def _tidy(centre: Centre) -> None:
    try:
        centre.drop_old_events()
        remove_old_plans(centre.ledger, centre.settings)
    except sqlite3.Error as error:
        # Nothing waits for it: the next one does it, and what is wrong with the disk is reported by what does.
        _LOG.warning("old events and plans stay for now: %s", masked(str(error)))


class Centre:
    """What commands do with sites; made by `open_centre`."""

    def __init__(self, settings: CentreSettings, ledger: SitesDatabase, collector: Collector, orders: Orders) -> None:
        self.settings, self.ledger, self.collector, self.orders = settings, ledger, collector, orders

    def agents(self) -> dict[str, AgentState]:
        """Return the known state of agents, by site."""
        with self.ledger.reading() as database:
            return agents_by_site(database)

    def ask(self, sites: Sequence[str], interrupted: Callable[[], bool] = lambda: False) -> datetime:
        """Ask agents for their state, and wait for all answers, or for the time in the settings.

        Returns:
            When they were asked.

        Raises:
            BrokerUnreachable: The broker does not accept the orders.
        """
        # As the ledger keeps times, to the millisecond: an answer within the same one is no answer from before.
        asked_at = moment_of(moment(now()))
        run = fresh_id(CHECK_PREFIX.removesuffix("-"))
        self.collector.ask(run)
        self.orders.ask(run, sites)
        until_s = time.monotonic() + self.settings.answer_s
        while time.monotonic() < until_s and not interrupted():
            known = self.agents()
            if all(site in known and moment_of(known[site].last_message_at) >= asked_at for site in sites):
                break
            time.sleep(_POLL_S)
        for site, (called, offset) in self.collector.answers().items():
            self.orders.acknowledge(called, site, offset)
        return asked_at

    def begin(self, read: ReadPlan, found: Sequence[Share], asker: Asker, left_out: Sequence[str] = ()) -> str:
        """Offer a plan and give each site its part; return the run's ID.

        Args:
            read: The plan.
            found: The part of each site.
            asker: The requester.
            left_out: Devices of the plan that no report of the run has.

        Raises:
            ConfigInvalid: A site's agent is silent, of another release, not alone, or its clock is off; the plan has
                ended, or cannot be offered. Nothing was sent.
            BrokerUnreachable: The broker is unreachable; nothing was sent.
        """
        until = _until(read.plan)
        sites = [share.site for share in found]
        asked_at = self.ask(sites)
        known = self.agents()
        check_ready(refusals(sites, known, self.settings, release=our_release(), now=now(), asked_at=asked_at))
        run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self._enter(run, read, found, known, until, asker, tuple(left_out))
        self.give_out(run)
        return run

    def give_out(self, run: str) -> tuple[str, ...]:
        """Give out the held parts that can start now; return their sites."""
        with self.ledger.writing() as database:
            entry = run_of(database, run)
            assert entry is not None
            limit = entry.approved_wave
            ready = [
                part
                for part in parts_of(database, run)
                if part.state is PartState.HELD and (limit is None or part.from_wave <= limit)
            ]
            for part in ready:
                give(database, part, at=moment(now()))
            # In one transaction: a part that is given has its order, whatever dies now.
            add_orders(database, self.orders.kept(ready, OrderJob.STAGE, moment_of(entry.valid_until)))
        return tuple(part.site for part in ready)

    def let_on(self, run: str, wave: int | None) -> tuple[str, ...]:
        """Approve a run up to a wave (None: all), and give out the parts held for it; return their sites."""
        with self.ledger.writing() as database:
            set_approved(database, run, wave)
        return self.give_out(run)

    def end(self, run: str, why: str) -> None:
        """Record why a run starts nothing more, and end its held parts."""
        with self.ledger.writing() as database:
            set_stopped(database, run, why)
            end_held(database, run, f"not given: {why}", at=moment(now()))

    def _enter(
        self,
        run: str,
        read: ReadPlan,
        found: Sequence[Share],
        known: dict[str, AgentState],
        until: datetime,
        asker: Asker,
        left_out: tuple[str, ...],
    ) -> None:
        at = moment(now())
        entry = SiteRun(
            run=run,
            digest=read.plan.digest,
            plan=read.text,
            started_at=at,
            started_by=asker.actor,
            valid_until=moment(until),
            approved_wave=first_wave(read.plan),
            left_out=left_out,
        )
        first = frozenset(read.plan.waves[0].hosts) if first_wave(read.plan) is not None else frozenset()
        rounds = {
            (one.site, number): devices for one in found for number, devices in in_rounds(one.devices, first).items()
        }
        parts = [
            Part(
                run=run,
                site=site,
                round=number,
                from_wave=min(device.wave for device in devices),
                agent=known[site].agent,
                state=PartState.HELD,
                changed_at=at,
            )
            for (site, number), devices in rounds.items()
        ]
        devices = [
            PartDevice(host=device.host, site=site, round=number, wave=device.wave)
            for (site, number), members in rounds.items()
            for device in members
        ]
        # In one transaction: the file of a plan that is about to have another run is not removed meanwhile.
        with self.ledger.writing() as database:
            add_run(database, replace(entry, is_offered=offer(read, self.settings)), parts, devices)

    def drop_old_events(self) -> Dropped:
        """Remove some events of runs that ended longer ago than the settings keep them.

        Raises:
            sqlite3.Error: The ledger cannot be written.
        """
        before = moment(now() - timedelta(days=self.settings.keep_days))
        return drop_events(self.ledger, before, most=_MOST_EVENTS)

    def run_named(self, given: str) -> SiteRun:
        """Return a run by its ID, the ID's start or end, or `latest`.

        Raises:
            ConfigInvalid: No run matches, or several do.
        """
        return run_in(self.ledger, given)

    def steer(
        self, run: SiteRun, what: SteerKind, asker: Asker, *, site: str | None = None, wave: int | None = None
    ) -> tuple[str, ...]:
        """Record a request about a run and send it to sites; return the sites.

        Args:
            run: The run.
            what: The request.
            asker: The requester.
            site: Only this site; None: all that have not ended.
            wave: The last wave to approve.

        Raises:
            ConfigInvalid: No such site has a part under way.
        """
        with self.ledger.reading() as database:
            parts = _open_parts(run.run, parts_of(database, run.run), site)
            waves = {(part.site, part.round): waves_of(database, part) for part in parts}
        until = max(moment_of(run.valid_until), now()) + timedelta(seconds=LONGEST_S)
        why = asker.reason or "it was stopped"
        with self.ledger.writing() as database:
            add_steer_request(database, run.run, what.value, asker, at=moment(now()), site=site, wave=wave)
            if what is SteerKind.STOP:
                end_held(database, run.run, f"not given: {why}", at=moment(now()), site=site)
                if site is None:
                    set_stopped(database, run.run, why)
        given = [part for part in parts if part.state is not PartState.HELD]
        if what is SteerKind.APPROVE:
            self._approve(run, given, waves, until, wave, is_for_all=site is None)
        else:
            self.orders.made(given, _JOBS[what], until)
        return tuple(dict.fromkeys(part.site for part in parts))

    def _approve(
        self,
        run: SiteRun,
        given: Sequence[Part],
        waves: Mapping[tuple[str, int], Sequence[int]],
        until: datetime,
        wave: int | None,
        *,
        is_for_all: bool,
    ) -> None:
        """Approve each site's waves up to this one, and give out the parts held for it."""
        for part in given:
            mine = [one for one in waves[part.site, part.round] if wave is None or one <= wave]
            if mine and mine[-1] > part.from_wave:
                self.orders.made([part], OrderJob.APPROVE, until, wave=mine[-1])
        if is_for_all:
            self.let_on(run.run, wave)


def in_rounds(devices: Sequence[PlannedDevice], first: frozenset[str]) -> dict[int, tuple[PlannedDevice, ...]]:
    """Return a site's devices by round: those of the fleet's first wave, then the others; empty rounds are left out."""
    canaries = tuple(device for device in devices if device.host in first)
    others = tuple(device for device in devices if device.host not in first)
    return {number: found for number, found in ((CANARIES, canaries), (OTHERS, others)) if found}


def _open_parts(run: str, parts: Sequence[Part], site: str | None) -> tuple[Part, ...]:
    named = [part for part in parts if site in (None, part.site)]
    found = tuple(part for part in named if not part.is_over)
    if not found:
        known = ", ".join(dict.fromkeys(part.site for part in parts))
        what = f"site {site} to have something of run {run} in hand" if site else f"run {run} to be under way"
        raise ConfigInvalid(
            f"expected {what}, found none{'' if named else f' of that name: {known}'}; nothing was sent",
            hint=f"'flashferry sites show {run}' shows where it stands",
        )
    return found


def _until(plan: FleetPlan) -> datetime:
    """Return until when a part can start. Raises `ConfigInvalid`: the plan's end is past."""
    if plan.ends_at is None:
        return now() + timedelta(seconds=LONGEST_S)
    until = datetime.fromisoformat(plan.ends_at).astimezone(UTC)
    if until <= now():
        raise ConfigInvalid(
            f"the plan's end, {plan.ends_at}, is past; nothing was sent", hint="Make a new one with 'flashferry plan'"
        )
    return until

"""Run the agent of a site: claim the site, receive orders, carry them out in turn, report, and end in order."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import masked
from flashferry.depot.catalogue.part import CatalogueBusy
from flashferry.depot.sync.filling import SourceRefused, SourceUnreachable, SyncProgress
from flashferry.sites.agent.bench import Bench, SiteDepot
from flashferry.sites.agent.execution import carry_out, end_after, restore_left
from flashferry.sites.agent.order_intake import OrderRefused, Taker, depot_images
from flashferry.sites.agent.presence import Claim, Presence, only_here, place_of
from flashferry.sites.agent.tries import forget_tries
from flashferry.sites.agent.word_sender import Identity, WordSender
from flashferry.sites.broker import ORDER_TASK, Broker, control_queue, site_queue
from flashferry.sites.keys import PrivateKey
from flashferry.sites.settings import AgentSettings
from flashferry.sites.wire import Order, OrderJob, moment_of, moment_text
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase, agent_name


class Heartbeat:
    """The content of heartbeats: clock, orders under way, and the depot's images as last checked."""

    def __init__(self, database: AgentDatabase, depot: SiteDepot, beat_s: float) -> None:
        self._database, self._depot, self._beat_s = database, depot, beat_s
        self._images: list[dict[str, Any]] = []
        self._started_at = datetime.now(UTC)

    def check_depot(self) -> None:
        """Read the depot's images, which takes longer than a heartbeat may."""
        self._images = depot_images(self._depot)

    def content(self, order_ids: Iterable[str]) -> dict[str, Any]:
        """Return the content of a heartbeat, given the orders under way."""
        with self._database.reading() as database:
            last, waiting = ledger.last_entry(database), spool.size(database)
            entries = [ledger.entry_of(database, order_id) for order_id in order_ids]
        runs = [
            {"run": one.run, "order": one.id, "job": one.job, "run_id": one.run_id, "tries": one.tries}
            for one in entries
            if one is not None
        ]
        return {
            "clock": moment_text(datetime.now(UTC)),
            "started_at": moment_text(self._started_at),
            "beat_s": self._beat_s,
            "runs": runs,
            "depot": self._images,
            "fetching": _fetching_state(self._depot.fetching),
            "last_order": None if last is None else {"order": last.id, "job": last.job, "at": last.received_at},
            "spooled": waiting,
        }


def _fetching_state(progress: SyncProgress | None) -> dict[str, Any] | None:
    """Return the image being fetched into the depot, as a heartbeat reports it."""
    if progress is None:
        return None
    return {
        "image": progress.image,
        "phase": progress.phase.value,
        "done_bytes": progress.done_bytes,
        "size_bytes": progress.size_bytes,
    }


_LOG = logging.getLogger("flashferry.sites")
_LANES = ((OrderJob.STAGE, OrderJob.SYNC), (OrderJob.RECOVER,))
"""Orders of one lane run one after the other; a recovery waits for no staging."""
_POLL_S = 1.0
_AGAIN_S = 5.0
_REFUSED_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses before the source is asked again for an image or plan that it does not have yet."""


class Lanes:
    """Carry out stored orders in a thread per lane, until the agent ends.

    Args:
        bench: What orders are carried out with.
        taker: Has the stored orders, and records their results.
    """

    def __init__(self, bench: Bench, taker: Taker) -> None:
        self._bench, self._taker, self._ending = bench, taker, bench.ending
        self._news = threading.Condition()
        self._in_hand: set[str] = set()
        self._refusals: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._threads = [threading.Thread(target=self._work, args=(jobs,), name=f"agent-{jobs[0]}") for jobs in _LANES]

    @property
    def in_hand(self) -> tuple[str, ...]:
        """Return the IDs of orders that are being carried out."""
        return tuple(self._in_hand)

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Check for new orders now."""
        with self._news:
            self._news.notify_all()

    def join(self) -> None:
        """Wait for the threads, once the agent is ending."""
        self.wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _work(self, jobs: tuple[OrderJob, ...]) -> None:
        """Carry out the orders of a lane in turn; what fails for now is tried again."""
        while not self._ending.is_set():
            try:
                if (order := next(self._taker.left(jobs), None)) is not None:
                    self._carry(order)
                    continue
            except Exception as error:  # noqa: BLE001 -- a disk that is away for a while: the site must not stand still
                _LOG.error("orders cannot be looked for: %s", masked(repr(error)))
                self._ending.wait(_AGAIN_S)
            with self._news:
                self._news.wait(_POLL_S)

    def _carry(self, order: Order) -> None:
        self._taker.begin(order)
        self._in_hand.add(order.id)
        try:
            if (end := carry_out(self._bench, order)) is not None:
                self._taker.end(order, end)
        except FlashferryError as error:
            self._give_up(order, error)
        except Exception as error:  # noqa: BLE001 -- a fault of ours, or a full disk: the site must not stand still
            _LOG.error("order %s: tried again in %.0f s: %s", order.id, _AGAIN_S, masked(repr(error)))
            self._ending.wait(_AGAIN_S)
        finally:
            self._in_hand.discard(order.id)

    def _give_up(self, order: Order, error: FlashferryError) -> None:
        """Handle an order that failed: retry if the cause may pass, else refuse or end it."""
        if self._ending.is_set():
            return
        if (pause_s := self._pause_before_again_s(order, error)) is not None:
            if self._troubles.get(order.id) != error.message:
                _LOG.warning("order %s: tried again until it is carried out: %s", order.id, masked(str(error)))
            self._troubles[order.id] = error.message
            self._ending.wait(pause_s)
            return
        if (trouble := self._troubles.pop(order.id, "")) and isinstance(error, OrderRefused):
            # It waited until it was over; what people have to set right is what it waited for.
            error = OrderRefused(f"{error.message}; what it waited for: {trouble}", hint=error.hint)
        if (end := end_after(self._bench, order, error)) is None:
            self._taker.refuse(order, error)
        else:
            self._taker.end(order, end)

    def _pause_before_again_s(self, order: Order, error: FlashferryError) -> float | None:
        """Return the pause before an order is tried again; None: the cause does not pass."""
        if moment_of(order.valid_until) <= datetime.now(UTC):
            return None
        if isinstance(error, SourceUnreachable | CatalogueBusy):
            return _AGAIN_S
        if not isinstance(error, SourceRefused) or not error.may_pass:
            return None
        # What the centre has just put there is offered once it was looked at, or read: an image takes its time.
        refusals = self._refusals[order.id] = self._refusals.get(order.id, 0) + 1
        return _REFUSED_AGAIN_S[refusals - 1] if refusals <= len(_REFUSED_AGAIN_S) else None


KEPT = timedelta(days=30)
EVERY_S = 3600.0
STEADY_S = 86_400.0
_JUMP_S = 300.0


class Retention:
    """Remove old data, once an hour; the two clocks are injectable for tests."""

    def __init__(
        self,
        database: AgentDatabase,
        state: Path,
        *,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._state = database, state
        self._wall_s, self._steady_s = wall_s, steady_s
        self._since = (wall_s(), steady_s())
        self._next_s = steady_s()

    def apply(self) -> None:
        """Remove old data if an hour has passed and the clock is trusted; errors are retried later."""
        wall_s, steady_s = self._wall_s(), self._steady_s()
        gone_s, lived_s = wall_s - self._since[0], steady_s - self._since[1]
        if abs(gone_s - lived_s) > _JUMP_S:
            self._since = (wall_s, steady_s)
        elif lived_s >= STEADY_S and steady_s >= self._next_s:
            self._next_s = steady_s + EVERY_S
            try:
                self._forget(moment_text(datetime.fromtimestamp(wall_s, UTC) - KEPT))
            except sqlite3.Error as error:
                _LOG.warning("what is long over cannot be forgotten: %s", error)

    def _forget(self, before: str) -> None:
        with self._database.writing() as database:
            gone = ledger.forget(database, before)
            spool.forget(database, gone, before)
        for order_id in gone:
            forget_tries(self._state, order_id)


_ENDS_WITHIN_S = 4.0

Report = Callable[[str], None]
"""Shows a sentence to the operator."""


def run_agent(settings: AgentSettings, ending: threading.Event, *, report: Report) -> None:
    """Work for a site until asked to end. Runs under way are then ended in order, which restores their devices.

    Raises:
        ConfigInvalid: The settings are wrong, or another agent works for the site.
    """
    key = PrivateKey.load(settings.key)
    with only_here(settings.state), ExitStack() as stack:
        agent = Agent(settings, key, ending, depot=SiteDepot(settings.catalogue, settings.source))
        stack.callback(agent.close)
        agent.run(report)


class Agent:
    """A running agent; `run_agent` runs one."""

    def __init__(self, settings: AgentSettings, key: PrivateKey, ending: threading.Event, *, depot: SiteDepot) -> None:
        self._settings, self._ending = settings, ending
        self._database = AgentDatabase(settings.state)
        self._release = version("flashferry")
        self._name = _checked_name(self._database, settings.site)
        self._broker = Broker(settings.broker, owner=f"agent-{settings.site}")
        self._key_id = key.public.key_id
        identity = Identity(agent=self._name, site=settings.site, release=self._release, key=key)
        place = place_of(settings.state)
        self._claim = Claim(self._broker, identity, place=place, beat_s=settings.beat_s)
        self._heartbeat = Heartbeat(self._database, depot, settings.beat_s)
        self._teller = WordSender(
            self._database,
            self._broker,
            identity,
            beat=lambda: self._heartbeat.content(self._lanes.in_hand),
            beat_s=settings.beat_s,
        )
        self._bench = Bench(settings=settings, database=self._database, depot=depot, teller=self._teller, ending=ending)
        self._taker = Taker(self._bench, identity, news=self._wake)
        self._lanes = Lanes(self._bench, self._taker)
        self._retention = Retention(self._database, settings.state)
        self._presence: Presence | None = None

    def run(self, report: Report) -> None:
        """Work until asked to end.

        Raises:
            ConfigInvalid: Another agent works for the site.
        """
        site = self._settings.site
        report(f"agent {self._name} for site {site}, release {self._release}, key {self._key_id}")
        # What a dead run left is restored, and what is unfinished gone on with, whether or not the broker is there.
        self._teller.start()
        restore_left(self._bench)
        # What others may be at work on is not continued; where that is not known, it is ours as before.
        presence = self._presence = Presence(
            self._claim, beat_s=self._settings.beat_s, ending=self._ending, report=report
        )
        presence.start()
        self._lanes.start()
        try:
            self._take_orders(presence, report)
        finally:
            self._ending.set()
            self._lanes.join()

    def close(self) -> None:
        """Send the last reports and release the claim; neither waits for an unreachable broker."""
        self._teller.close()
        if self._presence is not None:
            self._presence.give_up()
        self._broker.close()

    def _take_orders(self, presence: Presence, report: Report) -> None:
        """Receive orders for as long as this agent owns the site."""
        while not presence.is_ours():
            if self._ending.wait(_POLL_S):
                return
        self._taker.settle()
        queues = (site_queue(self._settings.site), control_queue(self._settings.site))
        report(f"takes orders from {' and '.join(queues)}")
        with self._broker.worker(queues, ORDER_TASK, self._taker.take, ends_within_s=_ENDS_WITHIN_S):
            next_check_s = 0.0
            while presence.is_ours() and not self._ending.wait(_POLL_S):
                if time.monotonic() >= next_check_s:
                    next_check_s = time.monotonic() + self._settings.beat_s
                    self._heartbeat.check_depot()
                    self._retention.apply()

    def _wake(self) -> None:
        self._lanes.wake()


def _checked_name(database: AgentDatabase, site: str) -> str:
    """Return the agent's own name. Raises `ConfigInvalid`: the state folder belongs to another site's agent."""
    with database.writing() as writing:
        name, known = agent_name(writing, site)
    if known != site:
        raise ConfigInvalid(
            f"state folder {database.directory}: expected that of site {site}, found that of site {known}",
            hint="Give this agent a state folder of its own: journal and ledger are a site's",
        )
    return name

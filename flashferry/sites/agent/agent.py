"""Run the agent of a site: claim the site, receive orders, carry them out in turn, report, and end in order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from flashferry.core.codec import CodecError, decode
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import masked
from flashferry.depot.catalogue.part import CatalogueBusy
from flashferry.depot.sync.filling import SourceRefused, SourceUnreachable, SyncProgress
from flashferry.sites.agent.bench import Bench, End
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.execution import carry_out, restore_left
from flashferry.sites.agent.immediate_orders import depot_images
from flashferry.sites.agent.order_checks import OrderRefused
from flashferry.sites.agent.order_intake import Taker
from flashferry.sites.agent.part_run import left_held
from flashferry.sites.agent.presence import Claim, Presence, only_here, place_of
from flashferry.sites.agent.retention import Retention
from flashferry.sites.agent.word_sender import Identity, WordSender
from flashferry.sites.broker import ORDER_TASK, Broker, control_queue, site_queue
from flashferry.sites.keys import PrivateKey
from flashferry.sites.settings import AgentSettings
from flashferry.sites.wire import CONTROL_JOBS, Order, OrderJob, moment_of, moment_text
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase, agent_name

_LOG = logging.getLogger("flashferry.sites")
_LANES = ((OrderJob.STAGE, OrderJob.SYNC), (OrderJob.RECOVER,))
"""Orders of one lane run one after the other; a recovery waits for no staging."""
_POLL_S = 1.0
_AGAIN_S = 5.0
_ENDS_WITHIN_S = 4.0
_REFUSED_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses before the source is asked again for an image or plan that it does not have yet."""

Report = Callable[[str], None]
"""Shows a sentence to the operator."""


def run_agent(settings: AgentSettings, ending: threading.Event, *, report: Report) -> None:
    """Work for a site until asked to end. Runs under way are then ended in order, which restores their devices.

    Args:
        settings: The agent's settings.
        ending: Set to end the agent.
        report: Shows sentences to the operator.

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
        self._teller = WordSender(self._database, self._broker, identity, beat=self._beat, beat_s=settings.beat_s)
        self._bench = Bench(settings=settings, database=self._database, depot=depot, teller=self._teller, ending=ending)
        self._news = threading.Condition()
        self._taker = Taker(self._bench, identity, news=self._wake)
        self._in_hand: dict[str, Order] = {}
        self._refusals: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._depot_images: list[dict[str, Any]] = []
        self._retention = Retention(self._database, settings.state)
        self._presence: Presence | None = None
        self._started_at = datetime.now(UTC)

    def run(self, report: Report) -> None:
        """Work until asked to end.

        Raises:
            ConfigInvalid: Another agent works for the site.
        """
        site = self._settings.site
        report(f"agent {self._name} for site {site}, release {self._release}, key {self._key_id}")
        # What a dead run left is restored, and what is unfinished gone on with, whether or not the broker is there.
        lanes = [threading.Thread(target=self._work, args=(jobs,), name=f"agent-{jobs[0]}") for jobs in _LANES]
        self._teller.start()
        restore_left(self._bench)
        # What others may be at work on is not continued; where that is not known, it is ours as before.
        presence = self._presence = Presence(
            self._claim, beat_s=self._settings.beat_s, ending=self._ending, report=report
        )
        presence.start()
        for lane in lanes:
            lane.start()
        try:
            self._take_orders(presence, report)
        finally:
            self._ending.set()
            self._wake()
            for lane in lanes:
                if lane.is_alive():
                    lane.join()

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
        self._settle_control()
        queues = (site_queue(self._settings.site), control_queue(self._settings.site))
        report(f"takes orders from {' and '.join(queues)}")
        with self._broker.worker(queues, ORDER_TASK, self._taker.take, ends_within_s=_ENDS_WITHIN_S):
            next_check_s = 0.0
            while presence.is_ours() and not self._ending.wait(_POLL_S):
                if time.monotonic() >= next_check_s:
                    next_check_s = time.monotonic() + self._settings.beat_s
                    self._check_depot()
                    self._retention.apply()

    def _work(self, jobs: tuple[OrderJob, ...]) -> None:
        """Carry out the orders of a lane in turn; what fails for now is tried again."""
        while not self._ending.is_set():
            try:
                if (order := self._next(jobs)) is not None:
                    self._carry(order)
                    continue
            except Exception as error:  # noqa: BLE001 -- a disk that is away for a while: the site must not stand still
                _LOG.error("orders cannot be looked for: %s", masked(repr(error)))
                self._ending.wait(_AGAIN_S)
            with self._news:
                self._news.wait(_POLL_S)

    def _next(self, jobs: tuple[OrderJob, ...]) -> Order | None:
        return next(iter(self._left(jobs)), None)

    def _left(self, jobs: Iterable[OrderJob]) -> Iterator[Order]:
        """Yield the unfinished orders of some jobs, the oldest first; refuse unreadable ones."""
        with self._database.reading() as database:
            left = ledger.unfinished(database, [job.value for job in jobs])
        for entry in left:
            try:
                yield decode(Order, entry.body)
            except (CodecError, FlashferryError) as error:
                self._taker.refuse_unread(entry, error)

    def _carry(self, order: Order) -> None:
        with self._database.writing() as database:
            ledger.begin(database, order.id)
        self._in_hand[order.id] = order
        try:
            if (end := carry_out(self._bench, order)) is not None:
                self._taker.end(order, end)
        except FlashferryError as error:
            self._give_up(order, error)
        except Exception as error:  # noqa: BLE001 -- a fault of ours, or a full disk: the site must not stand still
            _LOG.error("order %s: tried again in %.0f s: %s", order.id, _AGAIN_S, masked(repr(error)))
            self._ending.wait(_AGAIN_S)
        finally:
            self._in_hand.pop(order.id, None)

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
        with self._database.reading() as database:
            entry = ledger.entry_of(database, order.id)
        if entry is None or entry.run_id is None:
            self._taker.refuse(order, error)
            return
        held = left_held(self._settings.state, entry.run_id)
        self._taker.end(order, End(exit_code=None, sentence=error.message, data={"run_id": entry.run_id, "held": held}))

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

    def _settle_control(self) -> None:
        """Carry out the short orders (steering and checks) that an earlier agent left on disk."""
        for order in self._left((*CONTROL_JOBS, OrderJob.CHECK)):
            self._taker.carry_at_once(order)

    def _check_depot(self) -> None:
        self._depot_images = depot_images(self._bench.depot)

    def _beat(self) -> dict[str, Any]:
        """Return the content of a heartbeat."""
        with self._database.reading() as database:
            last, waiting = ledger.last_entry(database), spool.size(database)
            entries = [ledger.entry_of(database, order_id) for order_id in list(self._in_hand)]
        runs = [
            {"run": one.run, "order": one.id, "job": one.job, "run_id": one.run_id, "tries": one.tries}
            for one in entries
            if one is not None
        ]
        return {
            "clock": moment_text(datetime.now(UTC)),
            "started_at": moment_text(self._started_at),
            "beat_s": self._settings.beat_s,
            "runs": runs,
            "depot": self._depot_images,
            "fetching": _fetching_state(self._bench.depot.fetching),
            "last_order": None if last is None else {"order": last.id, "job": last.job, "at": last.received_at},
            "spooled": waiting,
        }

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()


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


def _checked_name(database: AgentDatabase, site: str) -> str:
    """Return the agent's own name.

    Raises:
        ConfigInvalid: The state folder belongs to another site's agent.
    """
    with database.writing() as writing:
        name, known = agent_name(writing, site)
    if known != site:
        raise ConfigInvalid(
            f"state folder {database.directory}: expected that of site {site}, found that of site {known}",
            hint="Give this agent a state folder of its own: journal and ledger are a site's",
        )
    return name

"""Send orders to sites: each is made once, kept in the ledger, and sent until the agent confirms it.

The broker may lose messages when either end is killed, so an order is repeated under its ID, by which the agent
recognises it.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from msgspec import Struct

from flashferry.core.redaction import masked
from flashferry.sites.broker import CENTRE_QUEUE, Broker, BrokerUnreachable, unreachable
from flashferry.sites.centre.collecting import now, wire_run
from flashferry.sites.centre.settings import CentreSettings
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import CONTROL_JOBS, Order, OrderJob, moment_text, sealed_order
from flashferry.store.database import moment
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import (
    OPEN,
    KeptOrder,
    Part,
    PartState,
    add_orders,
    hosts_of,
    orders_to_send,
    parts_of,
    run_of,
)
from flashferry.store.sites.words import received_of

AGAIN_S = 15.0
"""An unconfirmed order is sent again after this time."""
ACKNOWLEDGE_EVERY_S = 10.0
"""Interval between acknowledgements of an agent's words, which it keeps until then."""
GAP_S = 10.0
"""A missing word is requested after this time."""


def fresh_id(prefix: str = "order") -> str:
    """Return a new ID: `order-0123456789abcdef0123`."""
    return f"{prefix}-{secrets.token_hex(10)}"


class OrderCheck(Struct, frozen=True, kw_only=True):
    """How many orders were sent, without acknowledgements, and why the broker refuses them; empty: it does not."""

    sent: int = 0
    trouble: str = ""


class Orders:
    """Make, sign and send orders; `clock` returns monotonic seconds."""

    def __init__(
        self,
        broker: Broker,
        ledger: SitesDatabase,
        settings: CentreSettings,
        key: PrivateKey,
        release: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker, self._ledger, self._settings = broker, ledger, settings
        self._key, self._release, self._clock = key, release, clock
        self._sent_at: dict[str, float] = {}
        self._acknowledged_to: dict[tuple[str, str, int], tuple[int, float]] = {}
        self._gap_since: dict[tuple[str, str, int], tuple[int, float]] = {}
        self._lock = threading.Lock()

    def ask(self, run: str, sites: Iterable[str]) -> None:
        """Ask agents for their state; they answer under the name `run`.

        Raises:
            BrokerUnreachable: The broker does not accept it.
        """
        until = now() + timedelta(seconds=2 * self._settings.answer_s + self._settings.clock_bound_s)
        for site in sites:
            self._send(self._fresh(OrderJob.CHECK, run, site, until))

    def made(self, parts: Sequence[Part], job: OrderJob, until: datetime, wave: int | None = None) -> None:
        """Store an order for each part; `tend` sends them."""
        with self._ledger.writing() as database:
            add_orders(database, self.kept(parts, job, until, wave))

    def kept(self, parts: Sequence[Part], job: OrderJob, until: datetime, wave: int | None = None) -> list[KeptOrder]:
        """Return a new order for each part, to be stored in the ledger."""
        begins = moment_text(self._begins())
        return [
            KeptOrder(
                order_id=fresh_id(),
                run=part.run,
                site=part.site,
                round=part.round,
                job=job.value,
                wave=wave,
                valid_from=begins,
                valid_until=moment_text(until),
            )
            for part in parts
        ]

    def tend(self, run: str) -> OrderCheck:
        """Send the unconfirmed orders of a run, and acknowledge agents' words."""
        with self._lock:
            try:
                sent = self._send_kept(run)
                self._acknowledge(run)
            except BrokerUnreachable as error:
                return OrderCheck(trouble=error.message)
        return OrderCheck(sent=sent)

    def acknowledge(self, called: str, site: str, offset: int) -> None:
        """Acknowledge an agent's words up to an offset.

        Raises:
            BrokerUnreachable: The broker does not accept it.
        """
        until = now() + timedelta(hours=1)
        self._send(self._fresh(OrderJob.ACKNOWLEDGE, called, site, until, offset=offset))

    def _send_kept(self, run: str) -> int:
        with self._ledger.reading() as database:
            kept = orders_to_send(database, run)
            state = {(part.site, part.round): part.state for part in parts_of(database, run)} if kept else {}
        count = 0
        for one in kept:
            is_at = state[one.site, one.round]
            is_open = is_at is PartState.GIVEN if one.job == OrderJob.STAGE else is_at in OPEN
            if is_open and self._is_due(one):
                self._send(self._order(one))
                self._sent_at[one.order_id] = self._clock()
                count += 1
        return count

    def _is_due(self, one: KeptOrder) -> bool:
        at = now()
        is_early = moment(at) < one.valid_from and one.order_id not in self._sent_at
        if moment(at) >= one.valid_until or is_early:
            return False
        return self._clock() - self._sent_at.get(one.order_id, float("-inf")) >= AGAIN_S

    def _order(self, one: KeptOrder) -> Order:
        """Return an order exactly as it was sent the first time."""
        plan, hosts = "", tuple[str, ...]()
        if one.job == OrderJob.STAGE:
            with self._ledger.reading() as database:
                found = run_of(database, one.run)
                assert found is not None
                plan, hosts = found.digest, hosts_of(database, one.run, one.site, one.round)
        return Order(
            id=one.order_id,
            job=OrderJob(one.job),
            run=wire_run(one.run, one.site, one.round),
            site=one.site,
            agent_key=self._key_at(one.site),
            plan=plan,
            devices=hosts,
            wave=one.wave,
            valid_from=one.valid_from,
            valid_until=one.valid_until,
            release=self._release,
        )

    def _acknowledge(self, run: str) -> None:
        with self._ledger.reading() as database:
            received = [(part, received_of(database, part)) for part in parts_of(database, run)]
        for part, found in received:
            if part.last_message_at is not None and self._is_acknowledged_again(part, has_gap=found.has_gap):
                self.acknowledge(wire_run(part.run, part.site, part.round), part.site, part.whole)
                self._acknowledged_to[part.run, part.site, part.round] = (part.whole, self._clock())

    def _is_acknowledged_again(self, part: Part, *, has_gap: bool) -> bool:
        key, clock = (part.run, part.site, part.round), self._clock()
        offset, at_s = self._acknowledged_to.get(key, (-1, float("-inf")))
        if clock - at_s < ACKNOWLEDGE_EVERY_S:
            return False
        if offset != part.whole:
            self._gap_since.pop(key, None)
            return part.whole > 0
        if not has_gap or not part.whole:
            return False
        whole, since_s = self._gap_since.setdefault(key, (part.whole, clock))
        # With the same again, it asks for what is missing.
        return whole == part.whole and clock - max(since_s, at_s) >= GAP_S

    def _send(self, order: Order) -> None:
        envelope = sealed_order(order, self._key)
        self._broker.send_order(order.site, envelope, is_control=order.job in CONTROL_JOBS)

    def _fresh(self, job: OrderJob, called: str, site: str, until: datetime, *, offset: int | None = None) -> Order:
        """Return an order that is sent only once, because the next one follows soon."""
        return Order(
            id=fresh_id(),
            job=job,
            run=called,
            site=site,
            agent_key=self._key_at(site),
            offset=offset,
            valid_from=moment_text(self._begins()),
            valid_until=moment_text(until),
            release=self._release,
        )

    def _key_at(self, site: str) -> str:
        """Return the key ID of a site's agent; empty if the settings do not have the site."""
        found = self._settings.sites.get(site)
        return found.agent_key.key_id if found is not None else ""

    def _begins(self) -> datetime:
        """Return from when orders are valid: an agent's clock may be late within the limit."""
        return now() - timedelta(seconds=self._settings.clock_bound_s)


_LOG = logging.getLogger("flashferry.sites.centre")
_WAIT_S = 1.0
_MORE_S = 0.05
"""How long to wait for another word before those received are stored."""
_MOST = 500
_PAUSES_S = (0.5, 1.0, 2.0, 5.0)
_ENDS_WITHIN_S = 15.0
_REPORTS_AGAIN_S = 60.0
Take = Callable[[Sequence[str]], None]
"""Stores envelopes."""


class ListeningBroker(Broker):
    """The broker connection of the centre, which also receives words."""

    @contextmanager
    def listening(self, take: Take) -> Iterator[None]:
        """Receive words in a thread for a block; reconnects if the broker is unreachable.

        Args:
            take: Called with envelopes, from one thread. Its errors are logged; agents send the words again.
        """
        reader = _QueueReader(self._app, take, self._settings.place)
        reader.start()
        try:
            yield
        finally:
            reader.stop()


class _QueueReader:
    """Read the centre's queue; `place` is the broker's host and port."""

    def __init__(self, app: Any, take: Take, place: str) -> None:
        self._app, self._take, self._place = app, take, place
        self._end = threading.Event()
        self._reported_s = -_REPORTS_AGAIN_S
        self._found: list[str] = []
        self._thread = threading.Thread(target=self._listen, name="centre-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(_ENDS_WITHIN_S)

    def _listen(self) -> None:
        tries = 0
        while not self._end.is_set():
            began_s = time.monotonic()
            try:
                self._read()
            except Exception as error:  # noqa: BLE001 -- whatever a driver raises: it is tried again
                self._keep()
                tries = 0 if time.monotonic() - began_s > _PAUSES_S[-1] else tries + 1
                self._report(unreachable(error, self._place), is_first=tries <= 1)
                self._end.wait(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])

    def _report(self, error: BrokerUnreachable, *, is_first: bool) -> None:
        """Log why nothing can be read, now and then; not the first time, which a sending command reports."""
        now_s = time.monotonic()
        if not is_first and now_s - self._reported_s >= _REPORTS_AGAIN_S:
            self._reported_s = now_s
            _LOG.warning("%s; it is tried again", error.message)

    def _read(self) -> None:
        """Read until the end, or until the connection breaks."""
        kombu: Any = import_module("kombu")
        exchange = kombu.Exchange("", type="direct")
        queue = kombu.Queue(CENTRE_QUEUE, exchange=exchange, routing_key=CENTRE_QUEUE, durable=True)
        # At the end a word may be on its way that is not taken any more: kombu puts it back, and logs that.
        logging.getLogger("kombu.transport.virtual.base").setLevel(logging.ERROR)
        with (
            self._app.connection_for_read() as connection,
            connection.channel() as channel,
            kombu.Consumer(channel, [queue], on_message=self._on_message, no_ack=True, accept=["json"]),
        ):
            while not self._end.is_set():
                self._drain(connection)
                self._keep()

    def _drain(self, connection: Any) -> None:
        """Receive what is there, waiting a while for the first word."""
        wait_s = _WAIT_S
        while len(self._found) < _MOST:
            try:
                connection.drain_events(timeout=wait_s)
            except TimeoutError:
                return
            wait_s = _MORE_S

    def _on_message(self, message: Any) -> None:
        with suppress(Exception):
            content = message.decode()
            arguments: Any = content[0]
            if len(arguments) == 1 and isinstance(arguments[0], str):
                self._found.append(arguments[0])

    def _keep(self) -> None:
        found, self._found = self._found, []
        if not found:
            return
        try:
            self._take(found)
        except Exception as error:  # noqa: BLE001 -- the thread lives on, and the words come again
            _LOG.error("%d words could not be kept, they come again: %s", len(found), masked(str(error)))

"""Receive orders from the broker: verify, check, store and answer them, each once.

An order signed by an unknown key is dropped without an answer, which would only reveal the agent. A repeated order,
under the same ID or as the same work, is answered from the ledger.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from flashferry.core.codec import CodecError, decode, encode
from flashferry.core.errors import FlashferryError, Kind
from flashferry.core.redaction import masked
from flashferry.sites.agent.bench import Bench, End
from flashferry.sites.agent.immediate_orders import check_site, steer
from flashferry.sites.agent.order_checks import OrderRefused, check_addressee, check_order, work_of
from flashferry.sites.agent.word_sender import Identity, add_word
from flashferry.sites.wire import (
    CONTROL_JOBS,
    Order,
    OrderJob,
    WireError,
    WordKind,
    canonical,
    moment_text,
    opened_order,
)
from flashferry.store.sites import ledger
from flashferry.store.sites.ledger import LedgerEntry, OrderState

_LOG = logging.getLogger("flashferry.sites")
_SAME_PART = frozenset({OrderJob.STAGE, OrderJob.SYNC})
"""Jobs of which two orders with equal content are the same work."""
_REPEAT_S = 60.0
_ANSWERS_AGAIN_S = 10.0
"""A centre without an answer sends an order again after 15 s."""
_MOST_ANSWERED = 10_000
_WORK = frozenset({OrderJob.STAGE, OrderJob.SYNC, OrderJob.RECOVER})


class Taker:
    """Receive envelopes. Called from several threads, possibly with two copies of one envelope at once.

    Args:
        bench: What orders are carried out with.
        identity: This agent's identity.
        news: Called when there is an order to carry out.
        now: Returns the current time.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        bench: Bench,
        identity: Identity,
        *,
        news: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bench, self._identity, self._news, self._now, self._clock = bench, identity, news, now, clock
        self._dropped_at_s: dict[Kind, float] = {}
        self._answered_at_s: dict[tuple[str, str], float] = {}

    def take(self, envelope: str) -> None:
        """Store, refuse or drop an envelope.

        Raises:
            sqlite3.Error: It could not be stored; it must be delivered again.
        """
        try:
            order = opened_order(envelope, self._bench.settings.centres)
            check_addressee(order, self._identity.key.public.key_id)
        except WireError as error:
            # Signed by no known key; or no order, be it of a centre of another release, which is to be read in the log;
            # or for the site's other agent, to whom the centre sends it again.
            self._drop(error)
            return
        if order.job is OrderJob.ACKNOWLEDGE:
            self._acknowledged(order)
            return
        try:
            self._check(order)
        except OrderRefused as error:
            if self._is_repeat(order):
                return
            self._enter(order, is_accepted=False)
            self.refuse(order, error)
            return
        self._take_checked(order)

    def _take_checked(self, order: Order) -> None:
        if self._is_repeat(order):
            return
        if order.job in _WORK and (error := self._forgotten(order)) is not None:
            self._enter(order, is_accepted=False)
            self.refuse(order, error)
            return
        if not self._enter(order):
            # Another copy was a moment earlier.
            return
        _LOG.info("order %s: %s for run %s", order.id, order.job.value, order.run or "none")
        if order.job in CONTROL_JOBS or order.job is OrderJob.CHECK:
            self.carry_at_once(order)
        else:
            self._news()

    def carry_at_once(self, order: Order) -> None:
        """Carry out a short order: steering or a check."""
        try:
            if order.job is OrderJob.CHECK:
                self.end(order, End(exit_code=0, sentence="looked", data={}), depot=check_site(self._bench, order))
            else:
                self.end(order, steer(self._bench, order))
        except FlashferryError as error:
            self.refuse(order, error)

    def refuse(self, order: Order, error: FlashferryError) -> None:
        """Record and report why an order is not carried out."""
        _LOG.warning("order %s refused: %s", order.id, masked(str(error)))
        answer = {"order": order.id, "job": order.job.value, "sentence": error.message, "hint": error.hint or ""}
        self._close(order, OrderState.REFUSED, WordKind.REFUSED, answer)

    def settle(self) -> None:
        """Carry out the short orders (steering and checks) that an earlier agent left on disk."""
        for order in self.left((*CONTROL_JOBS, OrderJob.CHECK)):
            self.carry_at_once(order)

    def left(self, jobs: Iterable[OrderJob]) -> Iterator[Order]:
        """Yield the unfinished orders of some jobs, the oldest first; refuse unreadable ones."""
        with self._bench.database.reading() as database:
            left = ledger.unfinished(database, [job.value for job in jobs])
        for entry in left:
            try:
                yield decode(Order, entry.body)
            except (CodecError, FlashferryError) as error:
                self.refuse_unread(entry, error)

    def begin(self, order: Order) -> None:
        """Record that an order is being carried out."""
        with self._bench.database.writing() as database:
            ledger.begin(database, order.id)

    def refuse_unread(self, entry: LedgerEntry, error: Exception) -> None:
        """Record and report that this release cannot read an order in the ledger."""
        sentence = f"order {entry.id}: expected one that this release can read, found another on disk: {error}"
        _LOG.error("%s", masked(sentence))
        answer = {"order": entry.id, "job": entry.job, "sentence": sentence, "hint": "Order it anew"}
        with self._bench.database.writing() as database:
            if ledger.close(database, entry.id, OrderState.REFUSED, answer, moment_text(self._now())):
                add_word(database, entry.run, WordKind.REFUSED, answer)
        self._bench.teller.wake()

    def end(self, order: Order, end: End, *, depot: dict[str, Any] | None = None) -> None:
        """Record and report the result of an order."""
        _LOG.info("order %s ended: %s", order.id, masked(end.sentence))
        result = {"order": order.id, "job": order.job.value, "exit_code": end.exit_code, "sentence": end.sentence}
        self._close(order, OrderState.ENDED, WordKind.ENDED, {**result, **end.data}, depot=depot)

    def _close(
        self,
        order: Order,
        state: OrderState,
        kind: WordKind,
        answer: dict[str, Any],
        *,
        depot: dict[str, Any] | None = None,
    ) -> None:
        with self._bench.database.writing() as database:
            # In one transaction with its word: it is never through unreported, nor reported twice.
            if ledger.close(database, order.id, state, answer, moment_text(self._now())):
                if depot is not None:
                    add_word(database, _stream(order), WordKind.DEPOT, {"order": order.id, **depot})
                add_word(database, _stream(order), kind, answer)
        self._bench.teller.wake()

    def _check(self, order: Order) -> None:
        settings = self._bench.settings
        check_order(
            order,
            site=settings.site,
            release=self._identity.release,
            now=self._now(),
            clock_differs_s=settings.runs.clock_differs_s,
        )

    def _forgotten(self, order: Order) -> OrderRefused | None:
        """Return why an order may be a forgotten old one, which a clock set back makes valid again."""
        with self._bench.database.reading() as database:
            until = ledger.forgotten_until(database)
        if order.valid_until > until:
            return None
        return OrderRefused(
            f"order {order.id}: expected one that ends behind {until}, for orders until then are done and forgotten, "
            f"found that it ends at {order.valid_until}: it may be an old one",
            hint="Have this host keep its clock by NTP, and order it anew",
        )

    def _enter(self, order: Order, *, is_accepted: bool = True) -> bool:
        """Store an order and report that; return whether it was new."""
        with self._bench.database.writing() as database:
            is_new = ledger.enter(
                database,
                order_id=order.id,
                job=order.job.value,
                run=_stream(order),
                work=work_of(order),
                body=canonical(encode(order)),
                at=moment_text(self._now()),
            )
            if is_new and is_accepted:
                add_word(database, _stream(order), WordKind.ACCEPTED, {"order": order.id, "job": order.job.value})
        self._bench.teller.wake()
        return is_new

    def _is_repeat(self, order: Order) -> bool:
        """Answer a repeated order from the ledger; return whether it was one."""
        with self._bench.database.writing() as database:
            known = ledger.entry_of(database, order.id)
            if known is None and order.job in _SAME_PART:
                known = ledger.first_of_work(database, work_of(order))
            if known is None:
                return False
            if self._is_answered(order, known):
                return True
            add_word(database, _stream(order), *_repeated(order, known))
        self._bench.teller.wake()
        return True

    def _is_answered(self, order: Order, known: LedgerEntry) -> bool:
        """Return whether the same answer was sent a moment ago: the broker can replay an order endlessly."""
        key, now_s = (order.id, known.state.value), self._clock()
        if now_s - self._answered_at_s.get(key, -_ANSWERS_AGAIN_S) < _ANSWERS_AGAIN_S:
            return True
        if len(self._answered_at_s) >= _MOST_ANSWERED:
            self._answered_at_s.clear()
        self._answered_at_s[key] = now_s
        return False

    def _acknowledged(self, order: Order) -> None:
        try:
            self._check(order)
        except OrderRefused:
            # An old one may be replayed through the broker; what it says was true once, and is no harm.
            return
        assert order.offset is not None
        self._bench.teller.acknowledged(order.run, order.offset)

    def _drop(self, error: WireError) -> None:
        now_s = self._clock()
        if now_s - self._dropped_at_s.get(error.kind, -_REPEAT_S) >= _REPEAT_S:
            self._dropped_at_s[error.kind] = now_s
            _LOG.warning("an order was dropped, and not answered: %s", masked(str(error)))


def _stream(order: Order) -> str:
    """Return the run under which reports on an order are numbered: the order's ID if it has no run."""
    return order.run or order.id


def _repeated(order: Order, known: LedgerEntry) -> tuple[WordKind, dict[str, Any]]:
    """Return the answer to a repeated order: its result, or that it is under way."""
    again = {"order": order.id, "job": order.job.value, "repeats": known.id}
    if known.state in ledger.UNFINISHED:
        return WordKind.ACCEPTED, again
    kind = WordKind.ENDED if known.state is OrderState.ENDED else WordKind.REFUSED
    return kind, known.answer | again

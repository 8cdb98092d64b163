"""Receive orders from the broker: verify, check, store and answer them, each once.

An order signed by an unknown key is dropped without an answer, which would only reveal the agent. A repeated order,
under the same ID or as the same work, is answered from the ledger.
"""

from __future__ import annotations

import logging
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from flashferry import api
from flashferry.core.codec import CodecError, decode, encode
from flashferry.core.errors import FlashferryError, Kind
from flashferry.core.redaction import masked
from flashferry.sites.agent.bench import Bench, End, SiteDepot
from flashferry.sites.agent.word_sender import Identity, add_word
from flashferry.sites.wire import (
    CONTROL_JOBS,
    Order,
    OrderJob,
    WireError,
    WordKind,
    canonical,
    moment_of,
    moment_text,
    opened_order,
)
from flashferry.store.control_requests import Asker
from flashferry.store.reader import is_run_alive
from flashferry.store.sites import ledger
from flashferry.store.sites.ledger import LedgerEntry, OrderState

_RELEASE = re.compile(r"\d+\.\d+\.\d+", re.ASCII)


class OrderRefused(FlashferryError):
    """Report that an order is not carried out; no device was touched for it."""

    kind: ClassVar[Kind] = Kind.ORDER_REFUSED


def check_addressee(order: Order, key_id: str) -> None:
    """Check that an order is for this agent's key.

    Raises:
        WireError: It is for another key. It gets no answer, so that a corrected centre can send it again under the same
            ID.
    """
    if order.agent_key != key_id:
        raise WireError(
            f"order {order.id}: expected one for the agent of site {order.site} with key {key_id}, which is this one's"
            f", found one for key {order.agent_key or 'none'}: the centre has another agent for the site",
            hint="Put this agent's public line into the centre's settings, or end this agent",
        )


def check_order(order: Order, *, site: str, release: str, now: datetime, clock_differs_s: float) -> None:
    """Check site, validity and release of an order.

    Args:
        order: The order, with a verified signature.
        site: Our site.
        release: Our release.
        now: The current time.
        clock_differs_s: How far its start may lie in the future.

    Raises:
        OrderRefused: It is for another site, not valid now, or from another release.
    """
    if order.site != site:
        raise OrderRefused(
            f"order {order.id}: expected one for site {site}, found one for {order.site}",
            hint="Check which queue the centre sends it to",
        )
    begins, ends = moment_of(order.valid_from), moment_of(order.valid_until)
    if begins > now + timedelta(seconds=clock_differs_s):
        ahead = (begins - now).total_seconds()
        raise OrderRefused(
            f"order {order.id}: expected one that is valid by now, found one from {order.valid_from} on, which is "
            f"{ahead:,.0f} s from now ({moment_text(now)}): the clocks differ",
            hint="Have both hosts keep their clocks by NTP",
        )
    if ends <= now:
        raise OrderRefused(
            f"order {order.id}: expected one that is still valid, found that it ended at {order.valid_until}, and here "
            f"it is {moment_text(now)}",
            hint="Order it again; if it was just sent, the clocks differ",
        )
    if order.job is not OrderJob.ACKNOWLEDGE and _numbers(order.release) != _numbers(release):
        raise OrderRefused(
            f"order {order.id}: expected a centre of release {_numbers(release)}, as this agent is, found "
            f"{_numbers(order.release)}",
            hint="Bring both to one release",
        )


def check_begins(order: Order) -> None:
    """Check that work can still start: the order may have waited for others, or for the agent.

    Raises:
        OrderRefused: It has expired.
    """
    at = datetime.now(UTC)
    if moment_of(order.valid_until) <= at:
        raise OrderRefused(
            f"order {order.id}: expected to come to it in time, found that it must not start after "
            f"{order.valid_until}, and here it is {moment_text(at)}; no device was touched",
            hint="Order it again",
        )


def work_of(order: Order) -> str:
    """Return a text that is equal for orders of the same work."""
    return canonical([order.job, order.run, order.plan, sorted(order.devices), order.wave])


def _numbers(release: str) -> str:
    """Return `major.minor.patch` of a release."""
    found = _RELEASE.match(release)
    return found[0] if found is not None else release


def steer(bench: Bench, order: Order) -> End:
    """Pass a request of the centre to the run of a part.

    Raises:
        OrderRefused: There is no such part, or its run is not under way.
    """
    with bench.database.reading() as database:
        parts = ledger.orders_of_run(database, order.run, OrderJob.STAGE.value)
    part = next((one for one in parts if one.state in ledger.UNFINISHED), None)
    if part is None:
        known = "it has ended" if parts else "this agent was never given it"
        raise OrderRefused(
            f"order {order.id}: expected run {order.run} under way at site {order.site}, found that {known}",
            hint="'flashferry sites show' shows the state",
        )
    if part.run_id is None or not is_run_alive(bench.settings.state, part.run_id):
        return _without_run(order, part)
    return End(
        exit_code=0,
        sentence=f"run {part.run_id} was asked to {order.job.value}",
        data=_apply(bench, order, part.run_id),
    )


def _without_run(order: Order, part: ledger.LedgerEntry) -> End:
    """Answer an order for a part whose run is not under way: a stop takes effect, others come too early."""
    if order.job is OrderJob.STOP:
        return End(exit_code=0, sentence=f"part {order.run} will not start, or not continue, any more", data={})
    raise OrderRefused(
        f"order {order.id}: expected run {order.run} under way, found its part {part.state.value} without a run: "
        "images are fetched, or devices of a dead run restored",
        hint="Send it again once its run has started",
    )


def _apply(bench: Bench, order: Order, run_id: str) -> dict[str, Any]:
    asker = Asker(actor="centre", via="site agent", reason=f"order {order.id}")
    state = bench.settings.state
    try:
        if order.job is OrderJob.APPROVE:
            return {"run_id": run_id, "wave": api.approve(run_id, order.wave, asker=asker, state=state).wave}
        paused = {OrderJob.PAUSE: True, OrderJob.CONTINUE: False}.get(order.job)
        api.steer(run_id, paused=paused, stopping=order.job is OrderJob.STOP or None, asker=asker, state=state)
    except FlashferryError as error:
        raise OrderRefused(f"order {order.id}: {error.message}", hint=error.hint) from None
    return {"run_id": run_id}


PREFIX_DIGITS = 16
"""Digits of a SHA-512 in a heartbeat: enough to identify an image, no proof."""
_MOST_IMAGES = 200
_MOST_NAMES = 200


def check_site(bench: Bench, order: Order) -> dict[str, Any]:
    """Return the site's proven images, the size of its inventory, and which of the order's devices it lacks."""
    found: dict[str, Any] = {"images": depot_images(bench.depot), "clock": moment_text(datetime.now(UTC))}
    found |= {"python": platform.python_version(), "system": platform.platform(terse=True)}
    try:
        names = bench.devices()
    except FlashferryError as error:
        return found | {"inventory": {"devices": 0, "missing": [], "error": error.message}}
    missing = sorted(set(order.devices) - names)
    return found | {"inventory": {"devices": len(names), "missing": missing[:_MOST_NAMES], "error": ""}}


def depot_images(depot: SiteDepot) -> list[dict[str, Any]]:
    """Return a depot's images as reported: name, size, and the first digits of the proven SHA-512."""
    try:
        images = depot.catalogue.unchanged()
    except FlashferryError:
        return []
    return [
        {"name": one.name, "size_bytes": one.size_bytes, "sha512": one.sha512[:PREFIX_DIGITS], "proven": True}
        for one in images[:_MOST_IMAGES]
    ]


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
        answer = {"order": entry.id, "job": entry.job, "sentence": sentence, "hint": "Order it again"}
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
            f"order {order.id}: expected one that ends after {until}, for orders until then are done and forgotten, "
            f"found that it ends at {order.valid_until}: it may be an old one",
            hint="Have this host keep its clock by NTP, and order it again",
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

"""Carry out the orders of a site in lanes: one after the other within a lane, with retries."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import masked
from flashferry.depot.catalogue.part import CatalogueBusy
from flashferry.depot.sync.filling import SourceRefused, SourceUnreachable
from flashferry.sites.agent.bench import Bench
from flashferry.sites.agent.execution import carry_out, end_after
from flashferry.sites.agent.order_checks import OrderRefused
from flashferry.sites.agent.order_intake import Taker
from flashferry.sites.wire import Order, OrderJob, moment_of

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

"""A run at a site steered from the centre: paused, gone on with, stopped, a wave approved, all by the run's journal."""

from __future__ import annotations

from typing import Any

from flashferry import api
from flashferry.core.errors import FlashferryError
from flashferry.sites.agent.carrying import Bench, End
from flashferry.sites.agent.judging import OrderRefused
from flashferry.sites.wire import Order, OrderJob
from flashferry.store.control_requests import Asker
from flashferry.store.reader import is_run_alive
from flashferry.store.sites import ledger


def steer(bench: Bench, order: Order) -> End:
    """Pass the centre's request on to the run of a part.

    Raises:
        OrderRefused: There is no such part here, or its run is not under way.
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
        exit_code=0, sentence=f"run {part.run_id} was asked to {order.job.value}", data=_told(bench, order, part.run_id)
    )


def _without_run(order: Order, part: ledger.LedgerEntry) -> End:
    """Return what a part that has no run under way makes of an order: a stop holds, all else comes too early."""
    if order.job is OrderJob.STOP:
        return End(exit_code=0, sentence=f"part {order.run} will not start, or not continue, any more", data={})
    raise OrderRefused(
        f"order {order.id}: expected run {order.run} under way, found its part {part.state.value} without a run: "
        "images are fetched, or devices of a dead run restored",
        hint="Send it again once its run has started",
    )


def _told(bench: Bench, order: Order, run_id: str) -> dict[str, Any]:
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

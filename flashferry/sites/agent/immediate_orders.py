"""Carry out short orders: check the site; pause, continue, stop or approve a run."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

from flashferry import api
from flashferry.core.errors import FlashferryError
from flashferry.sites.agent.bench import Bench, End
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.order_checks import OrderRefused
from flashferry.sites.wire import Order, OrderJob, moment_text
from flashferry.store.control_requests import Asker
from flashferry.store.reader import is_run_alive
from flashferry.store.sites import ledger


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

"""Make the content of the agent's heartbeats."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from flashferry.depot.sync.filling import SyncProgress
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.immediate_orders import depot_images
from flashferry.sites.wire import moment_text
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase


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

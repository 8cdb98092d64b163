"""Remove what is long over from an agent's disk: orders, undelivered reports, and files of attempts.

Facts
-----

- A clock that jumps ahead makes everything look old. So nothing is removed until the clock has agreed with the
  monotonic clock for a day; an hour with a wrong year does no harm.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flashferry.sites.agent.tries import forget_tries
from flashferry.sites.wire import moment_text
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase

_LOG = logging.getLogger("flashferry.sites")
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

"""Collection of metrics: a background task counts ended copies and checks the depot; a scrape only reads.

Scrapes within a few seconds share one answer, and concurrent ones wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flashferry.depot.status import DepotFound, find_depot
from flashferry.service.background import PeriodicTask, TaskState
from flashferry.service.jobs.supervisor import depot_option
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.figures import COPIES, counted, keep_counted
from flashferry.store.tables import ended_copies, newest_copy

if TYPE_CHECKING:
    from flashferry.service.live.collect import SnapshotReader
    from flashferry.service.metrics.counting import Counted

FRESH_S = 5.0
"""How long an answer is reused."""
COUNT_EVERY_S = 10.0
_DEPOT_OLD_S = 6 * COUNT_EVERY_S
_AT_ONCE = 5000
"""Transfers counted in one transaction; an old journal takes several, and the service can end in between."""


class Figures:
    """The metrics of a service. Thread-safe. `clock_s` returns monotonic seconds."""

    def __init__(self, service: Service, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock_s = service, clock_s
        self._counting, self._answering = threading.Lock(), threading.Lock()
        self._counted: Counted | None = None
        self._depot: tuple[float, DepotFound | None] | None = None
        self._answer: tuple[float, bytes] | None = None

    @property
    def background_tasks(self) -> tuple[PeriodicTask, ...]:
        """Return the tasks that count copies and check the depot; two, so that a hanging depot delays no count."""
        return (
            PeriodicTask(name="figures", every_s=COUNT_EVERY_S, run=lambda _: self.count()),
            PeriodicTask(name="depot", every_s=COUNT_EVERY_S, run=lambda _: self.check_depot()),
        )

    def count(self) -> None:
        """Count the copies that ended since the last call.

        Raises:
            ConfigInvalid: The journal cannot be read.
            sqlite3.Error: The totals cannot be stored; the next call counts the same copies, none twice.
        """
        while self._count() and not self._service.stopping.is_set():
            pass

    def check_depot(self) -> None:
        """Check whether the depot that jobs would use answers."""
        found = find_depot(self._service.state, depot_option(self._service))
        self._depot = (self._clock_s(), found)

    def text(self, reader: SnapshotReader, background_tasks: Sequence[TaskState]) -> bytes:
        """Return all metrics in Prometheus' text format, at most a few seconds old."""
        with self._answering:
            now_s = self._clock_s()
            if self._answer is None or not 0 <= now_s - self._answer[0] < FRESH_S:
                self._answer = (now_s, self._made(reader, background_tasks))
            return self._answer[1]

    def _made(self, reader: SnapshotReader, background_tasks: Sequence[TaskState]) -> bytes:
        # Late: prometheus_client takes 0.1 s to import, and only scrapes need it.
        from flashferry.service.metrics.scrape import answer

        return answer(self._service, reader.read(), self._known(), background_tasks, self._depot_now())

    def _depot_now(self) -> DepotFound | None:
        """Return the depot's last state; a depot that did not answer the last check is down."""
        if self._depot is None or self._clock_s() - self._depot[0] > _DEPOT_OLD_S:
            return None
        return self._depot[1]

    def _count(self) -> bool:
        """Count a batch of copies and store the totals; return whether there may be more."""
        with self._counting:
            found = self._read()
            with reading(self._service.state) as journal:
                if journal is None:
                    return False
                if newest_copy(journal) < found.last:
                    found.begin_anew()
                ended = ended_copies(journal, found.last, _AT_ONCE)
            if not ended:
                self._counted = found
                return False
            found.take(ended)
            with self._service.database.writing() as database:
                keep_counted(database, COPIES, found.as_text())
            self._counted = found
            return len(ended) == _AT_ONCE

    def _known(self) -> Counted:
        """Return the last totals, which do not change while they are read."""
        known = self._counted
        if known is None:
            with self._counting:
                known = self._read()
        return known

    def _read(self) -> Counted:
        """Return the stored totals; empty if they are damaged, so that all copies are counted again."""
        # Late: the metric names come with the transports, which would slow the service's start.
        from flashferry.service.metrics.counting import Counted, counted_of

        with self._service.database.reading() as database:
            text = counted(database, COPIES)
        try:
            return Counted() if text is None else counted_of(text)
        except ValueError:
            return Counted()

"""Figures gathered: a background thread counts what ended and looks at the depot; a scrape reads, and changes nothing.

What a scrape costs is bounded: whoever asks again within seconds is given the same, and who asks at the same moment
waits for the one that is being made.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flashferry.depot.status import DepotFound, look_for_depot
from flashferry.service.background import KeeperState, PeriodicTask
from flashferry.service.jobs.launching import depot_wish
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.figures import COPIES, counted, keep_counted, table_figures
from flashferry.store.tables import ended_copies, newest_copy

if TYPE_CHECKING:
    from flashferry.service.live.collect import Looker
    from flashferry.service.metrics.counting import Counted

FRESH_S = 5.0
"""So long an answer is given again."""
COUNT_EVERY_S = 10.0
_DEPOT_OLD_S = 6 * COUNT_EVERY_S
_AT_ONCE = 5000
"""So many transfers are counted in a go: with an old journal it takes several, and the service can end in between."""


class Figures:
    """The figures of a service. Safe to use from all threads.

    Args:
        service: The service.
        clock_s: Tells the time by which an answer is fresh, seconds from anywhere.
    """

    def __init__(self, service: Service, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._service, self._clock_s = service, clock_s
        self._counting, self._answering = threading.Lock(), threading.Lock()
        self._counted: Counted | None = None
        self._depot: tuple[float, DepotFound | None] | None = None
        self._answer: tuple[float, bytes] | None = None

    @property
    def keepers(self) -> tuple[PeriodicTask, ...]:
        """The background threads that count, and that look at the depot: one that hangs holds up no count."""
        return (
            PeriodicTask(name="figures", every_s=COUNT_EVERY_S, look=lambda _: self.count()),
            PeriodicTask(name="depot", every_s=COUNT_EVERY_S, look=lambda _: self.look_at_depot()),
        )

    def count(self) -> None:
        """Count the copies that have ended since the last time.

        Raises:
            ConfigInvalid: The journal cannot be read.
            sqlite3.Error: What was counted cannot be kept; it is counted again, and nothing twice.
        """
        while self._count() and not self._service.stopping.is_set():
            pass

    def look_at_depot(self) -> None:
        """Look at the depot that jobs would use."""
        found = look_for_depot(self._service.state, depot_wish(self._service))
        self._depot = (self._clock_s(), found)

    def text(self, looker: Looker, keepers: Sequence[KeeperState]) -> bytes:
        """Return all figures as Prometheus reads them, some seconds old at most.

        Args:
            looker: Looks at what goes on.
            keepers: How the background threads do.
        """
        with self._answering:
            now_s = self._clock_s()
            if self._answer is None or not 0 <= now_s - self._answer[0] < FRESH_S:
                self._answer = (now_s, self._made(looker, keepers))
            return self._answer[1]

    def _made(self, looker: Looker, keepers: Sequence[KeeperState]) -> bytes:
        # Here, for the client of Prometheus takes a tenth of a second to load, and most requests are for none of it.
        from flashferry.service.metrics import runs, service_metrics
        from flashferry.service.metrics.exposition import Sheet

        sheet = Sheet()
        runs.put_scene(sheet, looker.look())
        runs.put_counted(sheet, self._known())
        try:
            with self._service.database.reading() as database:
                service_metrics.put_tables(sheet, table_figures(database))
        except sqlite3.Error:
            sheet.put("journal_readable", 0)
        service_metrics.put_disks(sheet, {"state": self._service.state, "images": self._service.images})
        service_metrics.put_keepers(sheet, keepers)
        service_metrics.put_depot(sheet, self._depot_now())
        service_metrics.put_nights(sheet, self._service.state)
        service_metrics.put_backup(sheet, self._service.settings.metrics.backups)
        service_metrics.put_build(sheet)
        return sheet.text()

    def _depot_now(self) -> DepotFound | None:
        """Return how the depot stood a moment ago; one that has not answered since is not up."""
        if self._depot is None or self._clock_s() - self._depot[0] > _DEPOT_OLD_S:
            return None
        return self._depot[1]

    def _count(self) -> bool:
        """Count some transfers, and keep the sums with where they end; return whether there may be more."""
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
        """Return what was counted last: nothing is changed in it while it is read."""
        known = self._counted
        if known is None:
            with self._counting:
                known = self._read()
        return known

    def _read(self) -> Counted:
        """Return what is kept, made anew; nothing where it is damaged: then all that is there is counted again."""
        from flashferry.service.metrics.counting import Counted, counted_of

        with self._service.database.reading() as database:
            text = counted(database, COPIES)
        try:
            return Counted() if text is None else counted_of(text)
        except ValueError:
            return Counted()

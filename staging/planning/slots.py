"""Slots of a run by the forecast: who asked first is served first, each site has a limit of its own. Pure."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Slots:
    """Slots in all and per site, both taken together.

    Attributes:
        total: Slots in all.
        of_site: Slots of a site.
    """

    total: int
    of_site: Callable[[str], int]
    _taken: int = 0
    _taken_at: Counter[str] = field(default_factory=Counter)
    _asked: int = 0
    _queue: list[tuple[int, int, str]] = field(default_factory=list)
    # Those whose site is full wait apart, so that nobody looks at them again before it has room.
    _held_up: dict[str, deque[tuple[int, int, str]]] = field(default_factory=dict)

    def ask(self, job: int, site: str) -> None:
        """Queue a job."""
        self._asked += 1
        heapq.heappush(self._queue, (self._asked, job, site))

    def give_back(self, site: str) -> None:
        """Free a slot."""
        self._taken -= 1
        self._taken_at[site] -= 1
        if waiting := self._held_up.get(site):
            heapq.heappush(self._queue, waiting.popleft())

    def granted(self) -> list[int]:
        """Return the jobs that have their slots from now on."""
        found = []
        while self._queue and self._taken < self.total:
            asked = heapq.heappop(self._queue)
            _, job, site = asked
            if self._taken_at[site] >= self.of_site(site):
                self._held_up.setdefault(site, deque()).append(asked)
                continue
            self._taken += 1
            self._taken_at[site] += 1
            found.append(job)
        return found

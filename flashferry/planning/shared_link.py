"""A site's link that copies share: each gets the same, but none more than it can take by itself (max-min). Pure.

This is what the server does with a site's cap, and what BBR and CUBIC flows of one link come to, roughly. A copy whose
own limit is below the level runs at its limit; all others run at the level, which is what is left divided by them. For
those a clock is kept that advances by the bytes that each of them has got, so that a change of the level touches none
of them: an event costs a logarithm, not a walk over all copies. Slots of the run are handed out in the order in which
they were asked for, each site within a limit of its own.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Slots:
    """Slots in all and per site, both taken together.

    Attributes:
        total: Slots in all.
        of_site: Slots of a site.
        queue: Jobs that ask for a slot, but for those whose site is full.
    """

    total: int
    of_site: Callable[[str], int]
    _taken: int = 0
    _taken_at: Counter[str] = field(default_factory=Counter)
    _asked: int = 0
    queue: list[tuple[int, int, str]] = field(default_factory=list)
    # Those whose site is full wait apart, and are not tried again before it has a slot.
    _held_up: dict[str, deque[tuple[int, int, str]]] = field(default_factory=dict)

    def ask(self, job: int, site: str) -> None:
        """Queue a job."""
        self._asked += 1
        heapq.heappush(self.queue, (self._asked, job, site))

    def give_back(self, site: str) -> None:
        """Free a slot."""
        self._taken -= 1
        self._taken_at[site] -= 1
        if waiting := self._held_up.get(site):
            heapq.heappush(self.queue, waiting.popleft())

    def granted(self) -> list[int]:
        """Return the jobs that have their slots from now on."""
        found = []
        while self.queue and self._taken < self.total:
            asked = heapq.heappop(self.queue)
            _, job, site = asked
            if self._taken_at[site] >= self.of_site(site):
                self._held_up.setdefault(site, deque()).append(asked)
                continue
            self._taken += 1
            self._taken_at[site] += 1
            found.append(job)
        return found


_ROUNDING = 1e-9


@dataclass(slots=True, kw_only=True)
class _Flow:
    key: int
    limit: float
    is_sharing: bool = False
    # At its own limit: the time at which it ends. Sharing: what the clock of shares shows then.
    end: float = 0.0


@dataclass(slots=True)
class SharedLink:
    """The copies on a link, as time goes on; times in seconds never go back.

    Attributes:
        cap_bytes_per_s: What all of them may take together; infinite where nothing caps them.
    """

    cap_bytes_per_s: float
    _now_s: float = 0.0
    _share_bytes: float = 0.0
    _limited_bytes_per_s: float = 0.0
    _limited: int = 0
    _flows: dict[int, _Flow] = field(default_factory=dict)
    # Sorted: the first `_limited` of them run at their own limit.
    _by_limit: list[tuple[float, int]] = field(default_factory=list)
    _own_ends: list[tuple[float, int]] = field(default_factory=list)
    _shared_ends: list[tuple[float, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._flows)

    @property
    def level_bytes_per_s(self) -> float:
        """Return what a copy without a limit of its own gets."""
        sharing = len(self._flows) - self._limited
        return max(self.cap_bytes_per_s - self._limited_bytes_per_s, 0.0) / sharing if sharing else self.cap_bytes_per_s

    @property
    def rate_bytes_per_s(self) -> float:
        """Return what all copies get together."""
        sharing = len(self._flows) - self._limited
        return self._limited_bytes_per_s + (self.level_bytes_per_s * sharing if sharing else 0.0)

    def begin(self, now_s: float, key: int, size_bytes: float, limit_bytes_per_s: float) -> None:
        """Add a copy.

        Args:
            now_s: The present.
            key: What it is called; unique among those that run.
            size_bytes: What it has to carry, > 0.
            limit_bytes_per_s: What it can take by itself, > 0; infinite only where the link has a cap.
        """
        self._advance(now_s)
        flow = _Flow(key=key, limit=limit_bytes_per_s)
        self._flows[key] = flow
        insort(self._by_limit, (limit_bytes_per_s, key))
        if bisect_left(self._by_limit, (limit_bytes_per_s, key)) < self._limited:
            # Among those that run at their limits: whether they still can is settled below.
            self._limited += 1
            self._limited_bytes_per_s += flow.limit
            self._run_limited(flow, size_bytes)
        else:
            self._run_sharing(flow, size_bytes)
        self._settle()

    def next_end_s(self) -> float | None:
        """Return when the next copy ends if nothing begins before, or None where none runs."""
        own = self._head(self._own_ends, is_sharing=False)
        shared = self._head(self._shared_ends, is_sharing=True)
        ends = [max(own[0], self._now_s)] if own else []
        if shared:
            ends.append(self._now_s + max(shared[0] - self._share_bytes, 0.0) / self.level_bytes_per_s)
        return min(ends, default=None)

    def end_next(self) -> tuple[float, int]:
        """Let the next copy end; return when, and which."""
        own = self._head(self._own_ends, is_sharing=False)
        at_s = self.next_end_s()
        assert at_s is not None, "no copy runs"
        key = own[1] if own is not None and own[0] <= at_s else self._shared_ends[0][1]
        self._advance(at_s)
        flow = self._flows.pop(key)
        del self._by_limit[bisect_left(self._by_limit, (flow.limit, key))]
        if not flow.is_sharing:
            self._limited -= 1
            self._limited_bytes_per_s -= flow.limit
        self._settle()
        return at_s, key

    def _advance(self, now_s: float) -> None:
        if len(self._flows) > self._limited:
            self._share_bytes += (now_s - self._now_s) * self.level_bytes_per_s
        self._now_s = now_s

    def _settle(self) -> None:
        """Move copies between the two kinds until those at their limits are the ones whose limit the level allows."""
        if self._limited == 0:
            self._limited_bytes_per_s = 0.0
        while self._may_have_its_limit():
            flow = self._flows[self._by_limit[self._limited][1]]
            self._limited += 1
            self._limited_bytes_per_s += flow.limit
            self._run_limited(flow, max(flow.end - self._share_bytes, 0.0))
        while self._limited and self._is_above_level():
            flow = self._flows[self._by_limit[self._limited - 1][1]]
            self._limited -= 1
            self._limited_bytes_per_s -= flow.limit
            self._run_sharing(flow, max(flow.end - self._now_s, 0.0) * flow.limit)

    def _may_have_its_limit(self) -> bool:
        """Return whether the least limited of those that share gets all it can take."""
        if self._limited == len(self._by_limit):
            return False
        return self._by_limit[self._limited][0] <= self.level_bytes_per_s * (1 + _ROUNDING)

    def _is_above_level(self) -> bool:
        """Return whether the fastest of those at their limits gets more than its share, by more than rounding."""
        if len(self._flows) == self._limited:
            return self._limited_bytes_per_s > self.cap_bytes_per_s * (1 + 4 * _ROUNDING)
        return self._by_limit[self._limited - 1][0] > self.level_bytes_per_s * (1 + 4 * _ROUNDING)

    def _run_limited(self, flow: _Flow, left_bytes: float) -> None:
        flow.is_sharing, flow.end = False, self._now_s + left_bytes / flow.limit
        heapq.heappush(self._own_ends, (flow.end, flow.key))

    def _run_sharing(self, flow: _Flow, left_bytes: float) -> None:
        flow.is_sharing, flow.end = True, self._share_bytes + left_bytes
        heapq.heappush(self._shared_ends, (flow.end, flow.key))

    def _head(self, ends: list[tuple[float, int]], *, is_sharing: bool) -> tuple[float, int] | None:
        """Return the first end that still holds; a copy that changed its kind left an old one behind."""
        while ends:
            end, key = ends[0]
            flow = self._flows.get(key)
            if flow is not None and flow.is_sharing is is_sharing and flow.end == end:
                return ends[0]
            heapq.heappop(ends)
        return None

"""A site's link shared by copies: equal shares, none above its own limit (max-min fairness). Pure.

This is how the server divides a site's cap, and roughly how BBR and CUBIC flows share a link. A copy whose limit is
below the fair share runs at its limit; the others divide the rest equally. A virtual clock advances by the bytes that
each of those has received, so an event costs O(log n) and not a walk over all copies. Slots are granted in order of
request, within each site's limit.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Slots:
    """Slots of the run and of each site, which are taken together.

    Attributes:
        total: Slots of the run.
        of_site: Slots by site.
        queue: Jobs that wait for a slot, without those whose site is full.
    """

    total: int
    of_site: Callable[[str], int]
    _taken: int = 0
    _taken_at: Counter[str] = field(default_factory=Counter)
    _asked: int = 0
    queue: list[tuple[int, int, str]] = field(default_factory=list)
    # Jobs whose site is full wait separately until it has a slot.
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
        """Grant free slots; return the jobs that got one."""
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
    # Limited copies: end time. Sharing copies: value of the virtual clock at the end.
    end: float = 0.0


@dataclass(slots=True)
class SharedLink:
    """The copies on a link over time; times in seconds never decrease.

    Attributes:
        cap_bytes_per_s: Rate of all together; infinite for no cap.
    """

    cap_bytes_per_s: float
    _now_s: float = 0.0
    _share_bytes: float = 0.0
    _limited_bytes_per_s: float = 0.0
    _limited: int = 0
    _flows: dict[int, _Flow] = field(default_factory=dict)
    # Sorted; the first `_limited` run at their own limit.
    _by_limit: list[tuple[float, int]] = field(default_factory=list)
    _own_ends: list[tuple[float, int]] = field(default_factory=list)
    _shared_ends: list[tuple[float, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._flows)

    @property
    def level_bytes_per_s(self) -> float:
        """Return the rate of a copy without a limit of its own."""
        sharing = len(self._flows) - self._limited
        return max(self.cap_bytes_per_s - self._limited_bytes_per_s, 0.0) / sharing if sharing else self.cap_bytes_per_s

    @property
    def rate_bytes_per_s(self) -> float:
        """Return the rate of all copies together."""
        sharing = len(self._flows) - self._limited
        return self._limited_bytes_per_s + (self.level_bytes_per_s * sharing if sharing else 0.0)

    def begin(self, now_s: float, key: int, size_bytes: float, limit_bytes_per_s: float) -> None:
        """Add a copy.

        Args:
            now_s: Current time.
            key: Unique among running copies.
            size_bytes: > 0.
            limit_bytes_per_s: Its own limit, > 0; infinite only if the link has a cap.
        """
        self._advance(now_s)
        flow = _Flow(key=key, limit=limit_bytes_per_s)
        self._flows[key] = flow
        insort(self._by_limit, (limit_bytes_per_s, key))
        if bisect_left(self._by_limit, (limit_bytes_per_s, key)) < self._limited:
            # Added to the limited ones; `_settle` moves it if necessary.
            self._limited += 1
            self._limited_bytes_per_s += flow.limit
            self._run_limited(flow, size_bytes)
        else:
            self._run_sharing(flow, size_bytes)
        self._settle()

    def next_end_s(self) -> float | None:
        """Return when the next copy ends if none is added before; None if none runs."""
        own = self._head(self._own_ends, is_sharing=False)
        shared = self._head(self._shared_ends, is_sharing=True)
        ends = [max(own[0], self._now_s)] if own else []
        if shared:
            ends.append(self._now_s + max(shared[0] - self._share_bytes, 0.0) / self.level_bytes_per_s)
        return min(ends, default=None)

    def end_next(self) -> tuple[float, int]:
        """Remove the next copy to end; return time and key."""
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
        """Move copies between the limited and the sharing ones until both groups are correct."""
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
        """Return whether the sharing copy with the least limit reaches that limit."""
        if self._limited == len(self._by_limit):
            return False
        return self._by_limit[self._limited][0] <= self.level_bytes_per_s * (1 + _ROUNDING)

    def _is_above_level(self) -> bool:
        """Return whether the fastest limited copy exceeds the fair share, by more than rounding."""
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
        """Return the first valid end; copies that changed group leave invalid ones."""
        while ends:
            end, key = ends[0]
            flow = self._flows.get(key)
            if flow is not None and flow.is_sharing is is_sharing and flow.end == end:
                return ends[0]
            heapq.heappop(ends)
        return None

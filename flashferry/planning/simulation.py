"""Simulate a run: waiting for slots, sharing of links (max-min fairness), and when each device ends. Pure.

Sharing in equal parts is how the server divides a site's cap, and roughly how BBR and CUBIC flows share a link. A copy
whose limit is below the fair share runs at its limit; the others divide the rest equally. A virtual clock advances by
the bytes that each of those has received, so an event costs O(log n) and not a walk over all copies. Slots are granted
in order of request, within each site's limit.

Facts
-----
The duration of a device's other steps is with these steps (`tasks.steps`). It was measured (docs/benchmarks.md, "A
whole run", stage of a new image by steps, LAN at 1 ms and the published link at 100 ms; linear fit, plus three
exchanges added since): check 0.85 s + 20 round trips; snapshot, tuning and the FTP login 0.3 s + 20; restore and proof
0.03 s + 9.4. The start of a BBR flow costs about 6 round trips of full rate (the probes in docs/demo-transcript.md: 30
MB at 100 ms in 5.6 s, at the steady rate 5.03 s). Stand-ins answer at once; an old router's own seconds are not known
before it was staged once.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto

from msgspec import Struct

from flashferry.model.limits import MOST, Limits
from flashferry.planning.device_queue import checked_ahead
from flashferry.planning.neighbour_tree import degree_for
from tasks.step import CostPhase
from tasks.steps import cost


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


CHECK_S, CHECK_ROUND_TRIPS = cost(CostPhase.CHECK)
SETUP_S, SETUP_ROUND_TRIPS = cost(CostPhase.SET_UP)
RESTORE_S, RESTORE_ROUND_TRIPS = cost(CostPhase.RESTORE)


class Job(Struct, frozen=True, kw_only=True):
    """A device to stage.

    Attributes:
        site: Key of its link.
        size_bytes: Size of its image, > 0.
        limit_bytes_per_s: Own limit of its copy, > 0; infinite only if the site has a cap.
        hash_s: Duration of its hash.
        rtt_s: Round-trip time, for other steps than the copy.
        extra_round_trips: Round trips of its transport's login beyond the measured ones.
        finish_s: Duration of what it does after its restore, without slots.
        not_before_s: Earliest start, because its source gets the image then.
        over: Key of the link of its copy, if not its site's; else empty.
        joins: Group that it serves once its image is verified; else empty.
        needs: Group that must have a free place for its copy; else empty.
    """

    host: str
    site: str
    size_bytes: int
    limit_bytes_per_s: float
    hash_s: float = 0.0
    rtt_s: float = 0.0
    extra_round_trips: float = 0.0
    finish_s: float = 0.0
    not_before_s: float = 0.0
    over: str = ""
    joins: str = ""
    needs: str = ""

    @property
    def path(self) -> str:
        """Return the key of the link of its copy."""
        return self.over or self.site


class Link(Struct, frozen=True, kw_only=True):
    """A site's link: payload cap (infinite for none), concurrent copies, and opening in seconds."""

    cap_bytes_per_s: float
    copies: int
    opens_s: float = 0.0


class Timeline(Struct, frozen=True, kw_only=True):
    """A device's times, in seconds after the start of the run.

    Attributes:
        begins_s: Login.
        copies_from_s: First byte.
        copied_s: Last byte.
        hashes_from_s: Start of the hash.
        hashed_s: End of the hash.
        restored_s: Restored and proven.
        ends_s: End, after copies inside the device and adding.
    """

    begins_s: float
    copies_from_s: float
    copied_s: float
    hashes_from_s: float
    hashed_s: float
    restored_s: float
    ends_s: float


class LinkUse(Struct, frozen=True, kw_only=True):
    """Use of a link: bytes, most concurrent copies, seconds with a copy, and its times."""

    carried_bytes: int
    peak_copies: int
    busy_s: float
    begins_s: float
    first_byte_s: float
    last_byte_s: float
    ends_s: float


class Simulated(Struct, frozen=True, kw_only=True):
    """A simulated run: timelines by host, links by key, ends of the waves and of the run."""

    devices: Mapping[str, Timeline]
    links: Mapping[str, LinkUse]
    wave_ends_s: tuple[float, ...]
    ends_s: float


class _Step(IntEnum):
    """The step that a device has just ended, or, for a link, the end of its next copy."""

    OPENED = auto()
    CHECKED = auto()
    SET_UP = auto()
    COPIED = auto()
    HASHED = auto()
    SERVES = auto()


def simulate(waves: Sequence[Sequence[Job]], links: Mapping[str, Link], limits: Limits) -> Simulated:
    """Simulate a run.

    A device logs in, is checked, waits for a copy slot (of its site and of the run together), is tuned, copies beside
    the others of its link, waits for a hash slot, hashes, is restored, and finishes inside the device without slots. A
    wave starts when the one before has ended.

    A device that needs a server starts once there is a free place: each device that serves has some from its hash on
    (`degree_for`). In a later wave one of them is checked again to serve.

    Args:
        waves: The devices by wave in starting order; in a group, one that needs no server is before all that do.
        links: The link of each job's site, and of its copy.
        limits: Concurrency.
    """
    run = _Run(waves, links, limits)
    ends: list[float] = []
    for wave in run.waves:
        ends.append(run.play(wave, ends[-1] if ends else 0.0))
    devices = {job.host: run.timeline(number) for number, job in enumerate(run.jobs)}
    used = {link: run.use_of(link) for link in links if run.over.get(link)}
    return Simulated(devices=devices, links=used, wave_ends_s=tuple(ends), ends_s=ends[-1] if ends else 0.0)


@dataclass(slots=True)
class _Times:
    begins: float = 0.0
    copies_from: float = 0.0
    copied: float = 0.0
    hashes_from: float = 0.0
    hashed: float = 0.0
    restored: float = 0.0
    ends: float = 0.0


@dataclass(slots=True)
class _LinkState:
    link: SharedLink
    version: int = 0
    peak: int = 0
    busy_from_s: float = 0.0
    busy_s: float = 0.0


@dataclass(slots=True)
class _Events:
    """Future events; simultaneous ones in the order of insertion."""

    _heap: list[tuple[float, int, _Step, int, str, int]] = field(default_factory=list)
    _put: int = 0

    def put(self, at_s: float, step: _Step, *, job: int = -1, link: str = "", version: int = 0) -> None:
        self._put += 1
        heapq.heappush(self._heap, (at_s, self._put, step, job, link, version))

    def take(self) -> tuple[float, _Step, int, str, int] | None:
        if not self._heap:
            return None
        at_s, _, step, job, link, version = heapq.heappop(self._heap)
        return at_s, step, job, link, version


@dataclass(slots=True)
class _Served:
    """Free places of serving devices, the jobs that wait for one, and the first that served."""

    free: int = 0
    first: int | None = None
    waiting: deque[int] = field(default_factory=deque)


class _Run:
    """State of a simulation."""

    def __init__(self, waves: Sequence[Sequence[Job]], links: Mapping[str, Link], limits: Limits) -> None:
        self.jobs = [job for wave in waves for job in wave]
        self.waves: list[range] = []
        self.over: dict[str, list[int]] = {}
        for number, job in enumerate(self.jobs):
            self.over.setdefault(job.path, []).append(number)
        start = 0
        for wave in waves:
            self.waves.append(range(start, start + len(wave)))
            start += len(wave)
        self._links = links
        self._times = [_Times() for _ in self.jobs]
        self._states = {site: _LinkState(SharedLink(link.cap_bytes_per_s)) for site, link in links.items()}
        self._events = _Events()
        self._served: defaultdict[str, _Served] = defaultdict(_Served)
        joining = Counter(job.joins for job in self.jobs if job.joins)
        self._degree = {what: degree_for(devices) for what, devices in joining.items()}
        self._ahead = Slots(MOST, lambda site: checked_ahead(links[site].copies))
        self._logins = Slots(limits.logins, lambda _: MOST)
        self._copies = Slots(limits.copies, lambda site: links[site].copies)
        self._hashes = Slots(limits.hashes, lambda _: MOST)

    def play(self, wave: range, start_s: float) -> float:
        """Simulate one wave; return its end."""
        for number in wave:
            job = self.jobs[number]
            opens_s = max(start_s, self._links[job.site].opens_s, job.not_before_s)
            self._events.put(opens_s, _Step.OPENED, job=number)
        self._call_back(wave, start_s)
        end_s = start_s
        while (event := self._events.take()) is not None:
            now_s, step, number, link, version = event
            if step is _Step.COPIED:
                if version != self._states[link].version:
                    continue  # outdated: another copy started or ended meanwhile
                _, number = self._states[link].link.end_next()
            self._after(step, number, now_s)
            end_s = max(end_s, self._times[number].ends)
        return end_s

    def _call_back(self, wave: range, start_s: float) -> None:
        """Let one device of an earlier wave serve a later one, after a check."""
        for what in dict.fromkeys(self.jobs[number].needs for number in wave):
            if what and (first := self._served[what].first) is not None:
                job = self.jobs[first]
                check_s = CHECK_S + CHECK_ROUND_TRIPS * job.rtt_s
                self._served[what].free = 0
                self._events.put(max(start_s, self._links[job.site].opens_s) + check_s, _Step.SERVES, job=first)

    def _after(self, step: _Step, number: int, now_s: float) -> None:
        """Continue a device after a step, and those that waited for its slots."""
        job = self.jobs[number]
        if step is _Step.OPENED:
            self._opened(number, job)
        elif step is _Step.CHECKED:
            self._logins.give_back(job.site)
            self._copies.ask(number, job.site)
        elif step is _Step.SET_UP:
            self._copies_from(number, job, now_s)
        elif step is _Step.COPIED:
            self._copied(number, job, now_s)
        elif step is _Step.HASHED:
            self._hashed(number, job, now_s)
        else:
            self._serve(job.joins, more=self._degree[job.joins])
        self._grant(now_s)

    def _opened(self, number: int, job: Job) -> None:
        if job.needs:
            self._served[job.needs].waiting.append(number)
            self._serve(job.needs)
        else:
            self._ahead.ask(number, job.site)

    def _copies_from(self, number: int, job: Job, now_s: float) -> None:
        self._times[number].copies_from = now_s
        state = self._states[job.path]
        if not len(state.link):
            state.busy_from_s = now_s
        state.link.begin(now_s, number, job.size_bytes, job.limit_bytes_per_s)
        state.peak = max(state.peak, len(state.link))
        self._schedule_end(job.path)

    def _copied(self, number: int, job: Job, now_s: float) -> None:
        self._times[number].copied = now_s
        state = self._states[job.path]
        if not len(state.link):
            state.busy_s += now_s - state.busy_from_s
        self._copies.give_back(job.site)
        self._ahead.give_back(job.site)
        self._hashes.ask(number, job.site)
        self._schedule_end(job.path)

    def _hashed(self, number: int, job: Job, now_s: float) -> None:
        times = self._times[number]
        times.hashed = now_s
        times.restored = now_s + RESTORE_S + RESTORE_ROUND_TRIPS * job.rtt_s
        times.ends = times.restored + job.finish_s
        self._hashes.give_back(job.site)
        if job.joins:
            if self._served[job.joins].first is None:
                self._served[job.joins].first = number
            # Its own place, and the one it occupied at its server until its image was verified.
            self._serve(job.joins, more=self._degree[job.joins] + bool(job.needs))

    def _serve(self, what: str, more: int = 0) -> None:
        """Start the jobs that wait to be served, as far as there are places."""
        served = self._served[what]
        served.free += more
        while served.free and served.waiting:
            served.free -= 1
            number = served.waiting.popleft()
            self._ahead.ask(number, self.jobs[number].site)

    def _grant(self, now_s: float) -> None:
        """Grant free slots: first those for checks in advance, each of which requests a login."""
        if self._ahead.queue:
            for number in self._ahead.granted():
                self._logins.ask(number, self.jobs[number].site)
        if self._logins.queue:
            for number in self._logins.granted():
                self._times[number].begins = now_s
                check_s = CHECK_S + CHECK_ROUND_TRIPS * self.jobs[number].rtt_s
                self._events.put(now_s + check_s, _Step.CHECKED, job=number)
        if self._copies.queue:
            for number in self._copies.granted():
                job = self.jobs[number]
                set_up_s = SETUP_S + (SETUP_ROUND_TRIPS + job.extra_round_trips) * job.rtt_s
                self._events.put(now_s + set_up_s, _Step.SET_UP, job=number)
        if self._hashes.queue:
            for number in self._hashes.granted():
                self._times[number].hashes_from = now_s
                self._events.put(now_s + self.jobs[number].hash_s, _Step.HASHED, job=number)

    def _schedule_end(self, link: str) -> None:
        """Schedule the end of the next copy of a link, replacing the former estimate."""
        state = self._states[link]
        state.version += 1
        if (at_s := state.link.next_end_s()) is not None:
            self._events.put(at_s, _Step.COPIED, link=link, version=state.version)

    def timeline(self, number: int) -> Timeline:
        """Return a device's times."""
        times = self._times[number]
        return Timeline(
            begins_s=times.begins,
            copies_from_s=times.copies_from,
            copied_s=times.copied,
            hashes_from_s=times.hashes_from,
            hashed_s=times.hashed,
            restored_s=times.restored,
            ends_s=times.ends,
        )

    def use_of(self, link: str) -> LinkUse:
        """Return the use of a link."""
        numbers = self.over[link]
        return LinkUse(
            carried_bytes=sum(self.jobs[number].size_bytes for number in numbers),
            peak_copies=self._states[link].peak,
            busy_s=self._states[link].busy_s,
            begins_s=min(self._times[number].begins for number in numbers),
            first_byte_s=min(self._times[number].copies_from for number in numbers),
            last_byte_s=max(self._times[number].copied for number in numbers),
            ends_s=max(self._times[number].ends for number in numbers),
        )

"""A small link for pacing decisions: rate, queue, loss, window, and somebody else's flow. Steps of 2 ms, no kernel.

The sender sends as fast as it is told. An acknowledgement comes a round trip after its segment left the queue; the
round-trip time is smoothed as the kernel does. The neighbour adds to its window each round trip and halves it when the
queue drops, so that it fills any queue.

Delays come as on a busy host: while the sender is delayed it looks at nothing and sends nothing; while the path is,
nothing arrives, and all that was due comes at once.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from flashferry.tcp.pacing import LinkPacer, Pace, Phase
from flashferry.tcp.path_estimator import BaseRtt, PathReading

STEP_S = 0.002
MSS_BYTES = 1460


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Somebody is not served by the processor: the sender's process, or what carries its packets."""

    from_s: float
    seconds: float
    of_path: bool

    def holds(self, now_s: float, *, of_path: bool) -> bool:
        """Tell whether it holds one of the two up now."""
        return self.of_path is of_path and self.from_s <= now_s < self.from_s + self.seconds


def random_delays(seed: int, *, from_s: float, to_s: float, apart_s: float, most_s: float) -> list[Delay]:
    """Return delays of 50 ms and more, of sender and path in turn by chance, the same for a seed."""
    chance, found = random.Random(seed), []
    while (from_s := from_s + chance.expovariate(1 / apart_s)) < to_s:
        found.append(Delay(from_s=from_s, seconds=chance.uniform(0.05, most_s), of_path=chance.random() < 0.5))
        from_s += found[-1].seconds
    return found


@dataclass(kw_only=True)
class Path:
    """The path, and the sender at its beginning; fields may be changed while it runs."""

    rate_bytes_per_s: float = 6e6
    base_s: float = 0.1
    queue_bytes: float = 290_000
    loss_ratio: float = 0.0
    window_bytes: float = 1e9
    has_neighbour: bool = False
    starved_to_bytes_per_s: float = 1e12
    cubic_bytes_per_s: float = 1e12
    bbr_bytes_per_s: float = 6e6
    host_bytes_per_s: float = 1e12
    delays: list[Delay] = field(default_factory=list)
    pacer: LinkPacer = field(default_factory=LinkPacer)

    now_s: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    sent_bytes: float = 0.0
    again_bytes: float = 0.0
    delivered_bytes: float = 0.0
    dropped_bytes: float = 0.0
    neighbour_bytes: float = 0.0

    def __post_init__(self) -> None:
        self._base = BaseRtt()
        self._under_way: deque[tuple[float, float, float, float]] = deque()
        self._queued = 0.0
        self._rtt_s = self.base_s
        self._neighbour_window = 20.0 * MSS_BYTES
        self._look_s = 0.0
        self._was_held_back = False
        self._in_flight = 0.0
        self.pace = Pace(bytes_per_s=0, phase=Phase.SEARCH, next_check_s=0.0)

    def run(self, seconds: float) -> Path:
        """Let time pass."""
        for _ in range(round(seconds / STEP_S)):
            if not self._is_delayed(of_path=True):
                self._acknowledge()
            is_delayed = self._is_delayed(of_path=False)
            if self.now_s >= self._look_s and not is_delayed:
                self._look()
            self._send(is_delayed=is_delayed)
            self.now_s += STEP_S
        return self

    def _is_delayed(self, *, of_path: bool) -> bool:
        return any(delay.holds(self.now_s, of_path=of_path) for delay in self.delays)

    def _look(self) -> None:
        self.pace = self.pacer.take(
            PathReading(
                at_s=self.now_s,
                rtt_s=self._rtt_s,
                base_rtt_s=self._base.take(self.now_s, self._rtt_s),
                delivered_bytes=int(self.delivered_bytes),
                sent_bytes=int(self.sent_bytes),
                again_bytes=int(self.again_bytes),
                mss_bytes=MSS_BYTES,
                held_back=self._was_held_back,
            )
        )
        if not self.phases or self.phases[-1] is not self.pace.phase:
            self.phases.append(self.pace.phase)
        self._was_held_back = False
        self._look_s = self.now_s + self.pace.next_check_s

    def _send(self, *, is_delayed: bool) -> None:
        wanted = 0.0 if is_delayed else min(self.pace.bytes_per_s, self.starved_to_bytes_per_s) * STEP_S
        if self.pace.phase is Phase.YIELD:
            # As its neighbour does, and no faster than it is told.
            wanted = min(wanted, self._neighbour_window / self._rtt_s * STEP_S, self.cubic_bytes_per_s * STEP_S)
        if self.pace.phase is Phase.FREE:
            wanted = min(wanted, self.bbr_bytes_per_s * STEP_S)
        # Timers that come late: less is sent than the pace allows, and nothing tells so.
        wanted = min(wanted, self.host_bytes_per_s * STEP_S)
        room = self.window_bytes - self._in_flight
        self._was_held_back |= wanted > room or self.starved_to_bytes_per_s < self.pace.bytes_per_s
        ours = max(0.0, min(wanted, room))
        theirs = self._neighbour_window / self._rtt_s * STEP_S if self.has_neighbour else 0.0
        self._queued = max(0.0, self._queued - self.rate_bytes_per_s * STEP_S)
        over = max(0.0, self._queued + ours + theirs - self.queue_bytes - self.rate_bytes_per_s * STEP_S)
        kept = 1 - over / (ours + theirs) if over else 1.0
        self._queued += (ours + theirs) * kept
        self._neighbour_window += MSS_BYTES * STEP_S / self._rtt_s * 4
        if over and self.has_neighbour and self.now_s > getattr(self, "_halved_s", -1.0) + self._rtt_s:
            self._neighbour_window, self._halved_s = self._neighbour_window / 2, self.now_s
        self.neighbour_bytes += theirs * kept
        self.dropped_bytes += ours * (1 - kept)
        self.sent_bytes += ours
        arrives = ours * kept * (1 - self.loss_ratio)
        self._in_flight += ours
        rtt_s = self.base_s + self._queued / self.rate_bytes_per_s
        self._under_way.append((self.now_s + rtt_s, ours, arrives, rtt_s))

    def _acknowledge(self) -> None:
        while self._under_way and self._under_way[0][0] <= self.now_s:
            due_s, sent, arrived, rtt_s = self._under_way.popleft()
            self._in_flight -= sent
            self.delivered_bytes += arrived
            self.again_bytes += sent - arrived
            if arrived:
                rtt_s += max(0.0, self.now_s - due_s - STEP_S)
                weight = 1 - (7 / 8) ** (arrived / MSS_BYTES / 2)
                self._rtt_s += weight * (rtt_s - self._rtt_s)

    def delivered_over(self, seconds: float) -> float:
        """Let time pass, and return what was delivered per second of it."""
        before = self.delivered_bytes
        self.run(seconds)
        return (self.delivered_bytes - before) / seconds

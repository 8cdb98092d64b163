"""One direction of a WAN link as pure arithmetic: packets and times in, packets and times out.

The order is that of a real path: the sender's interface serialises at a rate behind a drop-tail queue,
the wire loses packets at random, and what survives arrives a constant delay later. A packet that the
wire loses has taken its time on the interface. No clock, no socket: the caller says what time it is, so
that every figure can be tested exactly.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionProfile:
    """How one direction behaves.

    Attributes:
        rate_bps: Bottleneck rate in bits of IP packets per second, > 0.
        delay_s: Constant one-way delay after serialisation, >= 0.
        loss_ratio: Share of packets lost at random, 0 to 1.
        queue_packets: Most packets waiting or in service, >= 1; None for no limit.
        queue_bytes: The same in bytes; None for no limit.
    """

    rate_bps: float
    delay_s: float
    loss_ratio: float = 0.0
    queue_packets: int | None = None
    queue_bytes: int | None = None


@dataclass(slots=True, kw_only=True)
class Counters:
    """What happened to the packets of one direction; offered = delivered + lost + dropped + under way."""

    offered_packets: int = 0
    offered_bytes: int = 0
    delivered_packets: int = 0
    delivered_bytes: int = 0
    lost_packets: int = 0
    dropped_packets: int = 0
    most_queued_packets: int = 0
    most_queued_bytes: int = 0


class Direction:
    """The state of one direction.

    Args:
        profile: How it behaves; may be replaced while packets are under way.
        seed: Seeds the loss; the same packets in the same order lose the same ones.
    """

    def __init__(self, profile: DirectionProfile, *, seed: int | str) -> None:
        self.profile = profile
        self.counters = Counters()
        self._random = random.Random(seed)  # noqa: S311 - repeatable loss is the point, not secrecy
        self._in_service: deque[tuple[float, int]] = deque()
        self._queued_bytes = 0
        self._busy_until_s = 0.0
        self._under_way: deque[tuple[float, bytes]] = deque()

    def offer(self, packet: bytes, now_s: float) -> None:
        """Take a packet that the sender put on the interface at ``now_s``."""
        size = len(packet)
        self.counters.offered_packets += 1
        self.counters.offered_bytes += size
        self._leave_service(now_s)
        if self._is_full(size):
            self.counters.dropped_packets += 1
            return
        start_s = max(now_s, self._busy_until_s)
        self._busy_until_s = start_s + size * 8 / self.profile.rate_bps
        self._join_service(size)
        if self.profile.loss_ratio and self._random.random() < self.profile.loss_ratio:
            self.counters.lost_packets += 1
            return
        due_s = self._busy_until_s + self.profile.delay_s
        if self._under_way:
            # A delay that was shortened meanwhile must not let a later packet overtake.
            due_s = max(due_s, self._under_way[-1][0])
        self._under_way.append((due_s, packet))

    def due(self, now_s: float) -> list[bytes]:
        """Return the packets that have arrived by ``now_s``, in order."""
        arrived = []
        under_way = self._under_way
        while under_way and under_way[0][0] <= now_s:
            packet = under_way.popleft()[1]
            self.counters.delivered_packets += 1
            self.counters.delivered_bytes += len(packet)
            arrived.append(packet)
        return arrived

    def next_due_s(self) -> float | None:
        """Return when the next packet arrives, or None when none is under way."""
        return self._under_way[0][0] if self._under_way else None

    def _is_full(self, size: int) -> bool:
        packets, limit_bytes = self.profile.queue_packets, self.profile.queue_bytes
        if packets is not None and len(self._in_service) >= packets:
            return True
        return limit_bytes is not None and self._queued_bytes + size > limit_bytes

    def _join_service(self, size: int) -> None:
        self._in_service.append((self._busy_until_s, size))
        self._queued_bytes += size
        counters = self.counters
        counters.most_queued_packets = max(counters.most_queued_packets, len(self._in_service))
        counters.most_queued_bytes = max(counters.most_queued_bytes, self._queued_bytes)

    def _leave_service(self, now_s: float) -> None:
        queue = self._in_service
        while queue and queue[0][0] <= now_s:
            self._queued_bytes -= queue.popleft()[1]

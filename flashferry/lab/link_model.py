"""One direction of a WAN link as pure arithmetic: packets and times in, packets and times out.

The order is that of a real path: a policer at the entrance drops what exceeds its bucket, the sender's interface
serialises at a rate behind a drop-tail queue, the wire loses packets, and what survives arrives a delay later. A
packet that the wire loses has taken its time on the interface. No clock, no socket: the caller says what time it is,
so that every figure can be tested exactly.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from flashferry.lab.link_parts import Loss, Policer, stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashferry.lab.link_parts import NodePolicer

DESTINATION = slice(16, 20)
"""Where a packet's destination stands (RFC 791 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionProfile:
    """How one direction behaves.

    Loss is that of Gilbert and Elliott (E. O. Elliott, Bell System Technical Journal 42, 1963): a good and a bad
    state, changed before each packet. Without ``burst_enter_ratio`` there is the good state only: independent loss.

    Attributes:
        rate_bps: Bottleneck rate in bits of IP packets per second, > 0.
        delay_s: One-way delay after serialisation, >= 0.
        jitter_s: Each packet's delay is drawn evenly from ``delay_s`` plus or minus this; packets never overtake, so
            in a dense stream they gather behind the latest. 0 to ``delay_s``.
        loss_ratio: Share of packets lost in the good state, 0 to 1.
        burst_enter_ratio: Chance per packet to fall from the good state into the bad, 0 to 1.
        burst_leave_ratio: Chance per packet to return; a burst lasts 1 / this many packets on average. Above 0.
        burst_loss_ratio: Share of packets lost in the bad state, 0 to 1.
        policer_rate_bps: Bits of IP packets per second that a policer lets pass; None for no policer.
        policer_burst_bytes: Size of its token bucket.
        queue_packets: Most packets waiting or in service, >= 1; None for no limit.
        queue_bytes: The same in bytes; None for no limit.
    """

    rate_bps: float
    delay_s: float
    jitter_s: float = 0.0
    loss_ratio: float = 0.0
    burst_enter_ratio: float = 0.0
    burst_leave_ratio: float = 1.0
    burst_loss_ratio: float = 1.0
    policer_rate_bps: float | None = None
    policer_burst_bytes: int = 65536
    queue_packets: int | None = None
    queue_bytes: int | None = None

    @property
    def mean_loss_ratio(self) -> float:
        """Share of packets that the wire loses in the long run."""
        if not self.burst_enter_ratio:
            return self.loss_ratio
        bad_share = self.burst_enter_ratio / (self.burst_enter_ratio + self.burst_leave_ratio)
        return bad_share * self.burst_loss_ratio + (1 - bad_share) * self.loss_ratio


@dataclass(slots=True, kw_only=True)
class Counters:
    """What happened to the packets of one direction.

    Offered is delivered + lost + dropped + policed + policed by nodes + cut + under way.
    """

    offered_packets: int = 0
    offered_bytes: int = 0
    delivered_packets: int = 0
    delivered_bytes: int = 0
    lost_packets: int = 0
    lost_bursts: int = 0
    dropped_packets: int = 0
    policed_packets: int = 0
    node_policed_packets: int = 0
    cut_packets: int = 0
    most_queued_packets: int = 0
    most_queued_bytes: int = 0


class Direction:
    """The state of one direction.

    Args:
        profile: How it behaves.
        seed: Seeds loss and jitter; the same packets in the same order lose the same ones.
        nodes: Policers in front of the processors of nodes at its end, by address (four bytes).

    Attributes:
        is_cut: The wire is cut: what is offered, and what would have arrived, is lost and counted.
    """

    def __init__(
        self, profile: DirectionProfile, *, seed: int | str, nodes: Mapping[bytes, NodePolicer] | None = None
    ) -> None:
        self._nodes = nodes or {}
        self.counters = Counters()
        self._loss = Loss(stream(seed))
        self._policer = Policer()
        # A generator of its own: switching jitter on must not change which packets are lost.
        self._jitter: Random = stream(f"{seed}/jitter")
        self._in_service: deque[tuple[float, int]] = deque()
        self._queued_bytes = 0
        self._busy_until_s = 0.0
        self._last_due_s = 0.0
        self._in_flight: deque[tuple[float, bytes]] = deque()
        self.is_cut = False
        self.profile = profile

    @property
    def profile(self) -> DirectionProfile:
        """How it behaves; may be replaced while packets are under way, which keep their time."""
        return self._profile

    @profile.setter
    def profile(self, profile: DirectionProfile) -> None:
        self._profile = profile
        self._s_per_byte = 8 / profile.rate_bps
        # Most links have no limit in bytes, no loss and so on: what is off costs nothing per packet.
        self._has_loss = bool(profile.loss_ratio or profile.burst_enter_ratio)
        self._free_packets = profile.queue_packets or 1 << 60
        self._free_bytes = profile.queue_bytes or 1 << 60

    def offer(self, packet: bytes, now_s: float) -> None:
        """Take a packet that the sender put on the interface at ``now_s``."""
        profile, counters = self._profile, self.counters
        size = len(packet)
        counters.offered_packets += 1
        counters.offered_bytes += size
        if self.is_cut:
            counters.cut_packets += 1
            return
        if profile.policer_rate_bps is not None and not self._policer.passes(profile, size, now_s):
            counters.policed_packets += 1
            return
        sent_s = self._serialise(size, now_s)
        if sent_s is None:
            counters.dropped_packets += 1
            return
        if self._has_loss and self._loss.hits(profile, counters):
            counters.lost_packets += 1
            return
        due_s = sent_s + profile.delay_s
        if profile.jitter_s:
            due_s += profile.jitter_s * (2 * self._jitter.random() - 1)
        # Neither jitter nor a delay that was shortened meanwhile lets a later packet overtake.
        self._last_due_s = due_s = max(due_s, self._last_due_s)
        self._in_flight.append((due_s, packet))

    def due(self, now_s: float) -> list[bytes]:
        """Return the packets that have arrived by ``now_s``, in order."""
        arrived = []
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= now_s:
            due_s, packet = in_flight.popleft()
            if self.is_cut:
                self.counters.cut_packets += 1
                continue
            if self._nodes and not self._is_let_in(packet, due_s):
                continue
            arrived.append(packet)
        if arrived:
            self.counters.delivered_packets += len(arrived)
            self.counters.delivered_bytes += sum(map(len, arrived))
        return arrived

    def _is_let_in(self, packet: bytes, arrived_s: float) -> bool:
        """Return whether the node that a packet is for lets it in."""
        policer = self._nodes.get(packet[DESTINATION])
        if policer is None or policer.passes(len(packet), arrived_s):
            return True
        self.counters.node_policed_packets += 1
        return False

    def next_due_s(self) -> float:
        """Return when the next packet arrives; infinity when none is under way."""
        return self._in_flight[0][0] if self._in_flight else math.inf

    def _serialise(self, size: int, now_s: float) -> float | None:
        """Queue a packet and return when its last bit has left; None when there is no room."""
        queue = self._in_service
        while queue and queue[0][0] <= now_s:
            self._queued_bytes -= queue.popleft()[1]
        waiting, waiting_bytes = len(queue) + 1, self._queued_bytes + size
        if waiting > self._free_packets or waiting_bytes > self._free_bytes:
            return None
        start_s = max(now_s, self._busy_until_s)
        self._busy_until_s = sent_s = start_s + size * self._s_per_byte
        queue.append((sent_s, size))
        self._queued_bytes = waiting_bytes
        counters = self.counters
        if waiting > counters.most_queued_packets:
            counters.most_queued_packets = waiting
        if waiting_bytes > counters.most_queued_bytes:
            counters.most_queued_bytes = waiting_bytes
        return sent_s

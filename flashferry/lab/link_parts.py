"""The parts of a link that decide over single packets: loss of the wire, a policer, and one in front of a node."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.link_model import Counters, DirectionProfile


def stream(seed: int | str) -> Random:
    """Return a generator whose numbers are those of its seed, in every process and on every machine."""
    return Random(seed)  # noqa: S311 - repeatable loss is the point, not secrecy


class Loss:
    """Loses packets, in bursts where the profile asks for it.

    The state changes before a packet is judged, so that a burst that is entered loses its first packet too. Without
    bursts one number is drawn per packet; with them two.
    """

    def __init__(self, random: Random) -> None:
        self._draw = random.random
        self._is_bad = False

    def hits(self, profile: DirectionProfile, counters: Counters) -> bool:
        """Return whether the next packet is lost; count the bursts that begin."""
        if not profile.burst_enter_ratio:
            self._is_bad = False
            return self._draw() < profile.loss_ratio
        if self._is_bad:
            self._is_bad = self._draw() >= profile.burst_leave_ratio
        else:
            self._is_bad = self._draw() < profile.burst_enter_ratio
            counters.lost_bursts += self._is_bad
        return self._draw() < (profile.burst_loss_ratio if self._is_bad else profile.loss_ratio)


class Policer:
    """A token bucket without a queue: a packet that finds too few tokens is dropped (RFC 2697's committed part).

    The bucket starts full, as after a pause.
    """

    def __init__(self) -> None:
        self._spent_bytes = 0.0
        self._seen_s = 0.0

    def passes(self, profile: DirectionProfile, size: int, now_s: float) -> bool:
        """Return whether a packet passes, and take its tokens if it does."""
        assert profile.policer_rate_bps is not None
        earned_bytes = (now_s - self._seen_s) * profile.policer_rate_bps / 8
        self._spent_bytes = max(0.0, self._spent_bytes - earned_bytes)
        self._seen_s = now_s
        if self._spent_bytes + size > profile.policer_burst_bytes:
            return False
        self._spent_bytes += size
        return True


@dataclass(slots=True, kw_only=True)
class NodeCounters:
    """What came to a node's processor: what its policer let in, and what it dropped."""

    accepted_packets: int = 0
    accepted_bytes: int = 0
    dropped_packets: int = 0
    dropped_bytes: int = 0


class NodePolicer:
    """A policer in front of a node's processor: it counts packets, whatever their size, and queues none.

    A Catalyst polices so what is meant for itself (class ``system-cpp-police-forus``). How many packets its bucket
    holds is not known; here a tenth of a second's, and no fewer than a server's first flight may have.
    """

    def __init__(self, packets_per_s: int) -> None:
        self.counters = NodeCounters()
        self._rate = packets_per_s
        self._has_space = max(_LEAST_BURST_PACKETS, packets_per_s // 10)
        self._spent = 0.0
        self._seen_s = 0.0

    def passes(self, size: int, now_s: float) -> bool:
        """Return whether a packet that arrives now is let in."""
        self._spent = max(0.0, self._spent - (now_s - self._seen_s) * self._rate)
        self._seen_s = now_s
        counters = self.counters
        if self._spent + 1 > self._has_space:
            counters.dropped_packets += 1
            counters.dropped_bytes += size
            return False
        self._spent += 1
        counters.accepted_packets += 1
        counters.accepted_bytes += size
        return True


_LEAST_BURST_PACKETS = 16

"""What a sender sees of its path over some time, and whether what it saw is evidence. No sockets, no clock.

Facts
-----

- A reading that comes late shows that our own process waited for a processor. What it had to send was late too.
- Where nothing arrives although much is due, and then all of it at once, a host on the path was held up: a busy host,
  a radio, a stalled hypervisor. The round-trip times of that burst are long without any queue before the link, and the
  rate of the burst is not the link's.
- What such a delay did to smoothed round-trip time and rates is gone a round trip after its end, and not before some
  acknowledgements have come: only they make the smoothed time fresh.
"""

from collections import deque
from dataclasses import dataclass

_LATE_SHARE, _LATE_S = 1.5, 0.03
"""A look is late by more than both: looks fall on common moments, half an interval apart from what was asked for."""

_LEAST_SEGMENTS = 12
_SILENT_SHARE = 0.25
"""A silence is one in which so much was due, and no more than this part of it came."""

_FRESH_SEGMENTS = 32
"""Sixteen acknowledgements: each leaves seven eighths of the smoothed round-trip time as it was."""

_BURST_SHARE = 1.05
"""Looks do not fall on the very packets."""

_BUCKET_S, _BUCKETS = 5.0, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PathReading:
    """What a sender sees of its path at one moment; counters are cumulative.

    Attributes:
        at_s: Time on any clock.
        rtt_s: Smoothed round-trip time now, > 0.
        base_rtt_s: Least round-trip time of late, see `BaseRtt`.
        delivered_bytes: Payload that has arrived, holes left out.
        sent_bytes: Payload sent, what was sent again included.
        again_bytes: Payload sent again.
        mss_bytes: Segment size, > 0.
        held_back: Whether the receiver's window or the sender's own data held it back, and not its pace.
    """

    at_s: float
    rtt_s: float
    base_rtt_s: float
    delivered_bytes: int
    sent_bytes: int
    again_bytes: int
    mss_bytes: int
    held_back: bool = False

    @property
    def queue_s(self) -> float:
        """How long a packet waits in queues, by the round-trip time above the least one."""
        return max(0.0, self.rtt_s - self.base_rtt_s)


class BaseRtt:
    """The least round-trip time of the last half minute: a path that became longer is believed after that."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, float]] = deque(maxlen=_BUCKETS)

    def take(self, at_s: float, rtt_s: float) -> float:
        """Take a round-trip time in and return the least one."""
        number = int(at_s // _BUCKET_S)
        if self._buckets and self._buckets[-1][0] == number:
            self._buckets[-1] = (number, min(rtt_s, self._buckets[-1][1]))
        else:
            self._buckets.append((number, rtt_s))
        while self._buckets[0][0] <= number - _BUCKETS:
            self._buckets.popleft()
        return min(least for _, least in self._buckets)


class PathEstimate:
    """The readings of the last seconds.

    Attributes:
        is_late: Whether the last reading came late.
        is_disturbed: Whether a delay lies less than a round trip back: nothing is to be concluded from a queue or a
            rate seen now.
        disturbed_at_s: When a delay was seen last.
        span_s: Time between the last two readings.
        moved_bytes: What arrived between them.
    """

    def __init__(self) -> None:
        self.is_late = self.is_disturbed = False
        self.disturbed_at_s = float("-inf")
        self.span_s = 0.0
        self.moved_bytes = 0
        self._readings: deque[PathReading] = deque()
        self._flowing: PathReading | None = None
        self._flow_bytes_per_s = 0.0
        self._disturbed_at_bytes = float("-inf")
        self._before_delay: PathReading | None = None

    def take(self, reading: PathReading, due_s: float) -> None:
        """Take a reading in.

        Args:
            reading: The reading.
            due_s: How long after the one before it was to come.
        """
        last = self._readings[-1] if self._readings else reading
        self.span_s, self.moved_bytes = reading.at_s - last.at_s, reading.delivered_bytes - last.delivered_bytes
        self.is_late = self.span_s > _LATE_SHARE * due_s + _LATE_S
        before = last if self.is_late else self._silent_since(reading)
        if before is not None:
            if not self.is_disturbed:
                self._before_delay = before
            self.disturbed_at_s, self._disturbed_at_bytes = reading.at_s, reading.delivered_bytes
        fresh = reading.delivered_bytes - self._disturbed_at_bytes >= _FRESH_SEGMENTS * reading.mss_bytes
        self.is_disturbed = reading.at_s - self.disturbed_at_s <= reading.base_rtt_s or not fresh
        self._keep(reading)

    def _keep(self, reading: PathReading) -> None:
        self._readings.append(reading)
        keep_s = max(2.0, 4 * reading.rtt_s)
        while len(self._readings) > 2 and reading.at_s - self._readings[1].at_s > keep_s:
            self._readings.popleft()

    def _silent_since(self, reading: PathReading) -> PathReading | None:
        """Return the reading since which next to nothing arrived of what was due; None where it flows."""
        flowing = self._flowing
        if flowing is not None:
            due = self._flow_bytes_per_s * (reading.at_s - flowing.at_s)
            if due < _LEAST_SEGMENTS * reading.mss_bytes and reading.at_s - flowing.at_s < reading.base_rtt_s:
                return None
            if reading.delivered_bytes - flowing.delivered_bytes < _SILENT_SHARE * due:
                # What is due falls with what arrived in the last round trip: a link may lose most of its rate for good.
                self._flow_bytes_per_s = min(self._flow_bytes_per_s, self.rate(reading, 2 * reading.rtt_s))
                return flowing
        self._flowing, self._flow_bytes_per_s = reading, self.rate(reading, reading.base_rtt_s)
        return None

    def before(self, reading: PathReading, window_s: float) -> PathReading:
        """Return the latest reading that is at least so old, or the oldest there is."""
        found = self._readings[0] if self._readings else reading
        for one in self._readings:
            if reading.at_s - one.at_s < window_s:
                break
            found = one
        return found

    def rate(self, reading: PathReading, window_s: float) -> float:
        """Return the rate of delivery over the last so many seconds, or since the beginning, in bytes per second.

        Nothing arrives faster than it was sent a round trip before; what seems to was held up and let go at once.
        """
        then = self.before(reading, window_s)
        span_s = max(reading.at_s - then.at_s, window_s / 2)
        if span_s <= 0:
            return 0.0
        arrived = (reading.delivered_bytes - then.delivered_bytes) / span_s
        return min(arrived, _BURST_SHARE * self._sent_rate(reading, window_s))

    def _sent_rate(self, reading: PathReading, window_s: float) -> float:
        """Return the rate at which that was sent; no bound where it was not seen."""
        until = self.before(reading, reading.rtt_s)
        since = self.before(reading, reading.rtt_s + window_s)
        span_s = until.at_s - since.at_s
        return (until.sent_bytes - since.sent_bytes) / span_s if span_s >= window_s / 2 else float("inf")

    def sent(self, reading: PathReading, window_s: float) -> float:
        """Return the rate of sending over the last so many seconds, in bytes per second."""
        then = self.before(reading, window_s)
        return (reading.sent_bytes - then.sent_bytes) / max(reading.at_s - then.at_s, window_s / 2)

    def least_queue_s(self, reading: PathReading, window_s: float) -> float:
        """Return the least queue seen over the last so many seconds: one that stood was never shorter."""
        return min((one.queue_s for one in self._readings if reading.at_s - one.at_s <= window_s), default=0.0)

    def cautious_rate(self, reading: PathReading, window_s: float) -> float:
        """Return the same, but no burst: after a delay its time counts in."""
        before = self._before_delay
        if not self.is_disturbed or before is None:
            return self.rate(reading, window_s)
        span_s = max(reading.at_s - before.at_s, window_s)
        return (reading.delivered_bytes - before.delivered_bytes) / span_s if span_s > 0 else 0.0

    def lost(self, reading: PathReading, window_s: float) -> tuple[float, float]:
        """Return share and segments sent again over the last so many seconds."""
        then = self.before(reading, window_s)
        sent, again = reading.sent_bytes - then.sent_bytes, reading.again_bytes - then.again_bytes
        return (again / sent if sent > 0 else 0.0), again / reading.mss_bytes

"""Rate, loss and queue of a path from a sender's recent readings, and whether these are reliable. No sockets, no clock.

Facts
-----

- A reading that comes late shows that our own process waited for a processor. The data it had to send was late too.
- If nothing arrives although much is due, and then all of it at once, something on the path stalled: a busy host, a
  radio, a hypervisor. The round-trip times of that burst are long without any queue before the link, and the rate of
  the burst is not the link's.
- Such a delay distorts the smoothed round-trip time and the rates until a round trip after its end, and until enough
  acknowledgements have come to renew the smoothed time.
"""

from collections import deque

from msgspec import Struct

_LATE_SHARE, _LATE_S = 1.5, 0.03
"""A reading is late after this multiple of its interval plus this time: readings of many flows are taken at common
moments, up to half an interval from the requested one."""

_LEAST_SEGMENTS = 12
_SILENT_SHARE = 0.25
"""The path was silent if at least so many segments were due, and no more than this part of them arrived."""

_FRESH_SEGMENTS = 32
"""Sixteen acknowledgements renew the smoothed round-trip time, of which each leaves seven eighths unchanged."""

_BURST_SHARE = 1.05
"""Tolerance of a delivery rate over the send rate: readings are not taken exactly at packet boundaries."""

_BUCKET_S, _BUCKETS = 5.0, 6


class PathReading(Struct, frozen=True, kw_only=True):
    """State of a sender's path at one moment; counters are cumulative.

    Attributes:
        at_s: Time on any clock.
        rtt_s: Smoothed round-trip time now, > 0.
        base_rtt_s: Least recent round-trip time, see `BaseRtt`.
        delivered_bytes: Payload that has arrived, without missing segments.
        sent_bytes: Payload sent, retransmissions included.
        again_bytes: Payload retransmitted.
        mss_bytes: Segment size, > 0.
        held_back: Whether the receiver's window, or a lack of data to send, limited the sender, and not its pace.
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
        """Time that a packet waits in queues: the round-trip time minus the least recent one, >= 0."""
        return max(0.0, self.rtt_s - self.base_rtt_s)


class BaseRtt:
    """Least round-trip time of the last half minute; so after half a minute a path that became longer is recognised."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, float]] = deque(maxlen=_BUCKETS)

    def take(self, at_s: float, rtt_s: float) -> float:
        """Add a round-trip time and return the least one."""
        number = int(at_s // _BUCKET_S)
        if self._buckets and self._buckets[-1][0] == number:
            self._buckets[-1] = (number, min(rtt_s, self._buckets[-1][1]))
        else:
            self._buckets.append((number, rtt_s))
        while self._buckets[0][0] <= number - _BUCKETS:
            self._buckets.popleft()
        return min(least for _, least in self._buckets)


class PathEstimate:
    """Readings of the last seconds, and what they show.

    Attributes:
        is_late: Whether the last reading came late.
        is_disturbed: Whether a delay ended less than a round trip ago, so that queue and rate seen now prove nothing.
        disturbed_at_s: Time of the last delay.
        span_s: Time between the last two readings.
        moved_bytes: Bytes that arrived between them.
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
        """Add a reading.

        Args:
            reading: The reading.
            due_s: Planned time between the reading before and this one.
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
        """Return the reading since which almost nothing arrived of what was due; None if data flows."""
        flowing = self._flowing
        if flowing is not None:
            due = self._flow_bytes_per_s * (reading.at_s - flowing.at_s)
            if due < _LEAST_SEGMENTS * reading.mss_bytes and reading.at_s - flowing.at_s < reading.base_rtt_s:
                return None
            if reading.delivered_bytes - flowing.delivered_bytes < _SILENT_SHARE * due:
                # Expect no more than arrived in the last two round trips: a link may lose most of its rate for good.
                self._flow_bytes_per_s = min(self._flow_bytes_per_s, self.rate(reading, 2 * reading.rtt_s))
                return flowing
        self._flowing, self._flow_bytes_per_s = reading, self.rate(reading, reading.base_rtt_s)
        return None

    def before(self, reading: PathReading, window_s: float) -> PathReading:
        """Return the latest reading that is at least `window_s` older than `reading`, else the oldest one."""
        found = self._readings[0] if self._readings else reading
        for one in self._readings:
            if reading.at_s - one.at_s < window_s:
                break
            found = one
        return found

    def rate(self, reading: PathReading, window_s: float) -> float:
        """Return the delivery rate over the last `window_s` seconds, or since the first reading, in bytes per second.

        Bounded by the rate of sending a round trip before: a burst after a delay only seems faster.
        """
        then = self.before(reading, window_s)
        span_s = max(reading.at_s - then.at_s, window_s / 2)
        if span_s <= 0:
            return 0.0
        arrived = (reading.delivered_bytes - then.delivered_bytes) / span_s
        return min(arrived, _BURST_SHARE * self._sent_rate(reading, window_s))

    def _sent_rate(self, reading: PathReading, window_s: float) -> float:
        """Return the send rate one round trip before `reading`; infinite if the readings do not reach back so far."""
        until = self.before(reading, reading.rtt_s)
        since = self.before(reading, reading.rtt_s + window_s)
        span_s = until.at_s - since.at_s
        return (until.sent_bytes - since.sent_bytes) / span_s if span_s >= window_s / 2 else float("inf")

    def sent(self, reading: PathReading, window_s: float) -> float:
        """Return the send rate over the last `window_s` seconds, in bytes per second."""
        then = self.before(reading, window_s)
        return (reading.sent_bytes - then.sent_bytes) / max(reading.at_s - then.at_s, window_s / 2)

    def least_queue_s(self, reading: PathReading, window_s: float) -> float:
        """Return the shortest queue in the last `window_s` seconds, in seconds: a standing queue is never shorter."""
        return min((one.queue_s for one in self._readings if reading.at_s - one.at_s <= window_s), default=0.0)

    def cautious_rate(self, reading: PathReading, window_s: float) -> float:
        """Return the delivery rate as `rate` does, but after a delay average over the time of the delay, too."""
        before = self._before_delay
        if not self.is_disturbed or before is None:
            return self.rate(reading, window_s)
        span_s = max(reading.at_s - before.at_s, window_s)
        return (reading.delivered_bytes - before.delivered_bytes) / span_s if span_s > 0 else 0.0

    def lost(self, reading: PathReading, window_s: float) -> tuple[float, float]:
        """Return the share (0 to 1) and the number of segments retransmitted over the last `window_s` seconds."""
        then = self.before(reading, window_s)
        sent, again = reading.sent_bytes - then.sent_bytes, reading.again_bytes - then.again_bytes
        return (again / sent if sent > 0 else 0.0), again / reading.mss_bytes

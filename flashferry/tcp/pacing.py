"""The pace of a copy over a link whose rate is not stated, found from what the copy itself sees. No sockets, no clock.

Facts
-----

- A link that is full delivers at its own rate, whatever is sent: what was delivered in a round trip during which a
  queue stood is the link's rate, and random loss does not change it.
- Linux' BBR never sends faster than SO_MAX_PACING_RATE, and does not slow down on loss. A little under the link's rate
  it leaves no queue and loses nothing of its own making; above it, it sends 2 to 5 % again on short queues.
- The news of a queue is a round trip old. What is sent too much until then grows with the step taken: half a path's
  content at steps of 1.5, more than all of it at steps of 2.9, BBR's own.
- A queue that we made goes when we send less than the link carries. One that stays is another flow's, or the link has
  become longer. Beside it a pace of ours would be unfair, and CUBIC is as fair as any other flow (Copa, NSDI 2018,
  separates the two in this way).
- On a host that is served late (a starved virtual machine) round-trip times show the host, and a pace is not
  reached: its timers come late too. A cap then holds back nothing but BBR's own estimate, which would rise without it.
  With 11 to 33 % of the processors stolen BBR alone had 2.6 to 5.6 MB/s on a link of 6, under a cap found meanwhile 0.3
  to 3.1.
- A receiver whose window is full, and a sender that has nothing to send, show no link: then nothing is concluded.
"""

from dataclasses import dataclass
from enum import StrEnum

from flashferry.tcp import pacing_figures as figures
from flashferry.tcp.path_estimator import PathEstimate, PathReading


class Phase(StrEnum):
    """What a pace is doing."""

    SEARCH = "search"
    DRAIN = "drain"
    HOLD = "hold"
    YIELD = "yield"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A decision.

    Attributes:
        bytes_per_s: Send no faster, payload bytes per second.
        phase: What the pace is doing; `yield` asks for CUBIC, all others for BBR, `free` for one that begins anew.
        next_check_s: When the next reading is wanted.
    """

    bytes_per_s: int
    phase: Phase
    next_check_s: float


class LinkPacer:
    """Finds the rate of a link and the pace for it.

    Args:
        known_bytes_per_s: What an earlier copy found, to begin nearer to it; None begins as any connection does.
    """

    def __init__(self, known_bytes_per_s: float | None = None) -> None:
        self.phase = Phase.SEARCH
        self.found_bytes_per_s: float | None = None
        self.found_at_s: float | None = None
        self._known = known_bytes_per_s
        self._pace = 0.0
        self._path = PathEstimate()
        self._read_s = 0.0
        self._since_s = 0.0
        self._queued = 0
        self._clear = 0
        self._queue_before_s = self._best = 0.0
        self._stood_from_s = float("inf")
        self._is_probe = False
        self._probe_after_s = figures.EARLY_PROBE_S
        self._check_after_s = figures.YIELD_CHECK_S
        self._full_from: PathReading | None = None
        self._full_to: PathReading | None = None
        self._is_full = False
        self._was_yielding = False
        self._queued_at_s = self._yielded_at_s = float("-inf")
        self._peak = self._alone = 0.0
        self._deepest_s = self._delayed_s = 0.0
        self._own_loss = 0.0
        self._blamed: tuple[float, float | None] | None = None
        self._by_loss = False
        self._disturbed_s, self._disturbed_times, self._was_disturbed = 0.0, 0, False
        self._held_back_at_s = float("-inf")
        self._calm_after_s = figures.CALM_S

    def take(self, reading: PathReading) -> Pace:
        """Take a reading in and decide."""
        if not self._pace:
            self._begin(reading)
        self._path.take(reading, self._read_s)
        if reading.held_back:
            self._held_back_at_s = reading.at_s
        self._count_readings(reading)
        step = {
            Phase.SEARCH: self._search,
            Phase.DRAIN: self._drain,
            Phase.HOLD: self._hold,
            Phase.YIELD: self._yield,
            Phase.FREE: self._free,
        }[self.phase]
        step(reading)
        self._read_s = self._retry_s(reading)
        return Pace(
            bytes_per_s=max(figures.LEAST_BYTES_PER_S, int(self._pace)), phase=self.phase, next_check_s=self._read_s
        )

    # Looking.

    def _begin(self, reading: PathReading) -> None:
        self._since_s, self._read_s = reading.at_s, figures.HOLD_CHECK_S
        self._pace = figures.FIRST_FLIGHT_SEGMENTS * reading.mss_bytes / reading.rtt_s
        if self._known is not None:
            self._pace = max(self._pace, figures.KNOWN_SHARE * self._known)

    def _count_readings(self, reading: PathReading) -> None:
        limit_s = self._queue_limit_s(reading)
        is_full, stands = reading.queue_s > limit_s, reading.queue_s > figures.STANDS * limit_s
        queued = is_full if self.phase is Phase.SEARCH else stands
        # What a full window keeps on its way grows no queue any further, and shows no link.
        queued = queued and not reading.held_back
        # One that goes while more and more is sent is what a delay left behind.
        shrinks = self.phase is Phase.SEARCH and reading.queue_s < self._queue_before_s - figures.SHRINKS_S
        self._queue_before_s = reading.queue_s
        self._stood_from_s = min(self._stood_from_s, reading.at_s) if queued else float("inf")
        if self._path.is_late:
            # Our own process was starved, and so is what it sees.
            self._stood_from_s = float("inf")
        doubtful = self._path.is_disturbed or self._is_trickle(reading)
        if doubtful and reading.at_s - self._stood_from_s < figures.UNDENIABLE_S + 4 * reading.base_rtt_s:
            self._is_full = False
            return
        if not queued or shrinks:
            self._queued = 0
        elif self._path.moved_bytes:
            # Without news a look is the one before it once more.
            self._queued += 1
        self._clear = 0 if stands else self._clear + 1
        self._time_fullness(reading, is_full=is_full)

    def _is_trickle(self, reading: PathReading) -> bool:
        """Return whether so little arrives of what once did that it is the sender who waits, or the link is another."""
        arrives = self._path.rate(reading, max(reading.base_rtt_s, figures.QUICK_CHECK_S[0]))
        self._best = max(self._best, arrives)
        return arrives < figures.TRICKLE_SHARE * min(self._best, self._pace)

    def _time_fullness(self, reading: PathReading, *, is_full: bool) -> None:
        """Remember since when a queue stood, for the rate meanwhile."""
        if is_full:
            self._full_from = self._full_from if self._is_full and self._full_from else reading
            self._full_to = reading
        self._is_full = is_full

    def _queue_limit_s(self, reading: PathReading) -> float:
        burst_s = min(figures.MOST_BURST_S, figures.QUEUE_SEGMENTS * reading.mss_bytes / max(self._pace, 1.0))
        # A receiver waits so long for the second segment before it acknowledges the first (RFC 1122, 4.2.3.2).
        delayed_s = min(figures.DELAYED_ACK_S, reading.mss_bytes / max(self._pace, 1.0))
        return max(figures.LEAST_QUEUE_S, figures.QUEUE_SHARE * reading.base_rtt_s, burst_s) + delayed_s

    def _retry_s(self, reading: PathReading) -> float:
        if self.phase is Phase.FREE:
            return figures.FREE_CHECK_S
        is_suspicious = self.phase is Phase.HOLD and self._stood_from_s < reading.at_s + 1
        if self.phase in (Phase.HOLD, Phase.YIELD) and not is_suspicious:
            return figures.HOLD_CHECK_S
        least_s, most_s = figures.QUICK_CHECK_S
        return min(most_s, max(least_s, reading.base_rtt_s / 8))

    # Deciding.

    def _enter(self, phase: Phase, reading: PathReading) -> None:
        self.phase, self._since_s = phase, reading.at_s
        self._queued = self._clear = 0

    def _search(self, reading: PathReading) -> None:
        base_s = reading.base_rtt_s
        if self._is_hopeless(base_s):
            self._begin_free(reading)
            return
        delivered = self._path.cautious_rate(reading, max(base_s / 2, figures.QUICK_CHECK_S[0]))
        whole_s = figures.MEASURED_SEGMENTS * reading.mss_bytes / self._pace
        steady = self._path.cautious_rate(reading, max(base_s / 2, whole_s))
        share, segments = self._path.lost(reading, max(base_s, figures.QUICK_CHECK_S[1]))
        loses = segments >= figures.LOST_SEGMENTS and share > max(
            figures.LOST_SHARE, figures.TIMES_THE_PATH_S_OWN * self._own_loss
        )
        by_loss = loses and not self._path.is_disturbed
        if self._queued >= figures.CONFIRM_CHECKS or by_loss:
            self._blamed = (share, self.found_bytes_per_s) if by_loss else None
            self._begin_drain(reading, min(steady, delivered), by_loss=by_loss)
        elif self._is_probe:
            self._probe(reading, steady)
        else:
            self._pace = max(self._pace, self._step(reading) * delivered)

    def _is_hopeless(self, base_s: float) -> bool:
        """Return whether delays left a search without a usable reading for too long."""
        if self._path.is_disturbed and not self._is_probe:
            self._disturbed_s += self._path.span_s
            self._disturbed_times += not self._was_disturbed
        self._was_disturbed = self._path.is_disturbed
        is_long = self._disturbed_s > max(figures.DISTURBED_S, figures.DISTURBED_ROUND_TRIPS * base_s)
        return is_long and self._disturbed_times >= figures.DISTURBED_TIMES

    def _begin_free(self, reading: PathReading) -> None:
        self._is_probe = self._was_yielding = False
        self._disturbed_s, self._disturbed_times = 0.0, 0
        self._enter(Phase.FREE, reading)
        self._pace = figures.FREE_BYTES_PER_S

    def _free(self, reading: PathReading) -> None:
        """Leave it to BBR until the host is calm; then what BBR found is where the search goes on."""
        calm_s = reading.at_s - max(self._since_s, self._path.disturbed_at_s)
        if calm_s > self._calm_after_s:
            self._calm_after_s = min(figures.LAST_CALM_S, 2 * self._calm_after_s)
            self._search_again(reading, self._path.rate(reading, max(2 * reading.rtt_s, figures.HOLD_CHECK_S)))

    def _search_again(self, reading: PathReading, delivered: float) -> None:
        """Search from what arrives: that is what CUBIC had beside another flow or under losses, and not the link."""
        self._is_probe = self._was_yielding = False
        self._enter(Phase.SEARCH, reading)
        self._pace = max(delivered, figures.FIRST_FLIGHT_SEGMENTS * reading.mss_bytes / reading.rtt_s)

    def _step(self, reading: PathReading) -> float:
        if reading.held_back:
            return figures.HELD_BACK_STEP
        quick = self._pace * reading.base_rtt_s < figures.QUICK_FLIGHT_SEGMENTS * reading.mss_bytes
        return figures.QUICK_STEP if quick else figures.STEP

    def _probe(self, reading: PathReading, delivered: float) -> None:
        found = self.found_bytes_per_s or 0.0
        if delivered > figures.GAIN_SEEN * found and reading.at_s - self._since_s > 2 * reading.base_rtt_s:
            self._is_probe = False
        elif reading.at_s - self._since_s > figures.PROBE_ROUND_TRIPS * reading.base_rtt_s:
            # More than a full link carries would have left a queue: it was not sent, or is carried.
            self._is_probe = False

    def _begin_drain(self, reading: PathReading, delivered: float, *, by_loss: bool = False) -> None:
        self._peak, self._deepest_s, self._by_loss = delivered, reading.queue_s, by_loss
        self._was_yielding, self._delayed_s = self.phase is Phase.YIELD, 0.0
        self._enter(Phase.DRAIN, reading)
        self._pace = figures.DRAIN_SHARE * self._peak

    def _drain(self, reading: PathReading) -> None:
        if self._path.is_disturbed:
            # The time of a delay drains nothing that could be seen.
            self._since_s += self._path.span_s
            self._delayed_s += self._path.span_s
            if self._delayed_s > figures.UNDENIABLE_S + 4 * reading.base_rtt_s:
                self._search_again(reading, self.found_bytes_per_s or self._peak)
                return
        base_s, passed_s = reading.base_rtt_s, reading.at_s - self._since_s
        self._deepest_s = max(self._deepest_s, reading.queue_s)
        whole_s = figures.MEASURED_SEGMENTS * reading.mss_bytes / max(self._peak, 1.0)
        self._peak = max(
            self._peak, self._path.cautious_rate(reading, max(base_s, 2 * figures.QUICK_CHECK_S[0], whole_s))
        )
        self._pace = figures.DRAIN_SHARE * self._peak
        is_clear = self._clear >= figures.CONFIRM_CHECKS and (not self._by_loss or passed_s > base_s)
        if is_clear:
            rate = self._while_full() or self._peak
            if self._was_yielding:
                self._yielded_at_s = float("-inf")
            if not self._is_shared(reading):
                self._alone = rate
            self._found(reading, rate)
        elif passed_s > 2 * reading.rtt_s + 1.5 * self._deepest_s / (1 - figures.DRAIN_SHARE):
            self._begin_yield(reading)

    def _is_shared(self, reading: PathReading) -> bool:
        """Return whether another flow's queue was here of late."""
        return reading.at_s - self._yielded_at_s < figures.AGAIN_S

    def _while_full(self) -> float | None:
        """Return the rate of delivery while the queue stood: all that time the link sent as fast as it can."""
        if self._by_loss or self._full_from is None or self._full_to is None:
            return None
        span_s = self._full_to.at_s - self._full_from.at_s
        moved = self._full_to.delivered_bytes - self._full_from.delivered_bytes
        return moved / span_s if span_s > 0 and moved >= figures.MEASURED_SEGMENTS * self._full_to.mss_bytes else None

    def _found(self, reading: PathReading, rate: float) -> None:
        if self._is_probe and self._is_shared(reading):
            # What a probe takes from another flow is not the link's to give.
            rate = min(rate, self.found_bytes_per_s or rate)
        elif self._is_probe:
            # What was held without a queue is carried, whatever a probe seems to show.
            rate = max(rate, figures.HOLD_SHARE * (self.found_bytes_per_s or 0.0))
        self._disturbed_s, self._disturbed_times = 0.0, 0
        if self._was_yielding or not self._is_probe:
            is_sure = self._was_yielding or self._deepest_s > 2 * self._queue_limit_s(reading)
            is_sure = is_sure and reading.at_s - self._path.disturbed_at_s > figures.FIRST_PROBE_S
            self._probe_after_s = figures.FIRST_PROBE_S if is_sure else figures.EARLY_PROBE_S
        self.found_bytes_per_s, self.found_at_s = rate, reading.at_s
        self._best = rate
        self._begin_hold(reading)

    def _begin_hold(self, reading: PathReading) -> None:
        if self._is_probe:
            self._probe_after_s = min(figures.LAST_PROBE_S, 2 * self._probe_after_s)
        self._is_probe = False
        self._enter(Phase.HOLD, reading)
        self._pace = figures.HOLD_SHARE * (self.found_bytes_per_s or self._pace)

    def _hold(self, reading: PathReading) -> None:
        passed_s, rtt_s = reading.at_s - self._since_s, reading.rtt_s
        delivered = self._path.rate(reading, max(rtt_s, figures.HOLD_CHECK_S))
        stood_s = reading.at_s - self._stood_from_s
        if self._is_short(reading):
            self._begin_free(reading)
            return
        if self._queued > figures.CONFIRM_CHECKS and min(passed_s, stood_s) > figures.CONFIRM_ROUND_TRIPS * rtt_s:
            self._queue_in_hold(reading, self._path.rate(reading, rtt_s))
            return
        if self._stood_from_s < reading.at_s or reading.at_s - self._path.disturbed_at_s < figures.BLAME_S + 2 * rtt_s:
            return
        if passed_s > max(figures.BLAME_S, 4 * rtt_s) and self._judge_losses(reading, delivered):
            return
        if passed_s >= max(self._probe_after_s, 4 * rtt_s) and delivered >= figures.PACE_REACHED * self._pace:
            self._is_probe = True
            self._enter(Phase.SEARCH, reading)
            self._pace = figures.GENTLE_STEP * (self.found_bytes_per_s or self._pace)

    def _is_short(self, reading: PathReading) -> bool:
        """Return whether this host does not reach the pace held: no other flow holds it back, and there is no queue."""
        span_s = max(figures.SHORT_S, figures.SHORT_ROUND_TRIPS * reading.rtt_s)
        if reading.at_s - max(self._since_s, self._held_back_at_s) < span_s + figures.HOLD_CHECK_S:
            return False
        if self._path.least_queue_s(reading, span_s) > self._queue_limit_s(reading):
            return False
        return self._path.sent(reading, span_s) < figures.SHORT_SHARE * self._pace

    def _queue_in_hold(self, reading: PathReading, delivered: float) -> None:
        """Drain a queue that stands although less is sent than the link carried; one that comes back is not ours."""
        # Where all that we send arrives no other flow takes any of the link: then the queue is what a burst left.
        is_taken = delivered < figures.TAKEN_SHARE * self._pace
        is_again = is_taken and (reading.at_s - self._queued_at_s < figures.AGAIN_S or self._is_shared(reading))
        if is_taken:
            self._queued_at_s = reading.at_s
        if is_again:
            self._peak, self._was_yielding = delivered, False
            self._begin_yield(reading)
        else:
            self._begin_drain(reading, delivered)

    def _judge_losses(self, reading: PathReading, delivered: float) -> bool:
        """Lower a pace that loses much, once; return whether anything was decided."""
        share, segments = self._path.lost(reading, max(figures.BLAME_S, 2 * reading.rtt_s))
        blamed, self._blamed = self._blamed, None
        if blamed is not None:
            if share <= blamed[0] / 2:
                return False
            # Less was sent and as much was lost: it was not our pace.
            self._own_loss, self.found_bytes_per_s = share, blamed[1]
            self._enter(Phase.SEARCH, reading)
            return True
        if segments < figures.LOST_SEGMENTS or share <= max(
            figures.HELD_LOST_SHARE, figures.TIMES_THE_PATH_S_OWN * self._own_loss
        ):
            return False
        self._blamed = (share, self.found_bytes_per_s)
        self._begin_drain(reading, delivered, by_loss=True)
        return True

    def _begin_yield(self, reading: PathReading) -> None:
        self._check_after_s = (
            min(figures.LAST_YIELD_CHECK_S, 2 * self._check_after_s) if self._was_yielding else figures.YIELD_CHECK_S
        )
        self._is_probe = False
        self._enter(Phase.YIELD, reading)
        self._pace = max(figures.YIELD_SHARE * self._alone, figures.YIELD_STEP * self._peak)

    def _yield(self, reading: PathReading) -> None:
        delivered = self._path.rate(reading, max(reading.rtt_s, figures.HOLD_CHECK_S))
        passed_s = reading.at_s - self._since_s
        self._yielded_at_s = reading.at_s
        # CUBIC is left room to grow, but none to fill a queue by itself, or the other's end could not be seen.
        is_growing = self._queued > 0 and reading.queue_s >= self._path.before(reading, figures.HOLD_CHECK_S).queue_s
        if is_growing and delivered >= figures.PACE_REACHED * self._pace:
            self._pace = figures.YIELD_STEP * delivered
        if self._clear >= figures.GONE_CHECKS:
            self._search_again(reading, delivered)
        elif passed_s > self._check_after_s:
            self._begin_drain(reading, delivered)

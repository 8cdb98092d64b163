"""Search for the rate of a link that is not configured, and the pacing rate of a copy over it. No sockets, no clock.

Facts
-----

- A full link delivers at its own rate, whatever is sent: the delivery rate during a round trip with a standing queue is
  the link's rate, and random loss does not change it.
- Linux' BBR never sends faster than SO_MAX_PACING_RATE, and does not slow down on loss. Paced a little below the link's
  rate it makes no queue and causes no loss; above it, it retransmits 2 to 5 % on short queues.
- A queue is noticed a round trip late. The excess sent until then grows with the step of the search: half a
  bandwidth-delay product at steps of 1.5, more than a whole one at steps of 2.9, as BBR takes them.
- A queue of our own drains when we send less than the link carries. One that stays is another flow's, or the path has
  become longer. A fixed pace would be unfair to that flow, so CUBIC is used then (Copa, NSDI 2018, separates the two
  in this way).
- On a host short of processor time (a starved virtual machine) round-trip times show the host, and a pace is not
  reached, because timers fire late. A cap then only keeps BBR's estimate from rising: with 11 to 33 % of the processor
  time stolen, BBR alone reached 2.6 to 5.6 MB/s on a link of 6 MB/s, and 0.3 to 3.1 MB/s under a cap found meanwhile.
- While the receiver's window is full, or the sender has nothing to send, readings show nothing about the link.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from flashferry.tcp.path_estimator import PathEstimate, PathReading

HOLD_SHARE = 0.98
"""Part of the found rate at which a copy continues: enough to fill the link, little enough to make no queue."""

FIRST_FLIGHT_SEGMENTS = 30
"""Segments in the first round trip: ten (RFC 6928) at the gain of BBR's start-up, 2.89."""

KNOWN_SHARE = 0.5
"""Part of the rate found by an earlier copy at which a search starts, in case the link has become slower since."""

QUICK_STEP, STEP, GENTLE_STEP = 2.5, 1.5, 1.1
"""Ratio of the pace to the delivery rate: while little is in flight, later in a search, and in a probe."""

HELD_BACK_STEP = 1.25
"""The same while the receiver's window limits the flow, so that the pace does not limit it as well."""

QUICK_FLIGHT_SEGMENTS = 128
"""Segments in flight up to which `QUICK_STEP` is used: twice as many no longer fit into a usual queue."""

DRAIN_SHARE = 0.75
"""Part of the link's rate at which we send until our queue has drained."""

LEAST_QUEUE_S = 0.004
QUEUE_SHARE = 1 / 10
QUEUE_SEGMENTS = 3
MOST_BURST_S = 0.008
"""A delay counts as a queue if it exceeds all three: the usual lateness of a host, a part of the round trip, and a
burst of `QUEUE_SEGMENTS` at this pace (at most `MOST_BURST_S`, for a low pace says nothing about the link's rate)."""

DELAYED_ACK_S = 0.04
"""Linux' least delayed-acknowledgement time, by which a slow flow's acknowledgements come later without any queue."""

STANDS = 2.0
"""A queue of this multiple of the limit stands, for a busy host's delays are shorter; a search stops at the limit."""

CONFIRM_CHECKS = 2
CONFIRM_ROUND_TRIPS = 2
"""Readings and round trips for which a queue has to stand at a held pace."""

SHRINKS_S = 0.001
TRICKLE_SHARE = 0.25

UNDENIABLE_S = 1.0
"""A queue in every reading for so long plus four round trips counts even while delays continue."""

MEASURED_SEGMENTS = 48
"""Least segments to measure a rate: a burst changes the number by two."""

LOST_SHARE = 0.05
"""Loss per round trip above which a search stops: more shows a policer, or a queue too short to be seen."""

LOST_SEGMENTS = 8
HELD_LOST_SHARE = 0.02
TIMES_THE_PATH_S_OWN = 3.0
BLAME_S = 1.0
"""Time after which a pace lowered because of losses is checked: if the loss is unchanged, the path itself loses."""

EARLY_PROBE_S, FIRST_PROBE_S, LAST_PROBE_S = 1.0, 4.0, 16.0
"""Time for which a pace is held before a higher one is probed: the first if the queue that ended a search was small."""

PROBE_ROUND_TRIPS = 10
"""BBR sends above its own estimate in one of eight round trips."""

GAIN_SEEN = 1.05
"""Increase of the delivery rate in a probe that shows that the link carries more."""

PACE_REACHED = 0.9
"""Part of the pace that is delivered if the pace is what limits a copy."""

TAKEN_SHARE = 0.97
AGAIN_S = 30.0
"""A queue that returns to a held pace within this time is another flow's: one drain corrects too high an estimate."""

YIELD_CHECK_S = 5.0
LAST_YIELD_CHECK_S = 20.0
"""Time between the short drains that check whether the other flow has ended; it doubles from the first to the last."""

YIELD_STEP, YIELD_SHARE = 1.5, 0.95
GONE_CHECKS = 4
"""Readings without a queue after which the other flow has ended; after each of its losses the queue is empty, too."""

DISTURBED_TIMES, DISTURBED_S, DISTURBED_ROUND_TRIPS = 3, 0.3, 4.0
"""A search disturbed by delays so often, and for longer than both times, is given up: BBR continues without a pace."""

SHORT_SHARE, SHORT_S, SHORT_ROUND_TRIPS = 0.8, 1.5, 3.0
"""If less than this part of a held pace is sent for so long, without a queue, this host does not reach the pace."""

CALM_S, LAST_CALM_S = 5.0, 40.0
"""Without any delay for so long a search is worth while again; for longer where that was in vain."""

FREE_CHECK_S = 0.1

FREE_BYTES_PER_S = 10**10
"""More than any link carries: the pace in phase `free` limits nothing."""

QUICK_CHECK_S = (0.02, 0.1)
"""Bounds of the time between readings while a pace changes, which is an eighth of the round trip."""

HOLD_CHECK_S = 0.5
LEAST_BYTES_PER_S = 1000
"""Least pace, and least share of a cap, so that every copy progresses."""


class Phase(StrEnum):
    """Phase of a search: raise the pace, drain the queue, hold the pace, yield to another flow, or leave it to BBR."""

    SEARCH = "search"
    DRAIN = "drain"
    HOLD = "hold"
    YIELD = "yield"
    FREE = "free"


class Pace(Struct, frozen=True, kw_only=True):
    """Pacing rate until the next reading.

    Attributes:
        bytes_per_s: Upper bound of the send rate, payload bytes per second.
        phase: Phase of the search. `yield` needs CUBIC as congestion control, all others BBR; `free` needs BBR reset.
        next_check_s: Time until the next reading, in seconds.
    """

    bytes_per_s: int
    phase: Phase
    next_check_s: float


class LinkPacer:
    """Finds the rate of a link and the pace for it.

    Args:
        known_bytes_per_s: Rate found by an earlier copy, from half of which the search starts; None starts with the
            usual first flight.
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
        self._probe_after_s = EARLY_PROBE_S
        self._check_after_s = YIELD_CHECK_S
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
        self._calm_after_s = CALM_S

    def take(self, reading: PathReading) -> Pace:
        """Add a reading and return the pace until the next one."""
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
        return Pace(bytes_per_s=max(LEAST_BYTES_PER_S, int(self._pace)), phase=self.phase, next_check_s=self._read_s)

    # Evaluating readings.

    def _begin(self, reading: PathReading) -> None:
        self._since_s, self._read_s = reading.at_s, HOLD_CHECK_S
        self._pace = FIRST_FLIGHT_SEGMENTS * reading.mss_bytes / reading.rtt_s
        if self._known is not None:
            self._pace = max(self._pace, KNOWN_SHARE * self._known)

    def _count_readings(self, reading: PathReading) -> None:
        limit_s = self._queue_limit_s(reading)
        is_full, stands = reading.queue_s > limit_s, reading.queue_s > STANDS * limit_s
        queued = is_full if self.phase is Phase.SEARCH else stands
        # A flow limited by the receiver's window makes no queue grow, and shows nothing about the link.
        queued = queued and not reading.held_back
        # A queue that shrinks while the pace rises is left from a delay.
        shrinks = self.phase is Phase.SEARCH and reading.queue_s < self._queue_before_s - SHRINKS_S
        self._queue_before_s = reading.queue_s
        self._stood_from_s = min(self._stood_from_s, reading.at_s) if queued else float("inf")
        if self._path.is_late:
            # Our own process got no processor time, so the reading proves nothing.
            self._stood_from_s = float("inf")
        doubtful = self._path.is_disturbed or self._is_trickle(reading)
        if doubtful and reading.at_s - self._stood_from_s < UNDENIABLE_S + 4 * reading.base_rtt_s:
            self._is_full = False
            return
        if not queued or shrinks:
            self._queued = 0
        elif self._path.moved_bytes:
            # If nothing arrived since the last reading, this one repeats it.
            self._queued += 1
        self._clear = 0 if stands else self._clear + 1
        self._time_fullness(reading, is_full=is_full)

    def _is_trickle(self, reading: PathReading) -> bool:
        """Return whether far less arrives than before: the sender stalls, or the link has changed."""
        arrives = self._path.rate(reading, max(reading.base_rtt_s, QUICK_CHECK_S[0]))
        self._best = max(self._best, arrives)
        return arrives < TRICKLE_SHARE * min(self._best, self._pace)

    def _time_fullness(self, reading: PathReading, *, is_full: bool) -> None:
        """Remember the first and last reading of a standing queue, to compute the rate between them."""
        if is_full:
            self._full_from = self._full_from if self._is_full and self._full_from else reading
            self._full_to = reading
        self._is_full = is_full

    def _queue_limit_s(self, reading: PathReading) -> float:
        burst_s = min(MOST_BURST_S, QUEUE_SEGMENTS * reading.mss_bytes / max(self._pace, 1.0))
        # Delayed acknowledgement: a receiver waits for a second segment before it acknowledges (RFC 1122, 4.2.3.2).
        delayed_s = min(DELAYED_ACK_S, reading.mss_bytes / max(self._pace, 1.0))
        return max(LEAST_QUEUE_S, QUEUE_SHARE * reading.base_rtt_s, burst_s) + delayed_s

    def _retry_s(self, reading: PathReading) -> float:
        if self.phase is Phase.FREE:
            return FREE_CHECK_S
        is_suspicious = self.phase is Phase.HOLD and self._stood_from_s < reading.at_s + 1
        if self.phase in (Phase.HOLD, Phase.YIELD) and not is_suspicious:
            return HOLD_CHECK_S
        least_s, most_s = QUICK_CHECK_S
        return min(most_s, max(least_s, reading.base_rtt_s / 8))

    # The phases.

    def _enter(self, phase: Phase, reading: PathReading) -> None:
        self.phase, self._since_s = phase, reading.at_s
        self._queued = self._clear = 0

    def _search(self, reading: PathReading) -> None:
        base_s = reading.base_rtt_s
        if self._is_hopeless(base_s):
            self._begin_free(reading)
            return
        delivered = self._path.cautious_rate(reading, max(base_s / 2, QUICK_CHECK_S[0]))
        whole_s = MEASURED_SEGMENTS * reading.mss_bytes / self._pace
        steady = self._path.cautious_rate(reading, max(base_s / 2, whole_s))
        share, segments = self._path.lost(reading, max(base_s, QUICK_CHECK_S[1]))
        loses = segments >= LOST_SEGMENTS and share > max(LOST_SHARE, TIMES_THE_PATH_S_OWN * self._own_loss)
        by_loss = loses and not self._path.is_disturbed
        if self._queued >= CONFIRM_CHECKS or by_loss:
            self._blamed = (share, self.found_bytes_per_s) if by_loss else None
            self._begin_drain(reading, min(steady, delivered), by_loss=by_loss)
        elif self._is_probe:
            self._probe(reading, steady)
        else:
            self._pace = max(self._pace, self._step(reading) * delivered)

    def _is_hopeless(self, base_s: float) -> bool:
        """Return whether delays kept a search from getting a usable reading for too long."""
        if self._path.is_disturbed and not self._is_probe:
            self._disturbed_s += self._path.span_s
            self._disturbed_times += not self._was_disturbed
        self._was_disturbed = self._path.is_disturbed
        is_long = self._disturbed_s > max(DISTURBED_S, DISTURBED_ROUND_TRIPS * base_s)
        return is_long and self._disturbed_times >= DISTURBED_TIMES

    def _begin_free(self, reading: PathReading) -> None:
        self._is_probe = self._was_yielding = False
        self._disturbed_s, self._disturbed_times = 0.0, 0
        self._enter(Phase.FREE, reading)
        self._pace = FREE_BYTES_PER_S

    def _free(self, reading: PathReading) -> None:
        """Leave the rate to BBR until the host is calm; then continue the search from the rate that BBR reached."""
        calm_s = reading.at_s - max(self._since_s, self._path.disturbed_at_s)
        if calm_s > self._calm_after_s:
            self._calm_after_s = min(LAST_CALM_S, 2 * self._calm_after_s)
            self._search_again(reading, self._path.rate(reading, max(2 * reading.rtt_s, HOLD_CHECK_S)))

    def _search_again(self, reading: PathReading, delivered: float) -> None:
        """Continue the search from the present delivery rate, which need not be the link's."""
        self._is_probe = self._was_yielding = False
        self._enter(Phase.SEARCH, reading)
        self._pace = max(delivered, FIRST_FLIGHT_SEGMENTS * reading.mss_bytes / reading.rtt_s)

    def _step(self, reading: PathReading) -> float:
        if reading.held_back:
            return HELD_BACK_STEP
        quick = self._pace * reading.base_rtt_s < QUICK_FLIGHT_SEGMENTS * reading.mss_bytes
        return QUICK_STEP if quick else STEP

    def _probe(self, reading: PathReading, delivered: float) -> None:
        passed_s, found = reading.at_s - self._since_s, self.found_bytes_per_s or 0.0
        gains = delivered > GAIN_SEEN * found and passed_s > 2 * reading.base_rtt_s
        # Without a queue until its end either the probe's rate was not sent, or the link carries it.
        if gains or passed_s > PROBE_ROUND_TRIPS * reading.base_rtt_s:
            self._is_probe = False

    def _begin_drain(self, reading: PathReading, delivered: float, *, by_loss: bool = False) -> None:
        self._peak, self._deepest_s, self._by_loss = delivered, reading.queue_s, by_loss
        self._was_yielding, self._delayed_s = self.phase is Phase.YIELD, 0.0
        self._enter(Phase.DRAIN, reading)
        self._pace = DRAIN_SHARE * self._peak

    def _drain(self, reading: PathReading) -> None:
        if self._path.is_disturbed:
            # During a delay no draining can be observed, so its time does not count.
            self._since_s += self._path.span_s
            self._delayed_s += self._path.span_s
            if self._delayed_s > UNDENIABLE_S + 4 * reading.base_rtt_s:
                self._search_again(reading, self.found_bytes_per_s or self._peak)
                return
        base_s, passed_s = reading.base_rtt_s, reading.at_s - self._since_s
        self._deepest_s = max(self._deepest_s, reading.queue_s)
        whole_s = MEASURED_SEGMENTS * reading.mss_bytes / max(self._peak, 1.0)
        self._peak = max(self._peak, self._path.cautious_rate(reading, max(base_s, 2 * QUICK_CHECK_S[0], whole_s)))
        self._pace = DRAIN_SHARE * self._peak
        is_clear = self._clear >= CONFIRM_CHECKS and (not self._by_loss or passed_s > base_s)
        if is_clear:
            rate = self._while_full() or self._peak
            if self._was_yielding:
                self._yielded_at_s = float("-inf")
            if not self._is_shared(reading):
                self._alone = rate
            self._found(reading, rate)
        elif passed_s > 2 * reading.rtt_s + 1.5 * self._deepest_s / (1 - DRAIN_SHARE):
            self._begin_yield(reading)

    def _is_shared(self, reading: PathReading) -> bool:
        """Return whether another flow's queue was seen recently."""
        return reading.at_s - self._yielded_at_s < AGAIN_S

    def _while_full(self) -> float | None:
        """Return the delivery rate while the queue stood, which is the link's rate; None if too little was measured."""
        if self._by_loss or self._full_from is None or self._full_to is None:
            return None
        span_s = self._full_to.at_s - self._full_from.at_s
        moved = self._full_to.delivered_bytes - self._full_from.delivered_bytes
        return moved / span_s if span_s > 0 and moved >= MEASURED_SEGMENTS * self._full_to.mss_bytes else None

    def _found(self, reading: PathReading, rate: float) -> None:
        if self._is_probe and self._is_shared(reading):
            # A probe's gain may be taken from the other flow, and is not the link's.
            rate = min(rate, self.found_bytes_per_s or rate)
        elif self._is_probe:
            # The link carried the held pace without a queue, even if a probe seems to show less.
            rate = max(rate, HOLD_SHARE * (self.found_bytes_per_s or 0.0))
        self._disturbed_s, self._disturbed_times = 0.0, 0
        if self._was_yielding or not self._is_probe:
            is_sure = self._was_yielding or self._deepest_s > 2 * self._queue_limit_s(reading)
            is_sure = is_sure and reading.at_s - self._path.disturbed_at_s > FIRST_PROBE_S
            self._probe_after_s = FIRST_PROBE_S if is_sure else EARLY_PROBE_S
        self.found_bytes_per_s, self.found_at_s = rate, reading.at_s
        self._best = rate
        self._begin_hold(reading)

    def _begin_hold(self, reading: PathReading) -> None:
        if self._is_probe:
            self._probe_after_s = min(LAST_PROBE_S, 2 * self._probe_after_s)
        self._is_probe = False
        self._enter(Phase.HOLD, reading)
        self._pace = HOLD_SHARE * (self.found_bytes_per_s or self._pace)

    def _hold(self, reading: PathReading) -> None:
        passed_s, rtt_s = reading.at_s - self._since_s, reading.rtt_s
        delivered = self._path.rate(reading, max(rtt_s, HOLD_CHECK_S))
        stood_s = reading.at_s - self._stood_from_s
        if self._is_short(reading):
            self._begin_free(reading)
            return
        if self._queued > CONFIRM_CHECKS and min(passed_s, stood_s) > CONFIRM_ROUND_TRIPS * rtt_s:
            self._queue_in_hold(reading, self._path.rate(reading, rtt_s))
            return
        if self._stood_from_s < reading.at_s or reading.at_s - self._path.disturbed_at_s < BLAME_S + 2 * rtt_s:
            return
        if passed_s > max(BLAME_S, 4 * rtt_s) and self._judge_losses(reading, delivered):
            return
        if passed_s >= max(self._probe_after_s, 4 * rtt_s) and delivered >= PACE_REACHED * self._pace:
            self._is_probe = True
            self._enter(Phase.SEARCH, reading)
            self._pace = GENTLE_STEP * (self.found_bytes_per_s or self._pace)

    def _is_short(self, reading: PathReading) -> bool:
        """Return whether this host sends less than the held pace, although neither queue nor receiver limits it."""
        span_s = max(SHORT_S, SHORT_ROUND_TRIPS * reading.rtt_s)
        if reading.at_s - max(self._since_s, self._held_back_at_s) < span_s + HOLD_CHECK_S:
            return False
        if self._path.least_queue_s(reading, span_s) > self._queue_limit_s(reading):
            return False
        return self._path.sent(reading, span_s) < SHORT_SHARE * self._pace

    def _queue_in_hold(self, reading: PathReading, delivered: float) -> None:
        """Drain a queue that stands at the held pace; if one returns soon, it is another flow's: yield to it."""
        # If all that we send arrives, no other flow uses the link: the queue is left from a burst.
        is_taken = delivered < TAKEN_SHARE * self._pace
        is_again = is_taken and (reading.at_s - self._queued_at_s < AGAIN_S or self._is_shared(reading))
        if is_taken:
            self._queued_at_s = reading.at_s
        if is_again:
            self._peak, self._was_yielding = delivered, False
            self._begin_yield(reading)
        else:
            self._begin_drain(reading, delivered)

    def _judge_losses(self, reading: PathReading, delivered: float) -> bool:
        """Lower a pace that loses much, once; return whether the phase changed."""
        share, segments = self._path.lost(reading, max(BLAME_S, 2 * reading.rtt_s))
        blamed, self._blamed = self._blamed, None
        if blamed is not None:
            if share <= blamed[0] / 2:
                return False
            # As much was lost at a lower pace, so our pace was not the cause.
            self._own_loss, self.found_bytes_per_s = share, blamed[1]
            self._enter(Phase.SEARCH, reading)
            return True
        if segments < LOST_SEGMENTS or share <= max(HELD_LOST_SHARE, TIMES_THE_PATH_S_OWN * self._own_loss):
            return False
        self._blamed = (share, self.found_bytes_per_s)
        self._begin_drain(reading, delivered, by_loss=True)
        return True

    def _begin_yield(self, reading: PathReading) -> None:
        self._check_after_s = min(LAST_YIELD_CHECK_S, 2 * self._check_after_s) if self._was_yielding else YIELD_CHECK_S
        self._is_probe = False
        self._enter(Phase.YIELD, reading)
        self._pace = max(YIELD_SHARE * self._alone, YIELD_STEP * self._peak)

    def _yield(self, reading: PathReading) -> None:
        delivered = self._path.rate(reading, max(reading.rtt_s, HOLD_CHECK_S))
        passed_s = reading.at_s - self._since_s
        self._yielded_at_s = reading.at_s
        # Let CUBIC grow, but not fill a queue by itself, else the end of the other flow would go unnoticed.
        is_growing = self._queued > 0 and reading.queue_s >= self._path.before(reading, HOLD_CHECK_S).queue_s
        if is_growing and delivered >= PACE_REACHED * self._pace:
            self._pace = YIELD_STEP * delivered
        if self._clear >= GONE_CHECKS:
            self._search_again(reading, delivered)
        elif passed_s > self._check_after_s:
            self._begin_drain(reading, delivered)

"""Constants of the search for a pace in `flashferry.tcp.pacing`, each with its reason."""

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

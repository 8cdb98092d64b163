"""The figures that the search for a pace goes by, each with its reason; the search is `flashferry.tcp.pacing`."""

HOLD_SHARE = 0.98
"""Part of the found rate at which a copy goes on: enough to fill the link, little enough to leave no queue."""

FIRST_FLIGHT_SEGMENTS = 30
"""What the first round trip may carry: ten segments (RFC 6928) at the gain of BBR's start-up, 2.89."""

KNOWN_SHARE = 0.5
"""Where an earlier copy found the link, the first pace: too much by half only if the link lost three quarters since."""

QUICK_STEP, STEP, GENTLE_STEP = 2.5, 1.5, 1.1
"""How far the pace goes above what was delivered: while little is on its way, in a search, and in a probe."""

HELD_BACK_STEP = 1.25
"""Room above what a full window lets through, so that the pace is not what limits it."""

QUICK_FLIGHT_SEGMENTS = 128
"""So much on its way that twice of it no longer fits into a usual queue."""

DRAIN_SHARE = 0.75
"""Part of the link's rate that is sent until a queue of ours is gone."""

LEAST_QUEUE_S = 0.004
QUEUE_SHARE = 1 / 10
QUEUE_SEGMENTS = 3
MOST_BURST_S = 0.008
"""A queue is one above all three: what a host is late by, a part of the round trip, and a burst at this pace. A pace
that is low beside another flow shows nothing of what a burst takes on the link, hence the bound."""

DELAYED_ACK_S = 0.04
"""Linux' least; a slow flow's acknowledgements come so much later without any queue."""

STANDS = 2.0
"""A search stops at the first sign of a queue; one that stands is at least so much longer, as no busy host's delays."""

CONFIRM_CHECKS = 2
CONFIRM_ROUND_TRIPS = 2
"""A queue before a held pace has to stand in each of the quick looks of so long."""

SHRINKS_S = 0.001
TRICKLE_SHARE = 0.25

UNDENIABLE_S = 1.0
"""A queue in every look of so long, and of four round trips, is believed also where delays do not end."""

MEASURED_SEGMENTS = 48
"""A rate is taken from so many at least: two more or less come with a burst."""

LOST_SHARE = 0.05
"""Of what a round trip carried; more is a policer, or a queue too short to be seen."""

LOST_SEGMENTS = 8
HELD_LOST_SHARE = 0.02
TIMES_THE_PATH_S_OWN = 3.0
BLAME_S = 1.0
"""A pace lowered because of losses is looked at after so long: if as much is lost then, the path loses by itself."""

EARLY_PROBE_S, FIRST_PROBE_S, LAST_PROBE_S = 1.0, 4.0, 16.0
"""How long a pace is held before more is tried: less where the queue that ended a search hardly showed."""

PROBE_ROUND_TRIPS = 10
"""BBR sends above its own estimate in one of eight round trips."""

GAIN_SEEN = 1.05
"""So much more was delivered in a probe: the link has more to give."""

PACE_REACHED = 0.9
"""So much of a pace is delivered where it is the pace that limits a copy."""

TAKEN_SHARE = 0.97
AGAIN_S = 30.0
"""A queue before a held pace that comes back so soon is another flow's: an estimate too high is mended by one drain."""

YIELD_CHECK_S = 5.0
LAST_YIELD_CHECK_S = 20.0
"""Beside another flow less is sent for a moment after so long, and later less often, to see whether it has ended."""

YIELD_STEP, YIELD_SHARE = 1.5, 0.95
GONE_CHECKS = 4
"""Another flow leaves the queue empty for a moment after each of its losses, too."""

DISTURBED_TIMES, DISTURBED_S, DISTURBED_ROUND_TRIPS = 3, 0.3, 4.0
"""A search that was disturbed so often, and for longer than both, shows nothing: BBR goes on without a pace."""

SHORT_SHARE, SHORT_S, SHORT_ROUND_TRIPS = 0.8, 1.5, 3.0
"""A held pace of which no more was sent for so long, without a queue, is one that this host does not reach."""

CALM_S, LAST_CALM_S = 5.0, 40.0
"""Without any delay for so long a search is worth while again; for longer where that was in vain."""

FREE_CHECK_S = 0.1

FREE_BYTES_PER_S = 10**10
"""More than any link: while free a pace holds nothing back."""

QUICK_CHECK_S = (0.02, 0.1)
"""An eighth of the round trip within these bounds, while a pace changes."""

HOLD_CHECK_S = 0.5
LEAST_BYTES_PER_S = 1000
"""No pace and no share of a cap is below this, so that every copy moves."""

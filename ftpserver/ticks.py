"""When the transfers are looked at: on moments they have in common, so that a thousand wake the loop no more than one.

All times are monotonic, in seconds. No clock in here.
"""

_MOMENTS = 10
_EARLY_S = 0.1


def to_next_tick_s(now_s: float, interval_s: float) -> float:
    """Return the time to a transfer's next reading: those of all fall on ten moments of an interval.

    So a thousand transfers wake the loop, and the parent, ten times a second and not a thousand times.
    """
    grid_s = interval_s / _MOMENTS
    return (now_s // grid_s + _MOMENTS) * grid_s - now_s


def to_next_early_look_s(now_s: float) -> float:
    """Return the time to the next of the looks at a young transfer, ten a second: more than 0 and at most 0.1 s."""
    return (now_s // _EARLY_S + 1) * _EARLY_S - now_s


def to_next_moment_s(now_s: float, interval_s: float) -> float:
    """Return the time to a multiple of an interval, half an interval away at least and one and a half at most.

    So transfers that share a link are looked at together.
    """
    wait_s = (now_s // interval_s + 1) * interval_s - now_s
    return wait_s if wait_s >= interval_s / 2 else wait_s + interval_s

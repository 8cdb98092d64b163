"""Decide from two measured rates whether tuning a device pays.

Tuning changes the configuration of a production router for the time of a copy. A gain of a few per cent, or of seconds
in an hour, does not justify that.
"""

from __future__ import annotations

from msgspec import Struct

from flashferry.core.units import megabytes, short_duration
from flashferry.tcp.verdict_rules import VerdictKind

LEAST_GAIN = 1.2
"""Least ratio of tuned to untuned rate: two copies over the same path differ by some per cent by chance."""

LEAST_SAVED_S = 30.0
"""Least time saved: changing, restoring and checking the configuration takes about so long at a long round trip."""

_REMAINING_LIMIT = {
    VerdictKind.WINDOW: "tuned, the window still limits: a larger one may give more",
    VerdictKind.SSH_WINDOW: "tuned, the window of the SSH channel still limits: a larger one may give more",
    VerdictKind.SLOW_RECEIVER: "tuned, the device itself is the limit: no window helps any further",
    VerdictKind.RANDOM_LOSS: "tuned, loss on the path is the limit",
    VerdictKind.BANDWIDTH: "tuned, the link is full",
    VerdictKind.POLICER: "tuned, a policer on the path is the limit",
    VerdictKind.CAP: "tuned, the share of the link that copies may take is used up",
    VerdictKind.SERVER: "tuned, our server is the limit",
}


class TuningDecision(Struct, frozen=True, kw_only=True):
    """Whether to tune a device.

    Attributes:
        is_worth: The decision.
        gain: Tuned rate divided by untuned rate; 1 if there is nothing to tune.
        reason: Why, in a sentence, with the numbers.
    """

    is_worth: bool
    gain: float
    reason: str


def nothing_to_tune() -> TuningDecision:
    """Return the decision for a device whose settings already suffice."""
    return TuningDecision(is_worth=False, gain=1.0, reason="its TCP settings are enough for this path as they are")


def decide_tuning(
    *, as_is_bytes_per_s: float, tuned_bytes_per_s: float, tuned_kind: VerdictKind, image_bytes: int
) -> TuningDecision:
    """Decide whether to tune a device, from two copies over the same path.

    Args:
        as_is_bytes_per_s: Rate with the device's own settings, > 0.
        tuned_bytes_per_s: Rate while tuned, > 0.
        tuned_kind: What limited the tuned copy.
        image_bytes: Size of the image to be copied.

    Raises:
        ValueError: A rate is not above zero.
    """
    if not (as_is_bytes_per_s > 0 and tuned_bytes_per_s > 0):
        raise ValueError(f"decide_tuning: expected rates > 0, found {as_is_bytes_per_s!r} and {tuned_bytes_per_s!r}")
    gain = tuned_bytes_per_s / as_is_bytes_per_s
    saved_s = image_bytes / as_is_bytes_per_s - image_bytes / tuned_bytes_per_s
    left = _REMAINING_LIMIT.get(tuned_kind, "")
    found = f"{gain:.1f} times as fast, which saves {short_duration(max(saved_s, 0.0))} for {megabytes(image_bytes)}"
    if gain < LEAST_GAIN:
        reason = f"{gain:.2f} times the speed is no gain beyond the noise of a measurement"
    elif saved_s < LEAST_SAVED_S:
        reason = f"{found}: less than changing and restoring the configuration is worth"
    else:
        reason = found
    pays_off = gain >= LEAST_GAIN and saved_s >= LEAST_SAVED_S
    return TuningDecision(is_worth=pays_off, gain=gain, reason=f"{reason}; {left}" if left else reason)

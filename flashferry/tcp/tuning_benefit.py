"""Is tuning worth it on this device? A decision from two measured rates, with its reason.

Tuning changes the configuration of a production router for the time of a copy. That is not done for a few per cent,
nor to save seconds of an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.core.units import megabytes, short_duration
from flashferry.tcp.verdict_rules import VerdictKind

LEAST_GAIN = 1.2
"""Two copies over the same path differ by some per cent by themselves; below this a gain may be chance."""

LEAST_SAVED_S = 30.0
"""What setting, restoring and proving the configuration costs at a long round trip, and a margin."""

_LEFT = {
    VerdictKind.WINDOW: "tuned, the window still limits: a larger one may give more",
    VerdictKind.SSH_WINDOW: "tuned, the window of the SSH channel still limits: a larger one may give more",
    VerdictKind.SLOW_RECEIVER: "tuned, the device itself is the limit: no window helps any further",
    VerdictKind.RANDOM_LOSS: "tuned, loss on the path is the limit",
    VerdictKind.BANDWIDTH: "tuned, the link is full",
    VerdictKind.POLICER: "tuned, a policer on the path is the limit",
    VerdictKind.CAP: "tuned, the share of the link that copies may take is used up",
    VerdictKind.SERVER: "tuned, our server is the limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningBenefit:
    """Whether tuning is worth it.

    Attributes:
        is_worth: The decision.
        gain: Tuned rate over rate as it is; 1 where there is nothing to tune.
        reason: Why, in a sentence, with the numbers.
    """

    is_worth: bool
    gain: float
    reason: str


def nothing_to_tune() -> TuningBenefit:
    """Return the decision for a device whose settings are enough already."""
    return TuningBenefit(is_worth=False, gain=1.0, reason="its TCP settings are enough for this path as they are")


def tuning_benefit(
    *, as_is_bytes_per_s: float, tuned_bytes_per_s: float, tuned_kind: VerdictKind, image_bytes: int
) -> TuningBenefit:
    """Decide from two copies over the same path.

    Args:
        as_is_bytes_per_s: Rate with the device's own settings, > 0.
        tuned_bytes_per_s: Rate while tuned, > 0.
        tuned_kind: What limited the tuned copy.
        image_bytes: Size of the image that is to follow.

    Raises:
        ValueError: A rate is not above zero.
    """
    if not (as_is_bytes_per_s > 0 and tuned_bytes_per_s > 0):
        raise ValueError(f"tuning_benefit: expected rates > 0, found {as_is_bytes_per_s!r} and {tuned_bytes_per_s!r}")
    gain = tuned_bytes_per_s / as_is_bytes_per_s
    saved_s = image_bytes / as_is_bytes_per_s - image_bytes / tuned_bytes_per_s
    left = _LEFT.get(tuned_kind, "")
    found = f"{gain:.1f} times as fast, which saves {short_duration(max(saved_s, 0.0))} for {megabytes(image_bytes)}"
    if gain < LEAST_GAIN:
        reason = f"{gain:.2f} times the speed is within the noise of a measurement"
    elif saved_s < LEAST_SAVED_S:
        reason = f"{found}: less than changing and restoring the configuration is worth"
    else:
        reason = found
    is_worth = gain >= LEAST_GAIN and saved_s >= LEAST_SAVED_S
    return TuningBenefit(is_worth=is_worth, gain=gain, reason=f"{reason}; {left}" if left else reason)

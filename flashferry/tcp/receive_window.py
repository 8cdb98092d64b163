"""Choice of the TCP receive window that fills a path.

Facts
-----

- A sender has at most one window in flight per round trip, so a path of rate R and round-trip time T needs R x T bytes.
- RFC 7323 2.3 limits the scale exponent to 14, so no window exceeds 2**30 - 1 = 1073741823 bytes.
- IOS takes `ip tcp window-size <68-1073741823>` and scales only above 65535.
- Twice the product leaves room for a lost segment to be repaired while new data keeps flowing.
"""

import math

from msgspec import Struct

from flashferry.core.units import exact_milliseconds, link_rate

LARGEST_WINDOW_BYTES = 1_073_741_823
"""Largest value of `ip tcp window-size` and the largest window TCP can advertise (RFC 7323)."""

SMALLEST_WINDOW_BYTES = 68
"""Least value `ip tcp window-size` accepts."""

LARGEST_UNSCALED_BYTES = 65_535
"""Largest window without scaling; an automatic choice never falls back below it."""

SMALLEST_CHOICE_BYTES = LARGEST_UNSCALED_BYTES + 1
"""Least window we choose ourselves: the first one for which IOS offers window scaling."""

ASSUMED_LINK_RATE_BPS = 100e6
"""Link rate assumed if none is given: too large a window costs buffer memory, too small a one costs speed."""

ASSUMED_RTT_S = 0.1
"""Round-trip time assumed if the kernel measured none."""

_ROUND_TO_BYTES = 10_000


class WindowChoice(Struct, frozen=True, kw_only=True):
    """A receive window and why it was chosen."""

    window_bytes: int
    reason: str


def bdp_bytes(*, rate_bps: float, rtt_s: float) -> int:
    """Return the bandwidth-delay product, the least window that fills the path.

    Args:
        rate_bps: Bottleneck rate in bits per second, > 0.
        rtt_s: Round-trip time in seconds, > 0.

    Raises:
        ValueError: A value is zero, negative or not finite.
    """
    for name, value in (("rate_bps", rate_bps), ("rtt_s", rtt_s)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: expected a finite number > 0, found {value!r}")
    # The small term keeps 0.1 s x 50 Mbit/s at 625000 although neither is exact in binary.
    return math.ceil(rate_bps * rtt_s / 8 - 1e-6)


def choose_window(
    rtt_s: float,
    link_rate_bps: float | None,
    explicit_bytes: int | None = None,
    platform_limit_bytes: int = LARGEST_WINDOW_BYTES,
) -> WindowChoice:
    """Choose the receive window for a path: twice its bandwidth-delay product, at least 65536 bytes.

    An explicit value is used as it is, even above the platform's limit: the operator may know better, and the device
    refuses a value that it does not support. Computed values are rounded up to a multiple of 10,000 bytes.

    Args:
        rtt_s: Round-trip time in seconds, > 0.
        link_rate_bps: Rate of the narrowest link in bits per second; None if unknown, then 100 Mbit/s is assumed.
        explicit_bytes: The operator's own value, 68 to 1073741823.
        platform_limit_bytes: Largest window this platform is known to handle.

    Raises:
        ValueError: A value is out of its range.
    """
    for name, value in (("explicit window", explicit_bytes), ("platform limit", platform_limit_bytes)):
        if value is not None and not SMALLEST_WINDOW_BYTES <= value <= LARGEST_WINDOW_BYTES:
            raise ValueError(f"{name}: expected {SMALLEST_WINDOW_BYTES} to {LARGEST_WINDOW_BYTES} bytes, found {value}")
    if explicit_bytes is not None:
        return WindowChoice(window_bytes=explicit_bytes, reason="given explicitly")
    rate_bps = ASSUMED_LINK_RATE_BPS if link_rate_bps is None else link_rate_bps
    product_bytes = bdp_bytes(rate_bps=rate_bps, rtt_s=rtt_s)
    needed_bytes = max(SMALLEST_CHOICE_BYTES, _round_up(2 * product_bytes))
    assumed = "assumed " if link_rate_bps is None else ""
    path = f"{assumed}{link_rate(rate_bps)} x {exact_milliseconds(rtt_s)} = {product_bytes} bytes"
    limit_bytes = min(platform_limit_bytes, LARGEST_WINDOW_BYTES)
    if needed_bytes > limit_bytes:
        return WindowChoice(window_bytes=limit_bytes, reason=f"platform limit; the path would take 2 x ({path})")
    if needed_bytes == SMALLEST_CHOICE_BYTES:
        return WindowChoice(window_bytes=needed_bytes, reason=f"least scaled window; the path needs only 2 x ({path})")
    return WindowChoice(window_bytes=needed_bytes, reason=f"2 x ({path})")


def _round_up(value_bytes: int) -> int:
    if value_bytes <= SMALLEST_CHOICE_BYTES:
        return value_bytes
    return -(-value_bytes // _ROUND_TO_BYTES) * _ROUND_TO_BYTES

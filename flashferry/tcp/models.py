"""Rate models: what a TCP flow can reach, each with its source. Rates are payload bytes per second.

Facts
-----

- Window: one window per round trip.
- Reno: 1.2 / sqrt(p) segments on average (RFC 3649 section 2; Mathis et al., CCR 27(3), 1997).
- CUBIC with C = 0.4 and beta = 0.7: 1.054 x (RTT / p)**0.75 segments (RFC 9438 section 5.1), and never less than Reno
  (its Reno-friendly region, section 4.3).
- p is the rate of loss events per segment, RTT in seconds.
- BBR version 1 does not back off on loss, so it has no such ceiling.
- Without SACK one lost segment is repaired per round trip (RFC 6582 section 1), whatever the congestion control: with a
  hole in every 1 / p segments at most 1 / p segments pass per round trip.
"""

import math

_RENO_SEGMENTS = 1.2
_CUBIC_SEGMENTS = 1.054


def window_limited_bytes_per_s(window_bytes: float, rtt_s: float) -> float:
    """Return the rate of a flow that always fills its window.

    Args:
        window_bytes: Window in bytes, > 0.
        rtt_s: Round-trip time in seconds, > 0.

    Raises:
        ValueError: A value is not a finite number above zero.
    """
    _positive(window_bytes=window_bytes, rtt_s=rtt_s)
    return window_bytes / rtt_s


def reno_bytes_per_s(loss: float, rtt_s: float, mss_bytes: int) -> float:
    """Return Reno's average rate under random loss; infinite without loss.

    Args:
        loss: Fraction of segments lost, 0 to below 1 (0.0001 is 0.01 %).
        rtt_s: Round-trip time in seconds, > 0.
        mss_bytes: Segment payload in bytes, > 0.

    Raises:
        ValueError: A value is out of its range.
    """
    return _rate(_reno_segments(loss), rtt_s, mss_bytes)


def cubic_bytes_per_s(loss: float, rtt_s: float, mss_bytes: int) -> float:
    """Return CUBIC's average rate under random loss; infinite without loss. Arguments as in `reno_bytes_per_s`."""
    _positive(rtt_s=rtt_s)
    reno = _reno_segments(loss)
    segments = max(reno, _CUBIC_SEGMENTS * (rtt_s / loss) ** 0.75) if loss else math.inf
    return _rate(segments, rtt_s, mss_bytes)


def repair_bytes_per_s(loss: float, rtt_s: float, mss_bytes: int) -> float:
    """Return the rate at which a flow without SACK repairs its losses; infinite without loss.

    Arguments as in `reno_bytes_per_s`.
    """
    _fraction(loss)
    return _rate(1 / loss if loss else math.inf, rtt_s, mss_bytes)


def predicted_bytes_per_s(
    *,
    rtt_s: float,
    window_bytes: float | None = None,
    loss: float = 0.0,
    mss_bytes: int = 1460,
    link_rate_bps: float | None = None,
    cap_bytes_per_s: float | None = None,
    congestion_control: str = "cubic",
) -> float:
    """Return the lowest of the bounds by window, congestion control, link and pacing cap; infinite if none is known.

    Args:
        rtt_s: Round-trip time in seconds, > 0.
        window_bytes: Receive window; None if it does not matter.
        loss: Fraction of segments lost.
        mss_bytes: Segment payload in bytes.
        link_rate_bps: Link rate in bits per second.
        cap_bytes_per_s: Pacing cap in bytes per second.
        congestion_control: `reno`, `cubic` or `bbr`; BBR has no ceiling from loss.

    Raises:
        ValueError: A value is out of its range.
    """
    ceilings = [math.inf]
    if window_bytes is not None:
        ceilings.append(window_limited_bytes_per_s(window_bytes, rtt_s))
    if congestion_control in ("cubic", "reno"):
        model = cubic_bytes_per_s if congestion_control == "cubic" else reno_bytes_per_s
        ceilings.append(model(loss, rtt_s, mss_bytes))
    if link_rate_bps is not None:
        _positive(link_rate_bps=link_rate_bps)
        ceilings.append(link_rate_bps / 8)
    if cap_bytes_per_s is not None:
        _positive(cap_bytes_per_s=cap_bytes_per_s)
        ceilings.append(cap_bytes_per_s)
    return min(ceilings)


def predicted_seconds(size_bytes: int, rate_bytes_per_s: float, rtt_s: float = 0.0) -> float:
    """Return how long a file takes at a rate, plus one round trip until the last byte is acknowledged.

    Args:
        size_bytes: File size in bytes, >= 0.
        rate_bytes_per_s: Rate in bytes per second, > 0; may be infinite.
        rtt_s: Round-trip time in seconds, >= 0.

    Raises:
        ValueError: A value is out of its range.
    """
    if size_bytes < 0 or not rate_bytes_per_s > 0 or not (math.isfinite(rtt_s) and rtt_s >= 0):
        raise ValueError(
            "predicted_seconds: expected size >= 0, rate > 0 and RTT >= 0, "
            f"found {size_bytes!r}, {rate_bytes_per_s!r} and {rtt_s!r}"
        )
    return size_bytes / rate_bytes_per_s + rtt_s


def _reno_segments(loss: float) -> float:
    _fraction(loss)
    return _RENO_SEGMENTS / math.sqrt(loss) if loss else math.inf


def _fraction(loss: float) -> None:
    if not 0 <= loss < 1:
        raise ValueError(f"loss: expected a fraction from 0 to below 1, found {loss!r}")


def _rate(segments: float, rtt_s: float, mss_bytes: int) -> float:
    _positive(rtt_s=rtt_s, mss_bytes=mss_bytes)
    return segments * mss_bytes / rtt_s


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: expected a finite number > 0, found {value!r}")

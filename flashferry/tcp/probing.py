"""How large a speed test has to be, and which part of it counts.

Facts
-----

- A sender starts with ten segments (RFC 6928) and doubles per round trip, so a short copy measures the start, not the
  path: 64 KiB are five round trips, whatever the link. A copy of ten round trips or less says nothing about the rate.
- 64 KiB are no measurement where they take long either: one lost segment of so few waits for a timer, RFC 6298 asks
  for a second at least and doubles it, and a copy of half a second takes five. So the first, tiny copy finds a size
  for the next one and nothing else.
- A flow that the window holds back runs at window / RTT from the moment the window is full, so the window seen on a
  tiny copy shows how long a larger one takes.
- An untuned router takes 0.08 to 0.15 MB/s at 100 ms, a tuned one 5 MB/s: a fixed size would take minutes
  on the one or be over before the other has its speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.units import rough_megabytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.tcp.sample import Sample

PILOT_BYTES = 65_536
"""First copy of a device that nothing is known of: a second at 0.1 MB/s. Never a measurement, however long it takes."""

_LEAST_AFTER_PILOT_BYTES = 140_000
"""Twice the pilot: what follows a pilot that took long, so that a stall in it differs from a slow device."""

_LONGEST_PILOT_S = 60.0
"""Below 1 kB/s nothing follows: the next copy would take minutes, and that the path is broken is known."""

LARGEST_BYTES = 64_000_000
"""No copy is larger: 10 s at 50 Mbit/s."""

TYPICAL_IMAGE_BYTES = 500_000_000
"""Size that times are forecast for where no image is named: an IOS-XE image has 400 to 900 MB."""

TARGET_S = 10.0
"""What a copy should take, in seconds: a hundred round trips at 100 ms, of which the start is some eight."""

MOST_GROWTH = 256
"""No copy is larger than the one before by more: a guess that is wrong then costs minutes at most."""

_START_ROUND_TRIPS = 10
"""So many and fewer are the start of a copy."""

_START_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCopy:
    """A copy that was timed.

    Attributes:
        size_bytes: What was copied.
        duration_s: First byte to last acknowledgement.
        rtt_s: Least round-trip time, or None where the kernel did not say.
        window_bytes: Largest receive window seen, or None.
    """

    size_bytes: int
    duration_s: float
    rtt_s: float | None
    window_bytes: int | None


def first_size(expected_bytes_per_s: float | None, target_s: float = TARGET_S) -> int:
    """Return the size of the first copy: what takes `target_s` at the rate expected, or a tiny one where none is.

    Raises:
        ValueError: The rate is not above zero.
    """
    if expected_bytes_per_s is None:
        return PILOT_BYTES
    if not expected_bytes_per_s > 0:
        raise ValueError(f"expected_bytes_per_s: expected a number > 0, found {expected_bytes_per_s!r}")
    return _sized(expected_bytes_per_s * target_s)


def next_size(seen: TimedCopy, *, ceiling_bytes_per_s: float | None = None, target_s: float = TARGET_S) -> int | None:
    """Return the size of the next copy, or None where the last one was long enough to count, or none can follow.

    Whether the last one counts is for `too_short` to say.

    Args:
        seen: The last copy.
        ceiling_bytes_per_s: What the link or a cap allows, or None where unknown.
        target_s: What a copy should take.
    """
    # Half of it has to lie after the start, even if less was asked for.
    target_s = max(target_s, 2.5 * _START_ROUND_TRIPS * (seen.rtt_s or 0.0))
    if seen.size_bytes >= LARGEST_BYTES:
        return None
    if seen.size_bytes <= PILOT_BYTES:
        if seen.duration_s > _LONGEST_PILOT_S:
            return None
    elif seen.duration_s >= target_s / 2:
        return None
    needed = _sized(min(_expected(seen, ceiling_bytes_per_s) * target_s, seen.size_bytes * MOST_GROWTH))
    if seen.size_bytes <= PILOT_BYTES:
        return max(needed, _LEAST_AFTER_PILOT_BYTES)
    # Less than twice as much would show nothing new.
    return needed if needed >= 2 * seen.size_bytes else None


def too_short(*, size_bytes: int, duration_s: float, rtt_s: float | None) -> str:
    """Return why a copy is too short to carry a rate, in words with its figures; empty where it is not.

    Args:
        size_bytes: What was copied.
        duration_s: First byte to last acknowledgement.
        rtt_s: Least round-trip time, or None where it is not known.
    """
    if size_bytes <= PILOT_BYTES:
        return (
            f"only {size_bytes / 1e3:.0f} kB went over, in {duration_s:.1f} s: enough to find the size of a test, and "
            "no measurement"
        )
    if rtt_s is not None and duration_s <= _START_ROUND_TRIPS * rtt_s:
        return (
            f"{rough_megabytes(size_bytes)} were over in {duration_s:.1f} s, {duration_s / rtt_s:.0f} round trips: the "
            "start of a copy, and no measurement"
        )
    return ""


def _expected(seen: TimedCopy, ceiling_bytes_per_s: float | None) -> float:
    rate = seen.size_bytes / max(seen.duration_s, 1e-3)
    if seen.rtt_s is None or seen.duration_s > _START_ROUND_TRIPS * seen.rtt_s:
        return rate
    ceilings = [] if ceiling_bytes_per_s is None else [ceiling_bytes_per_s]
    if seen.window_bytes:
        ceilings.append(seen.window_bytes / seen.rtt_s)
    # Over before it had its speed: the window shows what that would be, or else it is at least this.
    return max(rate, min(ceilings, default=8 * rate))


def _sized(size_bytes: float) -> int:
    """Return a size with two digits, so that many devices share a file, within the limits."""
    bounded = min(max(size_bytes, PILOT_BYTES), LARGEST_BYTES)
    step = 10.0 ** (math.floor(math.log10(bounded)) - 1)
    return max(PILOT_BYTES, int(round(bounded / step) * step))


def steady_bytes_per_s(samples: Sequence[Sample]) -> float | None:
    """Return the rate after the first quarter of a transfer, where the start is over; None where samples are few.

    Args:
        samples: In the order they were taken, from the first byte to the last acknowledgement.
    """
    if len(samples) < 3:
        return None
    first, last = samples[0], samples[-1]
    settled_at_s = first.at_s + _START_SHARE * (last.at_s - first.at_s)
    start = next(sample for sample in samples if sample.at_s >= settled_at_s)
    if last.at_s <= start.at_s or last.bytes_acked <= start.bytes_acked:
        return None
    return (last.bytes_acked - start.bytes_acked) / (last.at_s - start.at_s)

"""Size of a speed test's copies, and which part of a copy counts as measured.

Facts
-----

- A sender starts with ten segments (RFC 6928) and doubles per round trip, so a short copy measures slow start, not the
  path: 64 KiB take five round trips on any link. A copy of ten round trips or less shows nothing about the rate.
- 64 KiB that take long are no measurement either: one lost segment waits for a retransmission timer of at least a
  second, which doubles (RFC 6298), so a copy of half a second may take five. The first, tiny copy, the pilot, is used
  only to choose the size of the next one.
- A flow limited by its window runs at window / RTT once the window is full, so the window seen in the pilot shows how
  long a larger copy takes.
- An untuned router receives 0.08 to 0.15 MB/s at 100 ms, a tuned one 5 MB/s: a copy of fixed size would take minutes on
  the one, or end on the other before it reaches its speed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.units import rough_megabytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.tcp.sample import Sample

PILOT_BYTES = 65_536
"""Size of the pilot, the first copy to an unknown device: a second at 0.1 MB/s. It never counts as a measurement."""

_LEAST_AFTER_PILOT_BYTES = 140_000
"""Least size of the copy after the pilot, twice the pilot: by it a stall differs from a slow device."""

_LONGEST_PILOT_S = 60.0
"""After a pilot slower than this (1 kB/s) no copy follows: it would take minutes, and the path is clearly broken."""

LARGEST_BYTES = 64_000_000
"""Largest size of a copy: 10 s at 50 Mbit/s."""

TYPICAL_IMAGE_BYTES = 500_000_000
"""Size for which times are forecast if no image is named: an IOS-XE image has 400 to 900 MB."""

TARGET_S = 10.0
"""Intended duration of a copy, in seconds: a hundred round trips at 100 ms, of which slow start takes about eight."""

MOST_GROWTH = 256
"""Largest ratio of a copy's size to that of the copy before: a wrong estimate then costs minutes at most."""

_START_ROUND_TRIPS = 10
"""Round trips that count as the start of a copy."""

_START_SHARE = 0.25
"""Part of a transfer, at its start, that does not count for the steady rate."""


class TimedCopy(Struct, frozen=True, kw_only=True):
    """Size and duration of a finished copy.

    Attributes:
        size_bytes: Bytes copied.
        duration_s: First byte to last acknowledgement.
        rtt_s: Least round-trip time; None if the kernel did not report it.
        window_bytes: Largest receive window seen, or None.
    """

    size_bytes: int
    duration_s: float
    rtt_s: float | None
    window_bytes: int | None


def first_size(expected_bytes_per_s: float | None, target_s: float = TARGET_S) -> int:
    """Return the size of the first copy: `target_s` at the expected rate, or the pilot's size if no rate is expected.

    Raises:
        ValueError: The rate is not above zero.
    """
    if expected_bytes_per_s is None:
        return PILOT_BYTES
    if not expected_bytes_per_s > 0:
        raise ValueError(f"expected_bytes_per_s: expected a number > 0, found {expected_bytes_per_s!r}")
    return _sized(expected_bytes_per_s * target_s)


def next_size(seen: TimedCopy, *, ceiling_bytes_per_s: float | None = None, target_s: float = TARGET_S) -> int | None:
    """Return the size of the next copy; None if the last one was long enough, or no further copy makes sense.

    `too_short` decides whether the last copy counts as a measurement.

    Args:
        seen: The last copy.
        ceiling_bytes_per_s: Upper bound of the rate by link or cap; None if unknown.
        target_s: Intended duration of a copy.
    """
    # Half of the copy has to come after its start, even if a shorter duration was requested.
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
    # A copy of less than twice the size would show nothing new.
    return needed if needed >= 2 * seen.size_bytes else None


def too_short(*, size_bytes: int, duration_s: float, rtt_s: float | None) -> str:
    """Return why a copy is too short to measure a rate, as a sentence with its numbers; empty if it is long enough.

    Args:
        size_bytes: Bytes copied.
        duration_s: First byte to last acknowledgement.
        rtt_s: Least round-trip time; None if unknown.
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
    # The copy ended before it reached its full rate; the window shows that rate, else assume eight times what was seen.
    return max(rate, min(ceilings, default=8 * rate))


def _sized(size_bytes: float) -> int:
    """Return a size within the limits, rounded to two digits so that many devices can fetch the same file."""
    bounded = min(max(size_bytes, PILOT_BYTES), LARGEST_BYTES)
    step = 10.0 ** (math.floor(math.log10(bounded)) - 1)
    return max(PILOT_BYTES, int(round(bounded / step) * step))


def steady_bytes_per_s(samples: Sequence[Sample]) -> float | None:
    """Return the mean rate after the first quarter of a transfer, without its start; None if there are too few samples.

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

"""Sizes of a speed test: long enough to count, short enough to wait for; and which part of it counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.tcp.sample import Sample
from flashferry.tcp.speed_test_size import (
    LARGEST_BYTES,
    PILOT_BYTES,
    TimedCopy,
    first_size,
    next_size,
    steady_bytes_per_s,
    too_short,
)


def copy(
    size_bytes: int, duration_s: float, *, rtt_s: float | None = 0.1, window_bytes: int | None = None
) -> TimedCopy:
    return TimedCopy(size_bytes=size_bytes, duration_s=duration_s, rtt_s=rtt_s, window_bytes=window_bytes)


def test_a_device_that_nothing_is_known_of_gets_a_tiny_copy():
    """64 KiB, not megabytes: an untuned device at 300 ms takes one second for it, and minutes for those."""
    assert first_size(None) == PILOT_BYTES


def test_a_known_rate_gives_the_size_at_once():
    """5.96 MB/s for ten seconds are 60 MB."""
    assert first_size(5.96e6, target_s=10) == 60_000_000


@pytest.mark.parametrize(
    ("seen", "ceiling", "size_bytes"),
    [
        # The pilot over 100 ms: five round trips, over before it had its speed. The window tells: 16 kB / 0.1 s.
        (copy(PILOT_BYTES, 0.5, window_bytes=16_384), None, 1_600_000),
        # The same with a large window: the link's rate is less, but 256 times the pilot is enough for one step.
        (copy(PILOT_BYTES, 0.3, window_bytes=2_500_000), 5e6, 17_000_000),
        # On a LAN 0.1 s are many round trips: what was seen is the device's own speed.
        (copy(PILOT_BYTES, 0.1, rtt_s=0.001, window_bytes=65_535), None, 6_600_000),
        # Nothing known of window or link: eight times what the start gave.
        (copy(PILOT_BYTES, 0.5), None, 10_000_000),
        # Long enough.
        (copy(1_600_000, 9.8, window_bytes=16_384), None, None),
        (copy(600_000, 5.0), None, None),
        # The pilot stalled, or the device is slow: a second copy tells which, twice as large at least.
        (copy(PILOT_BYTES, 5.2, window_bytes=16_384), None, 140_000),
        (copy(PILOT_BYTES, 13.0, rtt_s=0.6, window_bytes=4128), None, 140_000),
        # Ten minutes would be needed for it: nothing follows.
        (copy(PILOT_BYTES, 200.0), None, None),
        # Five seconds are eight round trips by satellite: no measurement yet.
        (copy(200_000, 5.0, rtt_s=0.6, window_bytes=65_535), None, 1_600_000),
        # As large as it may be, however fast.
        (copy(LARGEST_BYTES, 1.0, rtt_s=0.0002), None, None),
    ],
)
def test_the_next_size_follows_from_what_was_seen(seen, ceiling, size_bytes):
    """Each copy tells how large the next has to be to take about ten seconds; None where it did."""
    assert next_size(seen, ceiling_bytes_per_s=ceiling) == size_bytes


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        # However long it took: what a stall, or a timer, made of it is not the device's speed.
        (copy(PILOT_BYTES, 5.2), "only 66 kB went over, in 5.2 s"),
        (copy(PILOT_BYTES, 0.6), "no measurement"),
        (copy(LARGEST_BYTES, 0.5), "64 MB were over in 0.5 s, 5 round trips"),
        (copy(140_000, 10.2), ""),
        (copy(LARGEST_BYTES, 0.5, rtt_s=0.0002), ""),
        (copy(600_000, 5.0, rtt_s=None), ""),
    ],
)
def test_a_copy_that_was_too_short_says_so(seen, why):
    """The copy that finds a size, and one of ten round trips or less, carry no rate; others do."""
    said = too_short(size_bytes=seen.size_bytes, duration_s=seen.duration_s, rtt_s=seen.rtt_s)
    assert (why in said) if why else (said == "")


@given(st.floats(0.01, 60), st.floats(1e-4, 1.0), st.integers(536, 10_000_000), st.sampled_from([2.0, 10.0, 60.0]))
def test_a_test_never_ends_with_its_pilot(duration_s, rtt_s, window_bytes, target_s):
    """Whatever the first copy was like, short of a minute, another one follows that is twice as large."""
    seen = copy(PILOT_BYTES, duration_s, rtt_s=rtt_s, window_bytes=window_bytes)
    following = next_size(seen, target_s=target_s)
    assert following is not None
    assert following >= 2 * PILOT_BYTES


@given(
    st.integers(PILOT_BYTES, LARGEST_BYTES),
    st.floats(1e-4, 100),
    st.floats(1e-4, 1.0),
    st.integers(536, 10_000_000),
    st.floats(1e3, 1e9),
)
def test_a_test_ends(size_bytes, duration_s, rtt_s, window_bytes, ceiling):
    """Sizes at least double and never pass the largest, so a handful of copies is the most there can be."""
    following = next_size(
        copy(size_bytes, duration_s, rtt_s=rtt_s, window_bytes=window_bytes), ceiling_bytes_per_s=ceiling
    )
    assert following is None or 2 * size_bytes <= following <= LARGEST_BYTES


def sample(at_s: float, acked_bytes: int) -> Sample:
    return Sample(
        at_s=at_s, rtt_us=1, snd_mss_bytes=1460, snd_cwnd_segments=10, unacked_segments=0, bytes_acked=acked_bytes
    )


def test_the_start_does_not_count():
    """One slow second and nine at 5 MB/s are 5 MB/s, not 4.5."""
    readings = [sample(0, 0), *(sample(1.0 + n, n * 5_000_000) for n in range(10))]
    assert steady_bytes_per_s(readings) == pytest.approx(5e6)


@pytest.mark.parametrize("readings", [[], [sample(0, 0), sample(1, 5)], [sample(0, 7), sample(1, 7), sample(2, 7)]])
def test_too_few_readings_tell_nothing(readings):
    """No rate is made up from one interval, or from a transfer that stood still."""
    assert steady_bytes_per_s(readings) is None

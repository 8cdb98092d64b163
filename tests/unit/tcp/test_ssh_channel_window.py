"""The window inside TCP's window: what was measured lies within the bounds, and near what is expected."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.tcp.receive_window import choose_window
from flashferry.tcp.ssh_channel_window import Limit, ceiling_bytes_per_s, channel_rate, link_payload_bytes_per_s

RTT_S = 0.1
LINK = 6.03e6
AMPLE = 4_000_000

MEASURED = [
    (8 * 1024, 0.071e6),
    (64 * 1024, 0.44e6),
    (64 * 1024, 0.47e6),
    (128 * 1024, 0.76e6),
    (128 * 1024, 0.82e6),
    (512 * 1024, 2.5e6),
    (1024 * 1024, 4.3e6),
    (1024 * 1024, 4.4e6),
    (2 * 1024 * 1024, 6.03e6),
]
"""Our own measurements: asyncssh on both sides, 100 ms, 50 Mbit/s, the receiver opens the channel at half of it."""

PUBLISHED = [
    # What, window of TCP, of the channel, round-trip time, link, and the figure.
    ("an untuned SCP of 178 MB took more than three hours (netmiko 491)", 4128, None, 0.25, None, 178e6 / (3 * 3600)),
    ("the same with a window of 65535: 20 minutes (netmiko 491)", 65_535, None, 0.25, None, 178e6 / 1200),
    (
        "scp with default settings over 17 ms: about 40 MB/s (the Chinese article of 2021)",
        AMPLE,
        2**21,
        0.017,
        125e6,
        40e6,
    ),
]
"""The first two state no round-trip time: a quarter of a second is what the first figure gives with its window, so that
the second one alone is a test."""


def rate(channel: int | None, *, tcp: int = AMPLE, rtt_s: float = RTT_S, link: float | None = LINK):
    return channel_rate(tcp_window_bytes=tcp, channel_window_bytes=channel, rtt_s=rtt_s, link_bytes_per_s=link)


@pytest.mark.parametrize(("window", "measured"), MEASURED)
def test_what_was_measured_is_within_a_quarter(window, measured):
    """No measured point is above the ceiling or below the floor, and none is far from what is expected."""
    found = rate(window)
    assert found.least_bytes_per_s <= measured <= found.most_bytes_per_s
    assert found.likely_bytes_per_s == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize(
    ("words", "tcp", "channel", "rtt_s", "link", "figure"), PUBLISHED, ids=lambda one: str(one)[:20]
)
def test_what_was_published_is_below_the_ceiling(words, tcp, channel, rtt_s, link, figure):
    """And above a quarter of it: nothing else held these back by much."""
    found = rate(channel, tcp=tcp, rtt_s=rtt_s, link=link)
    assert found.most_bytes_per_s / 4 <= figure <= found.most_bytes_per_s * 1.01, words


def test_the_figures_that_are_told():
    """8192 bytes at 100 ms are 82 kB/s; 50 Mbit/s carry 6.1 MB/s of a file without options in the header."""
    assert ceiling_bytes_per_s(tcp_window_bytes=AMPLE, channel_window_bytes=8192, rtt_s=0.1) == 81_920
    assert link_payload_bytes_per_s(50e6) == pytest.approx(6.083e6, rel=1e-3)


def test_which_limit_it_is():
    """The smaller of the two windows, or the link."""
    assert rate(8192).limit is Limit.SSH_WINDOW
    assert rate(None, tcp=4128).limit is Limit.TCP_WINDOW
    assert rate(2**21, tcp=4128).limit is Limit.TCP_WINDOW
    assert rate(2**21).limit is Limit.LINK
    assert rate(None, link=None).limit is Limit.TCP_WINDOW


@given(
    tcp=st.integers(68, 2**30), channel=st.integers(1024, 2**30), rtt_s=st.floats(0.001, 2.0), link=st.floats(1e4, 1e9)
)
def test_the_bounds_are_in_order(tcp, channel, rtt_s, link):
    """Least, likely, most; and a channel never makes a copy faster than without one."""
    found = rate(channel, tcp=tcp, rtt_s=rtt_s, link=link)
    bare = rate(None, tcp=tcp, rtt_s=rtt_s, link=link)
    assert 0 < found.least_bytes_per_s <= found.likely_bytes_per_s * (1 + 1e-9)
    assert found.likely_bytes_per_s <= found.most_bytes_per_s * (1 + 1e-9)
    assert found.most_bytes_per_s <= bare.most_bytes_per_s == bare.likely_bytes_per_s


@given(link_bps=st.floats(1e6, 1e9), rtt_s=st.floats(0.01, 1.0))
def test_one_size_for_both_windows_fills_the_path(link_bps, rtt_s):
    """Twice the bandwidth-delay product: then the link is the limit, and the channel no brake."""
    both = choose_window(rtt_s=rtt_s, link_rate_bps=link_bps).window_bytes
    found = rate(both, tcp=both, rtt_s=rtt_s, link=link_payload_bytes_per_s(link_bps))
    assert found.limit is Limit.LINK
    assert found.likely_bytes_per_s == found.most_bytes_per_s


@pytest.mark.parametrize("link", [0.0, -1.0, math.inf, math.nan])
def test_a_link_that_carries_nothing_is_refused(link):
    """As are windows and round-trip times of nothing."""
    with pytest.raises(ValueError, match="link_bytes_per_s: expected a finite number > 0"):
        rate(8192, link=link)
    with pytest.raises(ValueError, match="finite number"):
        rate(0)
    with pytest.raises(ValueError, match="finite number"):
        rate(8192, rtt_s=0.0)

"""A window inside TCP's window: what an SSH channel lets through, beside what TCP does. Pure.

Facts
-----
- RFC 4254 5.2: a channel's sender may have no more bytes under way than the receiver's window has left; the receiver
  opens it again by WINDOW_ADJUST messages, when it likes.
- The smaller of the two windows holds a copy back: no rate is above it per round trip.
- A receiver opens the channel in portions: OpenSSH behind three packets, asyncssh at half of the window; IOS unknown.
  So the channel gives less than its window per round trip. At worst the sender stands still until half a window comes
  back: half a window per round trip and the time that the link takes for it. Between the two lies what was measured
  (asyncssh on both sides, 100 ms, 50 Mbit/s): 0.071 MB/s with 8 KiB, 0.44 to 0.47 with 64 KiB, 0.76 to 0.82 with
  128 KiB, 2.5 with 512 KiB, 4.3 to 4.4 with 1 MiB, the link's rate with 2 MiB. Their geometric mean is within a
  quarter of each.
- So a channel needs twice the bandwidth-delay product at least, as TCP's window does for its repairs: one size for both
  (`flashferry.tcp.receive_window.choose_window`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from flashferry.tcp.link_rate import HEADERS_BYTES, MTU_BYTES
from flashferry.tcp.models import window_limited_bytes_per_s


class Limit(StrEnum):
    """What holds a copy back at most."""

    TCP_WINDOW = "tcp window"
    SSH_WINDOW = "ssh window"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRate:
    """What a copy through both windows can have, in payload bytes per second.

    Attributes:
        most_bytes_per_s: No copy is faster.
        likely_bytes_per_s: What to expect where nothing else is in the way.
        least_bytes_per_s: What a receiver leaves that opens its channel by halves only; without a channel the most.
        limit: What the most comes from.
    """

    most_bytes_per_s: float
    likely_bytes_per_s: float
    least_bytes_per_s: float
    limit: Limit


def link_payload_bytes_per_s(link_rate_bps: float) -> float:
    """Return what a link carries of a file, headers taken off.

    Args:
        link_rate_bps: Bits per second on the link, IP headers included, > 0.
    """
    return link_rate_bps / 8 * (MTU_BYTES - HEADERS_BYTES) / MTU_BYTES


def ceiling_bytes_per_s(
    *,
    tcp_window_bytes: float,
    channel_window_bytes: float | None,
    rtt_s: float,
    link_bytes_per_s: float | None = None,
) -> float:
    """Return the rate that no copy exceeds: the smaller window per round trip, or what the link carries.

    Args:
        tcp_window_bytes: Receive window of TCP, > 0.
        channel_window_bytes: Window of the SSH channel, > 0; None where there is no channel.
        rtt_s: Round-trip time in seconds, > 0.
        link_bytes_per_s: What the link carries of a file, > 0; None if unknown.

    Raises:
        ValueError: A value is not a finite number above zero.
    """
    return channel_rate(
        tcp_window_bytes=tcp_window_bytes,
        channel_window_bytes=channel_window_bytes,
        rtt_s=rtt_s,
        link_bytes_per_s=link_bytes_per_s,
    ).most_bytes_per_s


def channel_rate(
    *,
    tcp_window_bytes: float,
    channel_window_bytes: float | None,
    rtt_s: float,
    link_bytes_per_s: float | None = None,
) -> ChannelRate:
    """Return what a copy through both windows can have. Arguments and errors as of `ceiling_bytes_per_s`."""
    if link_bytes_per_s is not None and not (math.isfinite(link_bytes_per_s) and link_bytes_per_s > 0):
        raise ValueError(f"link_bytes_per_s: expected a finite number > 0, found {link_bytes_per_s!r}")
    link = math.inf if link_bytes_per_s is None else link_bytes_per_s
    bounds = {Limit.LINK: link, Limit.TCP_WINDOW: window_limited_bytes_per_s(tcp_window_bytes, rtt_s)}
    least = math.inf
    if channel_window_bytes is not None:
        bounds[Limit.SSH_WINDOW] = window_limited_bytes_per_s(channel_window_bytes, rtt_s)
        half = channel_window_bytes / 2
        least = half / (rtt_s + half / link)
    limit = min(bounds, key=lambda one: bounds[one])
    most = bounds[limit]
    least = min(least, most)
    # A window that holds what the link takes in two round trips is never empty when the next portion comes.
    is_ample = channel_window_bytes is None or channel_window_bytes >= 2 * most * rtt_s
    return ChannelRate(
        most_bytes_per_s=most,
        likely_bytes_per_s=most if is_ample else math.sqrt(most * least),
        least_bytes_per_s=least,
        limit=limit,
    )

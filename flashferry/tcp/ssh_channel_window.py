"""Rate of a copy through an SSH channel, which has a window of its own inside TCP's. Pure.

Facts
-----
- RFC 4254 5.2: a channel's sender may have no more bytes in flight than the receiver's window has left; the receiver
  opens it again by WINDOW_ADJUST messages, whenever it chooses.
- The smaller of the two windows limits a copy: at most one such window is delivered per round trip.
- A receiver opens the channel in portions: OpenSSH after three packets, asyncssh at half of the window; IOS unknown.
  So the channel passes less than its window per round trip. In the worst case the sender waits until half a window is
  opened: half a window per round trip plus the link's time to send it. The measured rates lie between the two
  (asyncssh on both sides, 100 ms, 50 Mbit/s): 0.071 MB/s with 8 KiB, 0.44 to 0.47 with 64 KiB, 0.76 to 0.82 with
  128 KiB, 2.5 with 512 KiB, 4.3 to 4.4 with 1 MiB, the link's rate with 2 MiB. Their geometric mean is within a
  quarter of each.
- So a channel needs at least twice the bandwidth-delay product. TCP's window needs the same for retransmissions, so one
  size serves both (`flashferry.tcp.receive_window.choose_window`).
"""

from __future__ import annotations

import math
from enum import StrEnum

from msgspec import Struct

from flashferry.tcp.link_rate import HEADERS_BYTES, MTU_BYTES
from flashferry.tcp.models import window_limited_bytes_per_s


class Limit(StrEnum):
    """What sets the upper bound of a copy's rate."""

    TCP_WINDOW = "tcp window"
    SSH_WINDOW = "ssh window"
    LINK = "link"


class ChannelRate(Struct, frozen=True, kw_only=True):
    """Range of the rate of a copy through TCP's and the SSH channel's window, in payload bytes per second.

    Attributes:
        most_bytes_per_s: Upper bound.
        likely_bytes_per_s: Expected rate if nothing else limits the copy.
        least_bytes_per_s: Rate if the receiver reopens its channel only at half of the window; without a channel the
            upper bound.
        limit: What sets the upper bound.
    """

    most_bytes_per_s: float
    likely_bytes_per_s: float
    least_bytes_per_s: float
    limit: Limit


def link_payload_bytes_per_s(link_rate_bps: float) -> float:
    """Return the payload rate of a full link: its rate without TCP and IP headers.

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
    """Return the upper bound of a copy's rate: the smaller window per round trip, or the link's payload rate.

    Args:
        tcp_window_bytes: Receive window of TCP, > 0.
        channel_window_bytes: Window of the SSH channel, > 0; None where there is no channel.
        rtt_s: Round-trip time in seconds, > 0.
        link_bytes_per_s: Payload rate of the link, > 0; None if unknown.

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
    """Return bounds and estimate of a copy's rate. Arguments and errors as those of `ceiling_bytes_per_s`."""
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
    # A window of two bandwidth-delay products is not used up before the receiver opens the next portion.
    is_ample = channel_window_bytes is None or channel_window_bytes >= 2 * most * rtt_s
    return ChannelRate(
        most_bytes_per_s=most,
        likely_bytes_per_s=most if is_ample else math.sqrt(most * least),
        least_bytes_per_s=least,
        limit=limit,
    )

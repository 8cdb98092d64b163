"""What the Linux kernel knows of a live connection: the fields of TCP_INFO that `show tcp` has a place for.

Offsets are those of `struct tcp_info` in include/uapi/linux/tcp.h; fields were only ever added at its end, so a shorter
answer of an older kernel is filled up with zeros.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol

_IPPROTO_TCP, _TCP_INFO = 6, 11
_LENGTH_BYTES = 240
_TIMESTAMPS, _SACK, _WINDOW_SCALE = 1, 2, 4
_ESTABLISHED = 1


class Live(Protocol):
    """What is needed of a socket to ask the kernel about it."""

    def getsockopt(self, level: int, option: int, length: int, /) -> bytes:
        """Return a socket option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTcp:
    """A connection as the kernel sees it; times in milliseconds.

    Attributes:
        is_established: Both sides may send.
        has_sack: Selective acknowledgements were agreed on.
        has_timestamps: So were timestamps.
        has_scaling: So was window scaling.
        send_scale: By how many bits the other side's window is shifted.
        receive_scale: By how many bits ours is.
        send_window_bytes: What the other side last advertised.
        receive_window_bytes: What we last advertised.
        rtt_ms: Smoothed round-trip time.
        retransmission_timeout_ms: How long an acknowledgement may take.
        least_rtt_ms: The least round-trip time seen.
        idle_send_ms: Since data was last sent.
        idle_receive_ms: Since data last came.
        segment_bytes: The largest segment to send.
        segments_in: Segments that came.
        data_segments_in: Those of them with data.
        bytes_in: Data that came.
        out_of_order: Segments that came out of order.
        segments_out: Segments that were sent.
        data_segments_out: Those of them with data.
        bytes_out: Data that was sent and acknowledged.
        retransmitted: Segments that were sent again.
    """

    is_established: bool
    has_sack: bool
    has_timestamps: bool
    has_scaling: bool
    send_scale: int
    receive_scale: int
    send_window_bytes: int
    receive_window_bytes: int
    rtt_ms: int
    rtt_variation_ms: int
    retransmission_timeout_ms: int
    least_rtt_ms: int
    idle_send_ms: int
    idle_receive_ms: int
    segment_bytes: int
    segments_in: int
    data_segments_in: int
    bytes_in: int
    out_of_order: int
    segments_out: int
    data_segments_out: int
    bytes_out: int
    retransmitted: int


def read_kernel_tcp(live: Live | None) -> KernelTcp | None:
    """Ask the kernel about a socket; None where there is none, or where it is closed."""
    if live is None:
        return None
    try:
        raw = live.getsockopt(_IPPROTO_TCP, _TCP_INFO, _LENGTH_BYTES)
    except OSError:
        return None
    return parse_kernel_tcp(raw)


def parse_kernel_tcp(raw: bytes) -> KernelTcp:
    """Read the fields of a TCP_INFO answer."""
    raw = raw.ljust(_LENGTH_BYTES, b"\0")

    def word(offset: int) -> int:
        return int(struct.unpack_from("=I", raw, offset)[0])

    def long(offset: int) -> int:
        return int(struct.unpack_from("=Q", raw, offset)[0])

    options, scales = raw[5], raw[6]
    scaling = bool(options & _WINDOW_SCALE)
    return KernelTcp(
        is_established=raw[0] == _ESTABLISHED,
        has_sack=bool(options & _SACK),
        has_timestamps=bool(options & _TIMESTAMPS),
        has_scaling=scaling,
        send_scale=scales & 0x0F if scaling else 0,
        receive_scale=scales >> 4 if scaling else 0,
        send_window_bytes=word(228),
        receive_window_bytes=word(232),
        rtt_ms=word(68) // 1000,
        rtt_variation_ms=word(72) // 1000,
        retransmission_timeout_ms=word(8) // 1000,
        least_rtt_ms=word(148) // 1000 if word(148) != _UNKNOWN else 0,
        idle_send_ms=word(44),
        idle_receive_ms=word(52),
        segment_bytes=word(16),
        segments_in=word(140),
        data_segments_in=word(152),
        bytes_in=long(128),
        out_of_order=word(224),
        segments_out=word(136),
        data_segments_out=word(156),
        bytes_out=long(120),
        retransmitted=word(100),
    )


_UNKNOWN = 2**32 - 1
"""A least round-trip time that was not measured yet."""

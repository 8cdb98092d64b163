"""Parsers of TCP_INFO and of BBR's TCP_CC_INFO: the kernel's state of a connection.

Facts
-----

- `struct tcp_info` (Linux `include/uapi/linux/tcp.h`) only ever grows at its end. An older kernel returns fewer bytes,
  so the length returned says which fields exist. Fields past it are None here, never zero and never garbage.
- The first 104 bytes have been there since Linux 2.6 and are required.
- `tcpi_snd_wscale` and `tcpi_rcv_wscale` share byte 6. On little-endian machines the low nibble is `snd_wscale`,
  the shift of windows that the *peer* advertises to us.
- `tcpi_busy_time` includes `tcpi_rwnd_limited` and `tcpi_sndbuf_limited` (Linux commit efd9017416).
- `tcpi_bytes_acked` counts the SYN of a connection we opened and the FIN we sent, one each (RFC 4898 counts octets).
- Integers are in native byte order.
"""

import struct
from functools import lru_cache

from msgspec import Struct

BASE_LENGTH_BYTES = 104
"""Length of the part every kernel returns: up to and including `total_retrans`."""

NO_PACING_LIMIT = 2**64 - 1
"""`tcpi_max_pacing_rate` of a socket without SO_MAX_PACING_RATE (all ones)."""

# Where each field starts and its `struct` code: the layout table of linux/tcp.h. Padding and bit fields are left out.
_LAYOUT: tuple[tuple[str, int, str], ...] = (
    ("state", 0, "B"),
    ("ca_state", 1, "B"),
    ("retransmits", 2, "B"),
    ("probes", 3, "B"),
    ("backoff", 4, "B"),
    ("options", 5, "B"),
    ("wscales", 6, "B"),
    ("flags", 7, "B"),
    ("rto_us", 8, "I"),
    ("ato_us", 12, "I"),
    ("snd_mss_bytes", 16, "I"),
    ("rcv_mss_bytes", 20, "I"),
    ("unacked_segments", 24, "I"),
    ("sacked_segments", 28, "I"),
    ("lost_segments", 32, "I"),
    ("retrans_segments", 36, "I"),
    ("fackets", 40, "I"),
    ("last_data_sent_ms", 44, "I"),
    ("last_ack_sent_ms", 48, "I"),
    ("last_data_recv_ms", 52, "I"),
    ("last_ack_recv_ms", 56, "I"),
    ("pmtu_bytes", 60, "I"),
    ("rcv_ssthresh_bytes", 64, "I"),
    ("rtt_us", 68, "I"),
    ("rttvar_us", 72, "I"),
    ("snd_ssthresh_segments", 76, "I"),
    ("snd_cwnd_segments", 80, "I"),
    ("advmss_bytes", 84, "I"),
    ("reordering_segments", 88, "I"),
    ("rcv_rtt_us", 92, "I"),
    ("rcv_space_bytes", 96, "I"),
    ("total_retrans_segments", 100, "I"),
    ("pacing_rate_bytes_per_s", 104, "Q"),
    ("max_pacing_rate_bytes_per_s", 112, "Q"),
    ("bytes_acked", 120, "Q"),
    ("bytes_received", 128, "Q"),
    ("segs_out", 136, "I"),
    ("segs_in", 140, "I"),
    ("notsent_bytes", 144, "I"),
    ("min_rtt_us", 148, "I"),
    ("data_segs_in", 152, "I"),
    ("data_segs_out", 156, "I"),
    ("delivery_rate_bytes_per_s", 160, "Q"),
    ("busy_time_us", 168, "Q"),
    ("rwnd_limited_us", 176, "Q"),
    ("sndbuf_limited_us", 184, "Q"),
    ("delivered_segments", 192, "I"),
    ("delivered_ce_segments", 196, "I"),
    ("bytes_sent", 200, "Q"),
    ("bytes_retrans", 208, "Q"),
    ("dsack_dups", 216, "I"),
    ("reord_seen", 220, "I"),
    ("rcv_ooopack", 224, "I"),
    ("snd_wnd_bytes", 228, "I"),
    ("rcv_wnd_bytes", 232, "I"),
    ("rehash", 236, "I"),
    ("total_rto", 240, "H"),
    ("total_rto_recoveries", 242, "H"),
    ("total_rto_time_ms", 244, "I"),
    ("received_ce", 248, "I"),
    ("delivered_e1_bytes", 252, "I"),
    ("delivered_e0_bytes", 256, "I"),
    ("delivered_ce_bytes", 260, "I"),
    ("received_e1_bytes", 264, "I"),
    ("received_e0_bytes", 268, "I"),
    ("received_ce_bytes", 272, "I"),
    ("accecn_bits", 276, "I"),
)

_PROGRESS = struct.Struct("=100xI16xQ")
"""`total_retrans` and `bytes_acked`."""

_OPTION_TIMESTAMPS = 1
_OPTION_SACK = 2
_OPTION_WSCALE = 4
_FLAG_APP_LIMITED = 1


class TcpInfo(Struct, frozen=True):
    """One reading of TCP_INFO; fields are named and ordered as in `struct tcp_info`, with the unit added.

    Rates are bytes per second. Fields that came after Linux 4.0 are None where the kernel is older.
    """

    state: int
    ca_state: int
    retransmits: int
    probes: int
    backoff: int
    options: int
    wscales: int
    flags: int
    rto_us: int
    ato_us: int
    snd_mss_bytes: int
    rcv_mss_bytes: int
    unacked_segments: int
    sacked_segments: int
    lost_segments: int
    retrans_segments: int
    fackets: int
    last_data_sent_ms: int
    last_ack_sent_ms: int
    last_data_recv_ms: int
    last_ack_recv_ms: int
    pmtu_bytes: int
    rcv_ssthresh_bytes: int
    rtt_us: int
    rttvar_us: int
    snd_ssthresh_segments: int
    snd_cwnd_segments: int
    advmss_bytes: int
    reordering_segments: int
    rcv_rtt_us: int
    rcv_space_bytes: int
    total_retrans_segments: int
    pacing_rate_bytes_per_s: int | None = None
    max_pacing_rate_bytes_per_s: int | None = None
    bytes_acked: int | None = None
    bytes_received: int | None = None
    segs_out: int | None = None
    segs_in: int | None = None
    notsent_bytes: int | None = None
    min_rtt_us: int | None = None
    data_segs_in: int | None = None
    data_segs_out: int | None = None
    delivery_rate_bytes_per_s: int | None = None
    busy_time_us: int | None = None
    rwnd_limited_us: int | None = None
    sndbuf_limited_us: int | None = None
    delivered_segments: int | None = None
    delivered_ce_segments: int | None = None
    bytes_sent: int | None = None
    bytes_retrans: int | None = None
    dsack_dups: int | None = None
    reord_seen: int | None = None
    rcv_ooopack: int | None = None
    snd_wnd_bytes: int | None = None
    rcv_wnd_bytes: int | None = None
    rehash: int | None = None
    total_rto: int | None = None
    total_rto_recoveries: int | None = None
    total_rto_time_ms: int | None = None
    received_ce: int | None = None
    delivered_e1_bytes: int | None = None
    delivered_e0_bytes: int | None = None
    delivered_ce_bytes: int | None = None
    received_e1_bytes: int | None = None
    received_e0_bytes: int | None = None
    received_ce_bytes: int | None = None
    accecn_bits: int | None = None

    @property
    def rtt_s(self) -> float | None:
        """Smoothed round-trip time in seconds; None before the first measurement."""
        return self.rtt_us / 1e6 if self.rtt_us else None

    @property
    def min_rtt_s(self) -> float | None:
        """Least round-trip time seen, in seconds; None when unknown (the kernel then reports 0 or all ones)."""
        if self.min_rtt_us is None or self.min_rtt_us in (0, 0xFFFFFFFF):
            return None
        return self.min_rtt_us / 1e6

    @property
    def sack(self) -> bool:
        """Whether SACK was negotiated (RFC 2018)."""
        return bool(self.options & _OPTION_SACK)

    @property
    def timestamps(self) -> bool:
        """Whether timestamps were negotiated (RFC 7323)."""
        return bool(self.options & _OPTION_TIMESTAMPS)

    @property
    def window_scaling(self) -> bool:
        """Whether window scaling was negotiated (RFC 7323)."""
        return bool(self.options & _OPTION_WSCALE)

    @property
    def peer_window_scale(self) -> int | None:
        """Shift the peer applies to the windows it advertises, 0 to 14; None without scaling."""
        return self.wscales & 0x0F if self.window_scaling else None

    @property
    def app_limited(self) -> bool:
        """Whether a lack of data to send limited the last delivery rate."""
        return bool(self.flags & _FLAG_APP_LIMITED)

    @property
    def in_flight_bytes(self) -> int:
        """Segments sent and not yet acknowledged times the segment size, an upper bound of the bytes in flight."""
        return self.unacked_segments * self.snd_mss_bytes


def parse_tcp_info(raw: bytes) -> TcpInfo:
    """Parse the bytes that `getsockopt(IPPROTO_TCP, TCP_INFO)` returned; their length decides which fields are set.

    Args:
        raw: The bytes returned; call getsockopt with a length of 512.

    Raises:
        ValueError: Fewer than 104 bytes, which no Linux kernel returns.
    """
    if len(raw) < BASE_LENGTH_BYTES:
        raise ValueError(f"TCP_INFO: expected at least {BASE_LENGTH_BYTES} bytes, found {len(raw)}")
    # By position, which takes a third of the time: the layout has the fields in the order of `TcpInfo`.
    return TcpInfo(*_reader(len(raw)).unpack_from(raw))


def parse_progress(raw: bytes) -> tuple[int, int]:
    """Return `bytes_acked` and `total_retrans_segments` of a reading, in a tenth of the time of all its fields.

    A kernel without `bytes_acked` has 0 there.

    Raises:
        ValueError: Fewer than 104 bytes, which no Linux kernel returns.
    """
    if len(raw) < _PROGRESS.size:
        info = parse_tcp_info(raw)
        return info.bytes_acked or 0, info.total_retrans_segments
    retransmitted, acked_bytes = _PROGRESS.unpack_from(raw)
    return acked_bytes, retransmitted


@lru_cache(maxsize=16)
def _reader(length: int) -> struct.Struct:
    """Return an unpacker for all fields within a length; cached, for a kernel uses one length."""
    codes, place = ["="], 0
    for _, offset, code in _LAYOUT:
        end = offset + struct.calcsize(f"={code}")
        if end > length:
            break
        codes.append(f"{offset - place}x{code}")
        place = end
    return struct.Struct("".join(codes))

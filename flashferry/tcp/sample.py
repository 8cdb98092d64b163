"""Samples of TCP_INFO taken during a transfer, stored thinned, and the intervals between them, for a verdict.

The kernel's counters are cumulative, so an interval is the difference of two samples, and leaving out samples in
between doubles the interval but loses no bytes and no time.

Facts
-----

- TCP_INFO is 280 bytes on Linux 6.18; a `Sample` needs 108 of them, in ten pieces of the structure.
- A thousand transfers run at once in one process. 48 readings take 20 kB as raw bytes in tuples, and 6 kB packed. Most
  bytes equal those of the reading before, so zlib reduces eight readings to a third, and forty-eight to a fifth.
- A reading of an SSH channel takes four bytes more, and another four if the client is SFTP; other flows have neither.
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.tcp.tcp_info import NO_PACING_LIMIT, parse_tcp_info

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.tcp.tcp_info import TcpInfo


class ChannelReading(Struct, frozen=True, kw_only=True):
    """State of an SSH channel, read together with its socket's TCP_INFO. RFC 4254 5.2 gives a channel its own window.

    Attributes:
        waiting_bytes: Bytes queued in the channel until the peer opens its window, >= 0.
        window_bytes: Largest window that the peer opened so far, > 0; None while that is not known.
        asked_bytes: Bytes of the file that an SFTP client had requested and not acknowledged, with some SSH overhead,
            >= 0; None for protocols without read requests, such as SCP.
    """

    waiting_bytes: int
    window_bytes: int | None = None
    asked_bytes: int | None = None


class Sample(Struct, frozen=True, kw_only=True):
    """The part of a TCP_INFO reading that shows what limits a transfer.

    Counters a kernel does not have are None; see `flashferry.tcp.tcp_info` for their meaning.

    Attributes:
        at_s: Seconds since the start of the transfer.
        all_written: Whether the sender had handed its last byte to the kernel.
        sack: Whether both sides agreed on SACK; None if unknown.
        channel_waiting_bytes: As `ChannelReading.waiting_bytes`; None without a channel.
        asked_bytes: As `ChannelReading.asked_bytes`.
    """

    at_s: float
    rtt_us: int
    snd_mss_bytes: int
    snd_cwnd_segments: int
    unacked_segments: int
    bytes_acked: int
    min_rtt_us: int | None = None
    bytes_sent: int | None = None
    bytes_retrans: int | None = None
    notsent_bytes: int | None = None
    snd_wnd_bytes: int | None = None
    busy_time_us: int | None = None
    rwnd_limited_us: int | None = None
    sndbuf_limited_us: int | None = None
    delivery_rate_bytes_per_s: int | None = None
    pacing_rate_bytes_per_s: int | None = None
    max_pacing_rate_bytes_per_s: int | None = None
    app_limited: bool = False
    probes: int = 0
    all_written: bool = False
    sack: bool | None = None
    channel_waiting_bytes: int | None = None
    asked_bytes: int | None = None

    @classmethod
    def from_info(
        cls,
        at_s: float,
        info: TcpInfo,
        *,
        all_written: bool = False,
        channel_waiting_bytes: int | None = None,
        asked_bytes: int | None = None,
    ) -> Sample:
        """Make a sample of a TCP_INFO reading taken `at_s` seconds after the start of the transfer."""
        limit = info.max_pacing_rate_bytes_per_s
        return cls(
            at_s=at_s,
            rtt_us=info.rtt_us,
            snd_mss_bytes=info.snd_mss_bytes,
            snd_cwnd_segments=info.snd_cwnd_segments,
            unacked_segments=info.unacked_segments,
            bytes_acked=info.bytes_acked or 0,
            min_rtt_us=info.min_rtt_us if info.min_rtt_s is not None else None,
            bytes_sent=info.bytes_sent,
            bytes_retrans=info.bytes_retrans,
            notsent_bytes=info.notsent_bytes,
            snd_wnd_bytes=info.snd_wnd_bytes,
            busy_time_us=info.busy_time_us,
            rwnd_limited_us=info.rwnd_limited_us,
            sndbuf_limited_us=info.sndbuf_limited_us,
            delivery_rate_bytes_per_s=info.delivery_rate_bytes_per_s,
            pacing_rate_bytes_per_s=info.pacing_rate_bytes_per_s,
            max_pacing_rate_bytes_per_s=None if limit == NO_PACING_LIMIT else limit,
            app_limited=info.app_limited,
            probes=info.probes,
            all_written=all_written,
            sack=info.sack,
            channel_waiting_bytes=channel_waiting_bytes,
            asked_bytes=asked_bytes,
        )

    @property
    def in_flight_bytes(self) -> int:
        """Bytes sent and not yet acknowledged, in whole segments."""
        return self.unacked_segments * self.snd_mss_bytes


class Interval(Struct, frozen=True, kw_only=True):
    """What happened between two samples.

    Attributes:
        duration_s: Length, > 0.
        end: The later sample; values such as window and RTT are taken from it.
        rate_bytes_per_s: Bytes acknowledged per second.
        busy_share: Part of the time with data unacknowledged or unsent, 0 to 1; None if the kernel does not report it.
        rwnd_share: Part of the busy time in which the receive window limited the sender, 0 to 1, or None.
        sndbuf_share: Part of the busy time in which the send buffer limited it, 0 to 1, or None.
        retrans_bytes: Bytes retransmitted.
        sent_bytes: Bytes sent, retransmissions included.
    """

    duration_s: float
    end: Sample
    rate_bytes_per_s: float
    busy_share: float | None
    rwnd_share: float | None
    sndbuf_share: float | None
    retrans_bytes: int
    sent_bytes: int

    @property
    def usable_window_bytes(self) -> int | None:
        """Receive window rounded down to whole segments; None if the window is unknown.

        A window of 4128 bytes takes two segments of 1460; Linux waits for room rather than send a small one
        (silly window avoidance, RFC 9293 3.8.6.2.1), so only 2920 bytes of it are ever in flight.
        """
        window = self.end.snd_wnd_bytes
        mss = self.end.snd_mss_bytes
        if window is None or mss <= 0:
            return window
        return window // mss * mss if window >= mss else window

    @property
    def mean_in_flight_bytes(self) -> float:
        """Average bytes in flight by Little's law: rate times round-trip time."""
        return self.rate_bytes_per_s * self.end.rtt_us / 1e6


def intervals(samples: Sequence[Sample]) -> tuple[Interval, ...]:
    """Return the intervals between neighbouring samples, without those of no length and without the tail.

    The tail is the time after the sender wrote its last byte and the kernel sent it: the end of the file limits the
    rate there, and not the path.
    """
    return tuple(
        _interval(earlier, later)
        for earlier, later in pairwise(samples)
        if later.at_s > earlier.at_s and not _is_tail(earlier)
    )


def _is_tail(earlier: Sample) -> bool:
    return earlier.all_written and not earlier.notsent_bytes


def _interval(earlier: Sample, later: Sample) -> Interval:
    duration_s = later.at_s - earlier.at_s
    busy_us = _difference(earlier.busy_time_us, later.busy_time_us)
    return Interval(
        duration_s=duration_s,
        end=later,
        rate_bytes_per_s=(later.bytes_acked - earlier.bytes_acked) / duration_s,
        busy_share=None if busy_us is None else min(1.0, busy_us / 1e6 / duration_s),
        rwnd_share=_share(_difference(earlier.rwnd_limited_us, later.rwnd_limited_us), busy_us),
        sndbuf_share=_share(_difference(earlier.sndbuf_limited_us, later.sndbuf_limited_us), busy_us),
        retrans_bytes=_difference(earlier.bytes_retrans, later.bytes_retrans) or 0,
        sent_bytes=_difference(earlier.bytes_sent, later.bytes_sent) or 0,
    )


def _difference(earlier: int | None, later: int | None) -> int | None:
    return None if earlier is None or later is None else later - earlier


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else min(1.0, part / whole)


MOST_READINGS = 48
"""Readings kept per flow: more than enough to see which cause limited it for how long."""

# Byte ranges of struct tcp_info that a sample needs: state to flags, snd_mss, unacked, rtt, snd_cwnd, pacing rates and
# bytes_acked, notsent and min_rtt, delivery_rate to sndbuf_limited, bytes_sent and bytes_retrans, snd_wnd.
_PIECES = (
    (0, 8),
    (16, 20),
    (24, 28),
    (68, 72),
    (80, 84),
    (104, 128),
    (144, 152),
    (160, 192),
    (200, 216),
    (228, 232),
)
_HEAD = struct.Struct("=d?")
_HEAD_WITH_CHANNEL = struct.Struct("=d?I")
_HEAD_WITH_REQUESTS = struct.Struct("=d?II")
_MOST_BYTES = 2**32 - 1
_BLOCK = 8
"""Readings after which all are compressed together; until then the newest stay as they are."""
_WINDOW_BITS, _MEMORY_LEVEL = -10, 1
"""Settings with which zlib needs a few kB of working memory; with its defaults each call takes a quarter of a MB."""


class SampleSeries:
    """TCP_INFO readings of one flow.

    Args:
        at_s: Time of the first reading, seconds from any origin.
        raw_info: The first reading, as the kernel returned it; later ones must have the same length.
        channel: State of the SSH channel at that time. Fields that are None here are not kept of later readings.
    """

    __slots__ = ("_compressed", "_count", "_head", "_length_bytes", "_packed", "_seen", "_size_bytes", "_stride")

    def __init__(self, at_s: float, raw_info: bytes, channel: ChannelReading | None = None) -> None:
        self._length_bytes = len(raw_info)
        self._head = _head_for(channel)
        self._packed = self._pack(at_s, raw_info, channel, all_written=False)
        self._compressed = b""
        self._count = 1
        self._size_bytes = len(self._packed)
        self._stride = 1
        self._seen = 0

    def __len__(self) -> int:
        return self._count

    def add(self, at_s: float, raw_info: bytes, channel: ChannelReading | None = None, *, all_written: bool) -> None:
        """Add a periodic reading; once the series was thinned, only every 2nd, 4th, ... reading is kept."""
        self._seen += 1
        if self._seen % self._stride == 0:
            self.add_last(at_s, raw_info, channel, all_written=all_written)
        if len(self) > MOST_READINGS:
            self._thin()

    def add_last(
        self, at_s: float, raw_info: bytes, channel: ChannelReading | None = None, *, all_written: bool
    ) -> None:
        """Add the last reading of a flow, which is always kept; one of another length than the first is ignored."""
        if len(raw_info) == self._length_bytes:
            self._count += 1
            self._packed += self._pack(at_s, raw_info, channel, all_written=all_written)
            if len(self._packed) >= _BLOCK * self._size_bytes:
                self._compress(self._unpacked())

    def samples(self, origin_s: float, most: int | None = None) -> tuple[Sample, ...]:
        """Return the readings kept, as samples.

        Args:
            origin_s: Start of the transfer on the clock of the readings; an earlier reading gets time 0.
            most: Return about so many, evenly spread, the last included (unpacking one takes 0.1 ms); None: all.
        """
        step = -(-len(self) // most) if most else 1
        return tuple(self._sample(packed, origin_s) for packed in self._each()[(len(self) - 1) % step :: step])

    def _thin(self) -> None:
        kept = self._each()[::2]
        self._count, self._stride = len(kept), 2 * self._stride
        self._compress(b"".join(kept))

    def _compress(self, packed: bytes) -> None:
        """Store all readings, ordered by byte position: the first byte of each, then the second of each, ..."""
        squeeze = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
        turned = b"".join(packed[place :: self._size_bytes] for place in range(self._size_bytes))
        self._compressed, self._packed = squeeze.compress(turned) + squeeze.flush(), b""

    def _unpacked(self) -> bytes:
        if not self._compressed:
            return self._packed
        count = self._count - len(self._packed) // self._size_bytes
        turned = zlib.decompress(self._compressed, _WINDOW_BITS, count * self._size_bytes)
        return b"".join(turned[place::count] for place in range(count)) + self._packed

    def _each(self) -> list[bytes]:
        size, packed = self._size_bytes, self._unpacked()
        return [packed[start : start + size] for start in range(0, len(packed), size)]

    def _sample(self, packed: bytes, origin_s: float) -> Sample:
        at_s, all_written, *of_channel = self._head.unpack_from(packed)
        raw = bytearray(self._length_bytes)
        place = self._head.size
        for start, end in _PIECES:
            end = min(end, self._length_bytes)
            if end > start:
                raw[start:end] = packed[place : place + end - start]
                place += end - start
        return Sample.from_info(
            max(0.0, at_s - origin_s),
            parse_tcp_info(bytes(raw)),
            all_written=all_written,
            channel_waiting_bytes=of_channel[0] if of_channel else None,
            asked_bytes=of_channel[1] if len(of_channel) > 1 else None,
        )

    def _pack(self, at_s: float, raw_info: bytes, channel: ChannelReading | None, *, all_written: bool) -> bytes:
        # At the end of a transfer the channel may be closed already: it holds no bytes and no requests then.
        shown = (channel.waiting_bytes, channel.asked_bytes or 0) if channel is not None else (0, 0)
        kept = shown[: _IN_HEAD[self._head]]
        head = self._head.pack(at_s, all_written, *(min(size, _MOST_BYTES) for size in kept))
        return head + b"".join([raw_info[start:end] for start, end in _PIECES])


_IN_HEAD = {_HEAD: 0, _HEAD_WITH_CHANNEL: 1, _HEAD_WITH_REQUESTS: 2}
"""Numbers of the channel in each form of head."""


def _head_for(channel: ChannelReading | None) -> struct.Struct:
    if channel is None:
        return _HEAD
    return _HEAD_WITH_CHANNEL if channel.asked_bytes is None else _HEAD_WITH_REQUESTS

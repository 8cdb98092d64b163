"""Compact storage of one flow's TCP_INFO readings, thinned so that an hour takes no more memory than a minute.

Facts
-----

- TCP_INFO is 280 bytes on Linux 6.18; a `Sample` needs 108 of them, in ten pieces of the structure.
- A thousand transfers run at once in one process. 48 readings take 20 kB as raw bytes in tuples, and 6 kB packed. Most
  bytes equal those of the reading before, so zlib reduces eight readings to a third, and forty-eight to a fifth.
- A reading of an SSH channel takes four bytes more, and another four if the client is SFTP; other flows have neither.
- The counters are cumulative: leaving out every second reading doubles the interval and loses nothing else.
"""

import struct
import zlib

from flashferry.tcp.sample import ChannelReading, Sample
from flashferry.tcp.tcp_info import parse_tcp_info

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

"""The readings of one flow in little room, thinned so that an hour takes no more than a minute.

Facts
-----

- TCP_INFO is 280 bytes on Linux 6.18; a `Sample` is made of 108 of them, in ten pieces of the structure.
- A thousand transfers run at once in one process. As raw bytes in tuples 48 readings take 20 kB, packed 6 kB. Most of
  their bytes are those of the reading before: by zlib eight of them take a third of that or less.
- An SSH channel has four bytes more in each reading, and one through which a client asks for pieces another four; a
  flow without one has none of them.
- The counters are cumulative: leaving out every second reading doubles the interval and loses nothing else.
"""

import struct
import zlib

from flashferry.tcp.info import parse_tcp_info
from flashferry.tcp.sample import ChannelReading, Sample

MOST_READINGS = 48
"""More than enough to see which cause held how long."""

# What a sample needs of struct tcp_info, by offset: state to flags, snd_mss, unacked, rtt, snd_cwnd, pacing rates and
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
"""So many readings are put into less room together."""
_WINDOW_BITS, _MEMORY_LEVEL = -10, 1
"""What zlib takes while it works, a few kB: its defaults take a quarter of a megabyte for each call."""


class Readings:
    """Readings of TCP_INFO of one flow.

    Args:
        at_s: Time of the first, seconds from any origin.
        raw_info: The first, as the kernel returned it; later ones have the same length.
        channel: What the SSH channel showed at that time; what it has not, later ones have not either.
    """

    __slots__ = ("_blocks", "_head", "_length_bytes", "_packed", "_seen", "_size_bytes", "_stride")

    def __init__(self, at_s: float, raw_info: bytes, channel: ChannelReading | None = None) -> None:
        self._length_bytes = len(raw_info)
        self._head = _head_for(channel)
        self._packed = self._pack(at_s, raw_info, channel, all_written=False)
        self._blocks: tuple[bytes, ...] = ()
        self._size_bytes = len(self._packed)
        self._stride = 1
        self._seen = 0

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK + len(self._packed) // self._size_bytes

    def take(self, at_s: float, raw_info: bytes, channel: ChannelReading | None = None, *, all_written: bool) -> None:
        """Take a regular reading in, if it is its turn."""
        self._seen += 1
        if self._seen % self._stride == 0:
            self.close(at_s, raw_info, channel, all_written=all_written)
        if len(self) > MOST_READINGS:
            self._thin()

    def close(self, at_s: float, raw_info: bytes, channel: ChannelReading | None = None, *, all_written: bool) -> None:
        """Take the last reading in, whosever turn it is."""
        if len(raw_info) == self._length_bytes:
            self._keep(self._packed + self._pack(at_s, raw_info, channel, all_written=all_written))

    def samples(self, origin_s: float, most: int | None = None) -> tuple[Sample, ...]:
        """Return what is kept as samples, their time counted from an origin; what came before it is at 0.

        Args:
            origin_s: The origin, on the clock of the readings.
            most: Return about so many, evenly spread, the last among them, for unpacking one takes 0.1 ms; None: all.
        """
        step = -(-len(self) // most) if most else 1
        return tuple(self._sample(packed, origin_s) for packed in self._each()[(len(self) - 1) % step :: step])

    def _thin(self) -> None:
        kept = b"".join(self._each()[::2])
        self._blocks, self._packed = (), b""
        self._keep(kept)
        self._stride *= 2

    def _keep(self, packed: bytes) -> None:
        """Keep what does not fill a block as it is, and the rest in blocks."""
        block_bytes = _BLOCK * self._size_bytes
        whole = len(packed) // block_bytes * block_bytes
        full = (packed[start : start + block_bytes] for start in range(0, whole, block_bytes))
        self._blocks += tuple(_smaller(block, self._size_bytes) for block in full)
        self._packed = packed[whole:]

    def _each(self) -> list[bytes]:
        size = self._size_bytes
        packed = b"".join(_whole(block, size) for block in self._blocks) + self._packed
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
        # A channel that is gone, as at the end of a transfer, holds no bytes and no requests.
        shown = (channel.waiting_bytes, channel.asked_bytes or 0) if channel is not None else (0, 0)
        kept = shown[: _IN_HEAD[self._head]]
        head = self._head.pack(at_s, all_written, *(min(size, _MOST_BYTES) for size in kept))
        return head + b"".join([raw_info[start:end] for start, end in _PIECES])


_IN_HEAD = {_HEAD: 0, _HEAD_WITH_CHANNEL: 1, _HEAD_WITH_REQUESTS: 2}
"""How many figures of a channel each has."""


def _head_for(channel: ChannelReading | None) -> struct.Struct:
    if channel is None:
        return _HEAD
    return _HEAD_WITH_CHANNEL if channel.asked_bytes is None else _HEAD_WITH_REQUESTS


def _smaller(block: bytes, size_bytes: int) -> bytes:
    """Return a block of readings in less room: first the first byte of each, then the second of each, and so on."""
    squeeze = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return squeeze.compress(b"".join(block[place::size_bytes] for place in range(size_bytes))) + squeeze.flush()


def _whole(smaller: bytes, size_bytes: int) -> bytes:
    turned = zlib.decompress(smaller, _WINDOW_BITS, _BLOCK * size_bytes)
    return b"".join(turned[place::_BLOCK] for place in range(_BLOCK))

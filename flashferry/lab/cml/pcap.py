"""Write and read files of captured packets: libpcap 2.4 with microseconds, link type Ethernet."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

_HEADER = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC = 0xA1B2C3D4
_SNAP = 65535
_ETHERNET = 1
_MICROSECONDS = 1_000_000

ARP_REQUEST = (
    b"\xff" * 6
    + bytes.fromhex("525400000001")
    + bytes.fromhex("08060001080006040001")
    + bytes.fromhex("525400000001c6120001")
    + bytes.fromhex("000000000000c6120002")
).ljust(60, b"\0")
"""Who has 198.18.0.2?"""


def pcap_of(frames: Iterable[tuple[float, bytes]]) -> bytes:
    """Return a capture of frames, each with its time in seconds."""
    parts = [_HEADER.pack(_MAGIC, 2, 4, 0, 0, _SNAP, _ETHERNET)]
    for at, frame in frames:
        parts.append(_RECORD.pack(int(at), int(at % 1 * _MICROSECONDS), len(frame), len(frame)) + frame)
    return b"".join(parts)


def frames_of(capture: bytes) -> Iterator[tuple[float, bytes]]:
    """Yield the frames of a capture; what is cut off at its end is left out."""
    place = _HEADER.size
    while place + _RECORD.size <= len(capture):
        second, fraction, size, _ = _RECORD.unpack_from(capture, place)
        place += _RECORD.size
        if place + size <= len(capture):
            yield second + fraction / _MICROSECONDS, capture[place : place + size]
        place += size

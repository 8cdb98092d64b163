"""A SYN as IOS sends it: its window to the byte, its options in its own order, and what a segment carries there.

The devices' TCP is the host's. Linux rounds the window of a SYN down to whole segments (2920 where 4128 is configured),
and orders options in its own way; no socket option changes either. So a stand-in marks its connections with an IP
option of an experiment (RFC 4727) that names the window, and the link rewrites the SYN and removes the mark.

Facts: nmap-os-db, fingerprints of Catalyst 2950, 2960, 3550 and 6500 (IOS 12.1 to 12.2): window 0x1020, TTL 255, the
options ``M5A8SNNT11LL``: segment size, SACK, two NOPs, timestamps, two ends. p0f: ``4128:255:0:44:M*``, so without SACK
and timestamps the segment size alone. No fingerprint has a window scale: that it is second, with a NOP, is assumed.
"""

from __future__ import annotations

import struct

MARK_OPTION = 94
"""The IP option that carries the window, one of those for experiments (RFC 4727 3.1)."""
_PLAIN_HEADER = 0x45
_TCP, _SYN, _ACK = 6, 0x02, 0x10
_HEADER_BYTES = 20
_MSS, _SCALE, _SACK, _TIMESTAMPS = 2, 3, 4, 8
_ORDER = ((_MSS, b""), (_SCALE, b"\1"), (_SACK, b"\1\1"), (_TIMESTAMPS, b"\0\0"))
"""The options in IOS's order, each with what pads it to four bytes."""


def mark(window_bytes: int) -> bytes:
    """Return the IP option that asks the link for a SYN with this window; more than 65535 bytes do not fit a SYN."""
    return struct.pack("!BBH", MARK_OPTION, 4, min(window_bytes, 0xFFFF))


def concerns(packet: bytes) -> bool:
    """Return whether a packet may be a SYN or carries a mark; cheap, for it is asked of every packet."""
    return len(packet) > 33 and (packet[0] != _PLAIN_HEADER or packet[33] & _SYN != 0)


def as_ios_sends(packet: bytes) -> bytes:
    """Return a device's packet without its mark; a SYN has IOS's window and options, a SYN with an ACK the options."""
    header = (packet[0] & 15) * 4
    if packet[0] >> 4 != 4 or packet[9] != _TCP or len(packet) < header + _HEADER_BYTES:
        return packet
    window = _marked_window(packet[_HEADER_BYTES:header])
    if header != _HEADER_BYTES and window is None:
        return packet
    segment = bytearray(packet[header:])
    if segment[13] & _SYN:
        offset = (segment[12] >> 4) * 4
        options = _in_order(bytes(segment[_HEADER_BYTES:offset]))
        segment[_HEADER_BYTES:offset] = options
        segment[12] = (_HEADER_BYTES + len(options)) << 2
        if window is not None and not segment[13] & _ACK:
            segment[14:16] = window
    return _packet(packet[:_HEADER_BYTES], segment)


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def _marked_window(options: bytes) -> bytes | None:
    return options[2:4] if options[:1] == bytes([MARK_OPTION]) else None


def _in_order(raw: bytes) -> bytes:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(raw) and raw[at]:
        length = 1 if raw[at] == 1 else max(2, raw[at + 1])
        found[raw[at]] = raw[at : at + length]
        at += length
    return b"".join(found[kind] + padding for kind, padding in _ORDER if kind in found)


def _packet(old: bytes, segment: bytearray) -> bytes:
    """Put a segment behind an IP header without options, both with their checksums."""
    header = bytearray(old)
    header[0] = _PLAIN_HEADER
    header[2:4] = struct.pack("!H", _HEADER_BYTES + len(segment))
    header[10:12] = bytes(2)
    header[10:12] = struct.pack("!H", checksum(bytes(header)))
    segment[16:18] = bytes(2)
    pseudo = bytes(header[12:20]) + struct.pack("!BBH", 0, _TCP, len(segment))
    segment[16:18] = struct.pack("!H", checksum(pseudo + bytes(segment)))
    return bytes(header + segment)

"""Parser of a client's SYN, as TCP_SAVED_SYN returns it: which TCP options a router offered.

Facts
-----

- TCP_SAVED_SYN (Linux 4.2, tcp(7)) returns the IP and TCP headers of the SYN as they came from the wire.
- The window of a SYN is never scaled (RFC 7323 2.2), and a peer may advertise more later: confirm it with the largest
  `snd_wnd` of the transfer.
- A missing MSS option means 536 (RFC 9293 3.7.1); a window scale beyond 14 is used as 14 (RFC 7323 2.3).
- Options: 0 end, 1 no-op, 2 MSS, 3 window scale, 4 SACK permitted, 8 timestamps; all but the first two carry a length.
"""

import struct

from msgspec import Struct

_IPV4_MIN_HEADER_BYTES = 20
_IPV6_HEADER_BYTES = 40
_TCP_MIN_HEADER_BYTES = 20
_PROTOCOL_TCP = 6
# Headers that may stand between IPv6 and TCP and share the "next header, length in 8-octet units" form (RFC 8200 4.1).
_IPV6_SKIPPABLE = frozenset({0, 43, 60})
_FLAG_SYN = 0x02
_MAX_WINDOW_SCALE = 14


class SynOptions(Struct, frozen=True, kw_only=True):
    """What a client's SYN offered.

    Attributes:
        ip_version: 4 or 6.
        mss_bytes: Maximum segment size option; None if absent (536 applies then).
        window_bytes: The window field, never scaled, 0 to 65535.
        window_scale: Shift of later windows, 0 to 14; None if scaling was not offered.
        sack_permitted: Whether SACK was offered.
        timestamps: Whether timestamps were offered.
    """

    ip_version: int
    mss_bytes: int | None
    window_bytes: int
    window_scale: int | None
    sack_permitted: bool
    timestamps: bool

    @property
    def largest_window_bytes(self) -> int:
        """The largest window this connection can ever advertise: 65535 shifted by the scale."""
        return 65535 << (self.window_scale or 0)

    def describe(self) -> str:
        """Return the options in a line, such as `window 4128, MSS 1460, no scaling, no SACK, no timestamps`."""
        return ", ".join(
            (
                f"window {self.window_bytes}",
                f"MSS {self.mss_bytes}" if self.mss_bytes is not None else "no MSS",
                f"scale {self.window_scale}" if self.window_scale is not None else "no scaling",
                "SACK" if self.sack_permitted else "no SACK",
                "timestamps" if self.timestamps else "no timestamps",
            )
        )


def parse_saved_syn(raw: bytes) -> SynOptions:
    """Parse a SYN from its IP and TCP header bytes. Options after a malformed one are ignored, as a TCP does.

    Args:
        raw: The bytes TCP_SAVED_SYN returned.

    Raises:
        ValueError: The bytes are no complete IPv4 or IPv6 header followed by the TCP header of a SYN.
    """
    version = raw[0] >> 4 if raw else 0
    tcp = raw[_tcp_offset(raw, version) :]
    if len(tcp) < _TCP_MIN_HEADER_BYTES:
        raise ValueError(f"saved SYN: expected a TCP header of 20 bytes, found {len(tcp)}")
    header_bytes = (tcp[12] >> 4) * 4
    if not _TCP_MIN_HEADER_BYTES <= header_bytes <= len(tcp):
        raise ValueError(f"saved SYN: TCP header says {header_bytes} bytes, found {len(tcp)}")
    if not tcp[13] & _FLAG_SYN:
        raise ValueError(f"saved SYN: expected the SYN flag, found flags 0x{tcp[13]:02x}")
    options = _options(tcp[_TCP_MIN_HEADER_BYTES:header_bytes])
    return SynOptions(
        ip_version=version,
        mss_bytes=_number(options.get(2), 2),
        window_bytes=struct.unpack_from("!H", tcp, 14)[0],
        window_scale=_window_scale(options.get(3)),
        sack_permitted=options.get(4) == b"",
        timestamps=len(options.get(8, b"")) == 8,
    )


def _tcp_offset(raw: bytes, version: int) -> int:
    if version == 4:
        return _tcp_offset_ipv4(raw)
    if version == 6:
        return _tcp_offset_ipv6(raw)
    raise ValueError(f"saved SYN: expected IP version 4 or 6, found {version} in {len(raw)} bytes")


def _tcp_offset_ipv4(raw: bytes) -> int:
    header_bytes = (raw[0] & 0x0F) * 4
    if header_bytes < _IPV4_MIN_HEADER_BYTES or len(raw) < header_bytes:
        raise ValueError(f"saved SYN: IPv4 header says {header_bytes} bytes, found {len(raw)}")
    if raw[9] != _PROTOCOL_TCP:
        raise ValueError(f"saved SYN: expected protocol 6, found {raw[9]}")
    return header_bytes


def _tcp_offset_ipv6(raw: bytes) -> int:
    if len(raw) < _IPV6_HEADER_BYTES:
        raise ValueError(f"saved SYN: expected an IPv6 header of 40 bytes, found {len(raw)}")
    next_header, offset = raw[6], _IPV6_HEADER_BYTES
    while next_header in _IPV6_SKIPPABLE and len(raw) >= offset + 2:
        next_header, offset = raw[offset], offset + (raw[offset + 1] + 1) * 8
    if next_header != _PROTOCOL_TCP:
        raise ValueError(f"saved SYN: expected TCP after the IPv6 header, found header {next_header}")
    return offset


def _options(raw: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    position = 0
    while position < len(raw) and raw[position] != 0:
        if raw[position] == 1:
            position += 1
            continue
        length = raw[position + 1] if position + 1 < len(raw) else 0
        if length < 2 or position + length > len(raw):
            break
        found.setdefault(raw[position], raw[position + 2 : position + length])
        position += length
    return found


def _number(value: bytes | None, length: int) -> int | None:
    return int.from_bytes(value, "big") if value is not None and len(value) == length else None


def _window_scale(value: bytes | None) -> int | None:
    scale = _number(value, 1)
    return None if scale is None else min(scale, _MAX_WINDOW_SCALE)

"""A SYN on the link is that of IOS: window to the byte, options in its order, checksums right, and no mark left."""

import socket
import struct

import pytest

from flashferry.lab.syn import as_ios_sends, checksum, concerns, mark

MSS, SCALE, SACK, STAMPS = b"\2\4\5\xb4", b"\3\3\7", b"\4\2", b"\x08\x0a" + bytes(8)
LINUX = MSS + SACK + STAMPS + b"\1" + SCALE
SYN, SYN_ACK, ACK = 0x02, 0x12, 0x10


def packet(flags: int, options: bytes = b"", *, window: int = 2920, marked: bytes = b"", payload: bytes = b"") -> bytes:
    """A TCP packet as the host sends it; its checksums are left out."""
    head = struct.pack("!HHIIBBHHH", 1024, 21, 7, 0, (20 + len(options)) << 2, flags, window, 0, 0)
    segment = head + options + payload
    size, first = 20 + len(marked) + len(segment), 0x45 + len(marked) // 4
    addresses = socket.inet_aton("198.18.1.11") + socket.inet_aton("198.18.0.1")
    return struct.pack("!BBHHHBBH", first, 0, size, 9, 0, 255, 6, 0) + addresses + marked + segment


def window_of(sent: bytes) -> int:
    return int(struct.unpack("!H", sent[34:36])[0])


@pytest.mark.parametrize(
    ("offered", "sent"),
    [
        (MSS, MSS),
        (MSS + b"\1\1" + SACK, MSS + SACK + b"\1\1"),
        (MSS + b"\1" + SCALE, MSS + SCALE + b"\1"),
        (MSS + SACK + STAMPS, MSS + SACK + b"\1\1" + STAMPS + b"\0\0"),
        (LINUX, MSS + SCALE + b"\1" + SACK + b"\1\1" + STAMPS + b"\0\0"),
    ],
)
def test_options_stand_in_the_order_of_the_fingerprints(offered: bytes, sent: bytes) -> None:
    """`M5A8SNNT11LL` of nmap-os-db, each padded to four bytes; what was not offered is not added."""
    for flags in (SYN, SYN_ACK):
        changed = as_ios_sends(packet(flags, offered))
        assert changed[40:] == sent
        assert (changed[32] >> 4) * 4 == 20 + len(sent)


@pytest.mark.parametrize(("window", "sent"), [(4128, 4128), (16384, 16384), (65535, 65535), (2_500_000, 65535)])
def test_a_marked_syn_has_the_configured_window(window: int, sent: int) -> None:
    """Linux rounds to segments; the mark says what IOS would send, and is gone behind the link."""
    changed = as_ios_sends(packet(SYN, MSS, marked=mark(window)))
    assert (changed[0], window_of(changed), len(changed)) == (0x45, sent, 44)
    assert window_of(as_ios_sends(packet(SYN_ACK, MSS, marked=mark(window)))) == 2920


def test_the_checksums_are_those_of_what_is_sent() -> None:
    """A receiver sums header, pseudo header and segment to zero (RFC 1071); length and addresses fit."""
    changed = as_ios_sends(packet(SYN, LINUX, marked=mark(4128)))
    assert struct.unpack("!H", changed[2:4])[0] == len(changed)
    assert checksum(changed[:20]) == 0
    assert checksum(changed[12:20] + struct.pack("!BBH", 0, 6, len(changed) - 20) + changed[20:]) == 0


def test_the_mark_leaves_other_packets_too_and_nothing_else_changes() -> None:
    """The ACK that ends the handshake carries it; data, short packets and other protocols pass as they are."""
    marked = as_ios_sends(packet(ACK, marked=mark(4128), payload=b"USER x"))
    assert marked[40:] == b"USER x"
    assert window_of(marked) == 2920
    plain = packet(ACK, payload=b"x")
    assert not concerns(plain)
    assert not concerns(b"up")
    echo = b"\x45" + plain[1:9] + b"\1" + plain[10:]
    other = b"\x46" + plain[1:20] + b"\x94\4\0\0" + plain[20:]
    for untouched in (echo, other):
        assert as_ios_sends(untouched) == untouched

"""The SYN audit on bytes as they came from wires, and on bytes no TCP should send."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.tcp.syn import SynOptions, parse_saved_syn

_MSS_1460 = bytes.fromhex("020405b4")
_FULL = bytes.fromhex("020405b40402080a0000000100000000" + "01030307")


def _tcp(window: int, options: bytes, flags: int = 0x02) -> bytes:
    padded = options + bytes(-len(options) % 4)
    return struct.pack("!HHIIBBHHH", 11000, 21, 1, 0, (20 + len(padded)) // 4 << 4, flags, window, 0, 0) + padded


def _ipv4(tcp: bytes, options: bytes = b"", protocol: int = 6) -> bytes:
    header = struct.pack(
        "!BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(tcp), 0, 0, 255, protocol, 0, bytes(4), bytes(4)
    )
    return header + options + tcp


def _ipv6(tcp: bytes, next_header: int = 6, extensions: bytes = b"") -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(tcp), next_header, 64) + bytes(32) + extensions + tcp


def test_an_untuned_router_offers_nothing_but_its_mss() -> None:
    """A classic IOS SYN: window 4128, MSS 1460, no scaling, no SACK, no timestamps, and it reads so."""
    syn = parse_saved_syn(_ipv4(_tcp(4128, _MSS_1460)))
    assert syn == SynOptions(
        ip_version=4, mss_bytes=1460, window_bytes=4128, window_scale=None, sack_permitted=False, timestamps=False
    )
    assert syn.describe() == "window 4128, MSS 1460, no scaling, no SACK, no timestamps"
    assert syn.largest_window_bytes == 65535


@pytest.mark.parametrize("wrap", [_ipv4, _ipv6], ids=["IPv4", "IPv6"])
def test_a_tuned_router_offers_all(wrap: object) -> None:
    """Scaling, SACK and timestamps are found behind each other over IPv4 and IPv6."""
    assert callable(wrap)
    syn = parse_saved_syn(wrap(_tcp(65535, _FULL)))
    assert syn.describe() == "window 65535, MSS 1460, scale 7, SACK, timestamps"
    assert syn.ip_version == (4 if wrap is _ipv4 else 6)
    assert syn.largest_window_bytes == 65535 * 128


def test_ip_options_and_extension_headers_are_stepped_over() -> None:
    """What stands between the IP and the TCP header does not shift the reading."""
    assert parse_saved_syn(_ipv4(_tcp(4128, _MSS_1460), options=bytes(8))).window_bytes == 4128
    hop_by_hop = bytes([6, 0]) + bytes(6)
    assert parse_saved_syn(_ipv6(_tcp(4128, _MSS_1460), 0, hop_by_hop)).mss_bytes == 1460


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(b"", "window 8192, no MSS, no scaling, no SACK, no timestamps", id="none"),
        pytest.param(b"\x00" + _FULL, "window 8192, no MSS, no scaling, no SACK, no timestamps", id="behind-the-end"),
        pytest.param(
            _MSS_1460 + b"\x03\x00", "window 8192, MSS 1460, no scaling, no SACK, no timestamps", id="length-0"
        ),
        pytest.param(
            _MSS_1460 + b"\x03\x28", "window 8192, MSS 1460, no scaling, no SACK, no timestamps", id="too-long"
        ),
        pytest.param(
            _MSS_1460 + b"\x01\x01\x01\x03", "window 8192, MSS 1460, no scaling, no SACK, no timestamps", id="cut"
        ),
        pytest.param(b"\x02\x03\x05\x01", "window 8192, no MSS, no scaling, no SACK, no timestamps", id="short-mss"),
        pytest.param(b"\x01\x03\x03\x0f", "window 8192, no MSS, scale 14, no SACK, no timestamps", id="scale-15-is-14"),
        pytest.param(
            b"\xfd\x04\x00\x00\x04\x02", "window 8192, no MSS, no scaling, SACK, no timestamps", id="unknown-kind"
        ),
    ],
)
def test_odd_option_lists_are_read_as_far_as_they_go(options: bytes, expected: str) -> None:
    """A malformed option ends the list; what came before counts."""
    assert parse_saved_syn(_ipv4(_tcp(8192, options))).describe() == expected


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b"", "version 4 or 6, found 0", id="empty"),
        pytest.param(bytes(60), "version 4 or 6, found 0", id="zeros"),
        pytest.param(_ipv4(b""), "TCP header of 20 bytes, found 0", id="no-tcp"),
        pytest.param(b"\x41" + bytes(30), "IPv4 header says 4 bytes", id="short-ihl"),
        pytest.param(_ipv4(_tcp(1, b""), protocol=17), "protocol 6, found 17", id="udp"),
        pytest.param(_ipv4(_tcp(1, b"", flags=0x10)), "SYN flag, found flags 0x10", id="ack"),
        pytest.param(_ipv6(b"")[:39], "IPv6 header of 40 bytes, found 39", id="short-v6"),
        pytest.param(_ipv6(_tcp(1, b""), 58), "found header 58", id="icmpv6"),
        pytest.param(_ipv4(_tcp(1, _FULL))[:-8], "TCP header says 40 bytes, found 32", id="cut-tcp"),
    ],
)
def test_what_is_no_syn_is_refused(raw: bytes, message: str) -> None:
    """Bytes that are no SYN raise an error that says what was found."""
    with pytest.raises(ValueError, match=message):
        parse_saved_syn(raw)


@given(st.binary(max_size=120))
def test_no_bytes_do_worse_than_a_value_error(raw: bytes) -> None:
    """Whatever comes, the result is in range or a ValueError, never another exception."""
    try:
        syn = parse_saved_syn(raw)
    except ValueError:
        return
    assert 0 <= syn.window_bytes <= 65535
    assert syn.window_scale is None or 0 <= syn.window_scale <= 14


@given(st.binary(max_size=40))
def test_no_option_list_does_any_harm(options: bytes) -> None:
    """Random options behind a sound header are always read, and never change the window."""
    assert parse_saved_syn(_ipv4(_tcp(4128, options))).window_bytes == 4128

"""TCP_INFO by length: every field where the kernel header puts it, and None where the kernel had none."""

import struct

import pytest

from flashferry.core.values import as_dict
from flashferry.tcp.tcp_info import BASE_LENGTH_BYTES, NO_PACING_LIMIT, TcpInfo, parse_progress, parse_tcp_info

# The layout as one format, written down apart from the parser's table: linux/tcp.h of 6.18, 280 bytes.
_WHOLE = "=8B24I4Q6I4Q2I2Q6I2H9I"


def _raw() -> bytes:
    return struct.pack(
        _WHOLE, *range(1, 9), *range(101, 125), *range(2**40, 2**40 + 4), *range(201, 207), *range(301, 326)
    )


def _values(info: TcpInfo) -> list[int | None]:
    return list(as_dict(info).values())


def test_every_field_is_read_in_the_order_of_the_header() -> None:
    """A complete structure yields each of its values exactly once, in order."""
    assert struct.calcsize(_WHOLE) == 280
    # `tcpi_options` to `flags` and all words follow each other; the parser's names do too.
    assert _values(parse_tcp_info(_raw())) == list(struct.unpack(_WHOLE, _raw()))


def test_names_stand_for_the_offsets_of_the_header() -> None:
    """Values put at offsets by hand come out under the names the header gives them there."""
    raw = bytearray(280)
    for offset, code, value in ((68, "I", 100_123), (148, "I", 99_001), (120, "Q", 5_000_000_000), (228, "I", 4128)):
        struct.pack_into(f"={code}", raw, offset, value)
    struct.pack_into("=Q", raw, 176, 77)
    struct.pack_into("=H", raw, 242, 3)
    info = parse_tcp_info(bytes(raw))
    assert (info.rtt_us, info.min_rtt_us, info.bytes_acked) == (100_123, 99_001, 5_000_000_000)
    assert (info.snd_wnd_bytes, info.rwnd_limited_us, info.total_rto_recoveries) == (4128, 77, 3)
    assert info.rtt_s == pytest.approx(0.100123)


@pytest.mark.parametrize("length", range(BASE_LENGTH_BYTES, 281, 4))
def test_a_shorter_structure_gives_none_never_garbage(length: int) -> None:
    """Fields past the end are None, those before it are as in the complete structure."""
    whole, short = _values(parse_tcp_info(_raw())), _values(parse_tcp_info(_raw()[:length]))
    known = sum(value is not None for value in short)
    assert short[:known] == whole[:known]
    assert set(short[known:]) <= {None}
    assert struct.calcsize(_prefix(known)) <= length


def _prefix(count: int) -> str:
    codes = "B" * 8 + "I" * 24 + "Q" * 4 + "I" * 6 + "Q" * 4 + "I" * 2 + "Q" * 2 + "I" * 6 + "H" * 2 + "I" * 9
    return "=" + codes[:count]


def test_half_a_field_counts_as_none() -> None:
    """A structure that ends in the middle of a field does not yield half of it."""
    assert parse_tcp_info(_raw()[:150]).min_rtt_us is None
    assert parse_tcp_info(_raw()[:152]).min_rtt_us is not None


def test_a_newer_longer_structure_is_read_as_far_as_known() -> None:
    """Bytes a future kernel adds at the end change nothing."""
    assert parse_tcp_info(_raw() + b"\xff" * 100) == parse_tcp_info(_raw())


@pytest.mark.parametrize("length", [0, 1, 103])
def test_less_than_any_kernel_returns_is_refused(length: int) -> None:
    """A length no kernel returns is an error that names both lengths."""
    with pytest.raises(ValueError, match=f"at least 104 bytes, found {length}"):
        parse_tcp_info(bytes(length))


def test_options_and_scales_are_told_apart() -> None:
    """SACK, timestamps and scaling come from their bits, the peer's scale from the low nibble."""
    raw = bytearray(280)
    raw[5], raw[6], raw[7] = 2 | 4, 0xA7, 1
    info = parse_tcp_info(bytes(raw))
    assert (info.sack, info.window_scaling, info.timestamps) == (True, True, False)
    assert (info.peer_window_scale, info.app_limited) == (7, True)
    raw[5] = 1
    assert parse_tcp_info(bytes(raw)).peer_window_scale is None


def test_unmeasured_round_trips_are_none() -> None:
    """Zero and all ones are the kernel's words for `not measured`."""
    raw = bytearray(280)
    assert parse_tcp_info(bytes(raw)).rtt_s is None
    assert parse_tcp_info(bytes(raw)).min_rtt_s is None
    struct.pack_into("=I", raw, 148, 0xFFFFFFFF)
    assert parse_tcp_info(bytes(raw)).min_rtt_s is None


def test_no_pacing_limit_is_all_ones() -> None:
    """The constant is what the kernel reports for a socket nobody capped."""
    assert struct.pack("=Q", NO_PACING_LIMIT) == b"\xff" * 8


@pytest.mark.parametrize("length", [120, 124, 128, 200, 280])
def test_progress_alone_is_what_the_whole_reading_says(length: int) -> None:
    """The two fields that are read every second are those of the whole structure, and 0 where the kernel has none."""
    info = parse_tcp_info(_raw()[:length])
    assert parse_progress(_raw()[:length]) == (info.bytes_acked or 0, info.total_retrans_segments)


def test_progress_of_less_than_any_kernel_returns_is_refused() -> None:
    """As of the whole structure."""
    with pytest.raises(ValueError, match="at least 104 bytes, found 99"):
        parse_progress(bytes(99))

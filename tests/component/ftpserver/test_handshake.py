"""What SYN and SYN-ACK of our side carry, seen on the wire: code point and segment size."""

import contextlib
import ctypes
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.soak

if TYPE_CHECKING:
    from conftest import Bench

_SYN, _ACK = 0x02, 0x10
_ETHERTYPE_IP = 0x0800
_MSS_OPTION = bytes((2, 4))


_SO_ATTACH_FILTER = 26
_ONLY_SYN = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 9),  # the protocol
        (0x15, 0, 4, socket.IPPROTO_TCP),
        (0xB1, 0, 0, 0),  # over the IP header
        (0x50, 0, 0, 13),  # the TCP flags
        (0x45, 0, 1, _SYN),
        (0x06, 0, 0, 0xFFFF),  # take it
        (0x06, 0, 0, 0),  # leave it
    )
)
"""Classic BPF (linux/filter.h): else what others send on loopback meanwhile fills the buffer, and packets are lost."""


@dataclass(frozen=True)
class _Opening:
    """A SYN or SYN-ACK that our side sent."""

    source_port: int
    acknowledges: bool
    dscp: int
    mss_bytes: int


@pytest.fixture
def wire() -> Iterator[socket.socket]:
    """Every TCP packet with SYN on loopback from now on."""
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERTYPE_IP))
    except PermissionError:
        pytest.skip("needs root: packet sockets")
    program = ctypes.create_string_buffer(_ONLY_SYN)
    with tap:
        head = struct.pack("HxxxxxxP", len(_ONLY_SYN) // 8, ctypes.addressof(program))
        tap.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
        tap.bind(("lo", _ETHERTYPE_IP))
        tap.setblocking(False)
        yield tap


def _openings(tap: socket.socket) -> list[_Opening]:
    found = []
    with contextlib.suppress(BlockingIOError):
        while packet := tap.recv(2048):
            segment = packet[(packet[0] & 15) * 4 :]
            if packet[9] != socket.IPPROTO_TCP or not segment[13] & _SYN:
                continue
            options = segment[20 : (segment[12] >> 4) * 4]
            mss = options.partition(_MSS_OPTION)[2][:2]
            found.append(
                _Opening(
                    source_port=struct.unpack("!H", segment[:2])[0],
                    acknowledges=bool(segment[13] & _ACK),
                    dscp=packet[1] >> 2,
                    mss_bytes=struct.unpack("!H", mss)[0],
                )
            )
    return found


@pytest.mark.parametrize("bench", [{"profile": {"dscp": 8, "mss_bytes": 1200}}], indirect=True)
@pytest.mark.parametrize("mode", ["passive", "active"])
def test_the_handshake_carries_code_point_and_segment_size(bench: "Bench", wire: socket.socket, mode: str) -> None:
    """Control and data are marked from their first packet; the segment size of data goes with it in both modes."""
    with bench.login(bench.ticket()) as client:
        client.set_pasv(mode == "passive")
        assert bench.fetch(client) == bench.content
    marked = [each for each in _openings(wire) if each.dscp == 8]
    assert [each.acknowledges for each in marked if each.source_port == bench.server.port] == [True]
    (data,) = [each for each in marked if each.source_port != bench.server.port]
    assert (data.acknowledges, data.mss_bytes) == (mode == "passive", 1200)

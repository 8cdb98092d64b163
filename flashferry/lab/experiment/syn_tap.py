"""The SYN packets that come in at an interface of the caller's namespace: what a client offered."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct

from flashferry.tcp.syn import SynOptions, parse_saved_syn

_ETHERTYPE_IP = 0x0800
_SO_ATTACH_FILTER = 26
_SYN, _ACK = 0x02, 0x10
_LONGEST_BYTES = 2048
# Classic BPF (linux/filter.h): data would fill the buffer within a moment.
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


class SynTap:
    """Listens from its making on.

    Args:
        interface: Its name.

    Raises OSError: packet sockets need root.
    """

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETHERTYPE_IP))
        program = ctypes.create_string_buffer(_ONLY_SYN)
        head = struct.pack("HxxxxxxP", len(_ONLY_SYN) // 8, ctypes.addressof(program))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
        self._socket.bind((interface, _ETHERTYPE_IP))
        self._socket.setblocking(False)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def seen(self) -> dict[int, SynOptions]:
        """Return what came in since the last call, by the port that was called; the server's own answers are not in."""
        found: dict[int, SynOptions] = {}
        with contextlib.suppress(BlockingIOError):
            while packet := self._socket.recv(_LONGEST_BYTES):
                segment = packet[(packet[0] & 15) * 4 :]
                if segment[13] & _ACK:
                    continue
                with contextlib.suppress(ValueError):
                    found[struct.unpack_from("!H", segment, 2)[0]] = parse_saved_syn(packet)
        return found

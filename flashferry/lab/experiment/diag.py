"""TCP_INFO of sockets that are not ours: the kernel's socket monitoring (sock_diag(7)), in the caller's namespace.

Facts
-----

- A request of family AF_INET asks for sockets in the states of a mask; INET_DIAG_INFO answers with `struct tcp_info` as
  getsockopt(TCP_INFO) does, INET_DIAG_CONG with the name of the congestion control (linux/inet_diag.h).
- A netlink socket belongs to the namespace that its thread was in when it was made.
- A socket that its process has closed is still listed while its last bytes are under way.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x0001 | 0x0300
_DONE, _ERROR = 3, 2
_INFO, _CONG = 2, 4
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING (net/tcp_states.h)."""
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_MESSAGE_BYTES = 72
_ANSWER_BYTES = 1 << 18
ESTABLISHED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A TCP connection as the kernel sees it.

    Attributes:
        state: ESTABLISHED is 1; above it the sender has nothing more to write.
        local_port: Our side's.
        peer_address: The other side's.
        peer_port: The other side's.
        control: Congestion control in force.
        raw_info: `struct tcp_info`; empty where the kernel gave none.
    """

    state: int
    local_port: int
    peer_address: str
    peer_port: int
    control: str
    raw_info: bytes


class Monitor:
    """Asks the kernel for the connections of the namespace it was made in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._socket.settimeout(2.0)

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def connections(self) -> list[Connection]:
        """Return the TCP connections over IPv4 that are open or closing. Raises OSError: the kernel refused."""
        extensions = 1 << (_INFO - 1) | 1 << (_CONG - 1)
        request = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, extensions, _STATES)
        header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
        self._socket.send(header + request)
        found: list[Connection] = []
        while True:
            for kind, body in messages(self._socket.recv(_ANSWER_BYTES)):
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "sock_diag refused")
                found.append(parse(body))


def messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    """Split an answer into the kinds and bodies of its netlink messages."""
    place = 0
    while place + _HEADER.size <= len(answer):
        length, kind, *_ = _HEADER.unpack_from(answer, place)
        yield kind, answer[place + _HEADER.size : place + length]
        place += (length + 3) & ~3


def parse(body: bytes) -> Connection:
    """Read one `struct inet_diag_msg` with its attributes."""
    local_port, peer_port = struct.unpack_from("!HH", body, 4)
    found = dict(_attributes(body))
    return Connection(
        state=body[1],
        local_port=local_port,
        peer_address=socket.inet_ntoa(body[24:28]),
        peer_port=peer_port,
        control=found.get(_CONG, b"").rstrip(b"\0").decode("ascii", "replace"),
        raw_info=found.get(_INFO, b""),
    )


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    place = _MESSAGE_BYTES
    while place + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, place)
        if length < _ATTRIBUTE.size:
            return
        yield kind, body[place + _ATTRIBUTE.size : place + length]
        place += (length + 3) & ~3

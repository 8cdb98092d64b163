"""TCP_INFO of sockets that are not ours: the kernel's socket monitoring (sock_diag(7)), in the caller's namespace.

Facts
-----

- A request of family AF_INET asks for sockets in the states of a mask; INET_DIAG_INFO answers with `struct tcp_info` as
  getsockopt(TCP_INFO) does, INET_DIAG_CONG with the name of the congestion control (linux/inet_diag.h).
- A netlink socket belongs to the namespace that its thread was in when it was made.
- A socket that its process has closed is still listed while its last bytes are under way.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from flashferry.tcp.sample import Sample
from flashferry.tcp.syn import SynOptions, parse_saved_syn
from flashferry.tcp.tcp_info import TcpInfo, parse_tcp_info
from flashferry.tcp.verdict import KnownLink, Verdict, classify_transfer

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
    """A TCP connection as the kernel sees it; `state` 1 is ESTABLISHED, `raw_info` is `struct tcp_info` or empty."""

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
    """Records SYNs on an interface from its making on. Raises OSError: packet sockets need root."""

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


STEP_S = 0.1
"""The article's graphs have steps of 100 ms."""

_JUDGED_STEP_S = 1.0
"""Verdicts are made for readings a second apart: between closer ones BBR's own rounds show."""

_LEAST_JUDGED_READINGS = 5


@dataclass(slots=True, kw_only=True)
class Flow:
    """Readings of one connection, counted from the first that found data under way."""

    local_port: int
    control: str = ""
    samples: list[Sample] = field(default_factory=list)
    last: TcpInfo | None = None
    _origin_s: float = 0.0

    def take(self, now_s: float, connection: Connection) -> None:
        """Take a reading in."""
        info = parse_tcp_info(connection.raw_info)
        if not self.samples:
            self._origin_s = now_s
        self.last, self.control = info, connection.control
        at_s = now_s - self._origin_s
        self.samples.append(Sample.from_info(at_s, info, all_written=connection.state != ESTABLISHED))

    def judged(self, link: KnownLink | None = None) -> Verdict:
        """Say what limited it, by readings about a second apart, and what its link carries if that is to be known."""
        step_s = min(_JUDGED_STEP_S, self.samples[-1].at_s / _LEAST_JUDGED_READINGS) if self.samples else _JUDGED_STEP_S
        return classify_transfer(thinned(self.samples, step_s), congestion_control=self.control or None, link=link)


def thinned(samples: list[Sample], step_s: float) -> list[Sample]:
    """Return the readings that are at least so far apart, and the last."""
    kept: list[Sample] = []
    for sample in samples:
        if not kept or sample.at_s - kept[-1].at_s >= step_s - STEP_S / 2:
            kept.append(sample)
    if samples and kept[-1] is not samples[-1]:
        kept.append(samples[-1])
    return kept


class Witness:
    """Watches connections with some peers, but for those to control ports, for a with block."""

    def __init__(self, peers: frozenset[str], control_ports: frozenset[int]) -> None:
        self._peers, self._control_ports = peers, control_ports
        self._flows: dict[tuple[str, int], Flow] = {}
        self._earlier: frozenset[tuple[str, int, int]] = frozenset()
        self._stop = threading.Event()
        # Made here, in the caller's namespace; the thread that reads inherits it as well.
        self._monitor = Monitor()
        self._thread = threading.Thread(target=self._watch, name="witness")

    def __enter__(self) -> Witness:
        # What is left of an earlier copy must not count for this one.
        self._earlier = frozenset((one.peer_address, one.local_port, one.peer_port) for one in self._theirs())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._monitor.close()

    def flows(self) -> list[Flow]:
        """Return the connections that carried something, the one that carried most first."""
        with_data = [flow for flow in self._flows.values() if flow.last is not None and flow.last.bytes_acked]
        return sorted(with_data, key=lambda flow: -((flow.last.bytes_acked or 0) if flow.last else 0))

    def _watch(self) -> None:
        next_s = time.monotonic()
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + STEP_S, time.monotonic())
            with contextlib.suppress(OSError):
                self._read()

    def _read(self) -> None:
        now_s = time.monotonic()
        for each in self._theirs():
            if (each.peer_address, each.local_port, each.peer_port) in self._earlier:
                continue
            key = (each.peer_address, each.local_port)
            flow = self._flows.get(key)
            if flow is None:
                # Until data flows there is nothing to say of a connection.
                if not (parse_tcp_info(each.raw_info).bytes_sent or 0):
                    continue
                flow = self._flows[key] = Flow(local_port=each.local_port)
            flow.take(now_s, each)

    def _theirs(self) -> list[Connection]:
        """Return the data connections that are open with those we watch."""
        return [
            each
            for each in self._monitor.connections()
            if each.peer_address in self._peers and each.local_port not in self._control_ports and each.raw_info
        ]

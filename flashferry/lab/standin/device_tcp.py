"""What the Linux kernel knows of a live connection: the fields of TCP_INFO that `show tcp` has a place for.

Offsets are those of `struct tcp_info` in include/uapi/linux/tcp.h; fields were only ever added at its end, so a shorter
answer of an older kernel is filled up with zeros.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.namespaces import set_sysctl
from flashferry.lab.syn import mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.platform import TcpFigures

_IPPROTO_TCP, _TCP_INFO = 6, 11
_LENGTH_BYTES = 240
_TIMESTAMPS, _SACK, _WINDOW_SCALE = 1, 2, 4
_ESTABLISHED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTcp:
    """A connection as the kernel sees it: times in milliseconds, counts in segments, windows as last advertised.

    A scale is by how many bits a window is shifted: that to send by is the other side's. `bytes_out` was acknowledged.
    """

    is_established: bool
    has_sack: bool
    has_timestamps: bool
    has_scaling: bool
    send_scale: int
    receive_scale: int
    send_window_bytes: int
    receive_window_bytes: int
    rtt_ms: int
    rtt_variation_ms: int
    retransmission_timeout_ms: int
    least_rtt_ms: int
    idle_send_ms: int
    idle_receive_ms: int
    segment_bytes: int
    segments_in: int
    data_segments_in: int
    bytes_in: int
    out_of_order: int
    segments_out: int
    data_segments_out: int
    bytes_out: int
    retransmitted: int


def read_kernel_tcp(live: socket.socket | None) -> KernelTcp | None:
    """Ask the kernel about a socket; None where there is none, or where it is closed."""
    if live is None:
        return None
    try:
        raw = live.getsockopt(_IPPROTO_TCP, _TCP_INFO, _LENGTH_BYTES)
    except OSError:
        return None
    return parse_kernel_tcp(raw)


_FIELDS = {
    "retransmission_timeout_ms": ("=I", 8, 1000), "segment_bytes": ("=I", 16, 1), "idle_send_ms": ("=I", 44, 1),
    "idle_receive_ms": ("=I", 52, 1), "rtt_ms": ("=I", 68, 1000), "rtt_variation_ms": ("=I", 72, 1000),
    "retransmitted": ("=I", 100, 1), "bytes_out": ("=Q", 120, 1), "bytes_in": ("=Q", 128, 1),
    "segments_out": ("=I", 136, 1), "segments_in": ("=I", 140, 1), "least_rtt_ms": ("=I", 148, 1000),
    "data_segments_in": ("=I", 152, 1), "data_segments_out": ("=I", 156, 1), "out_of_order": ("=I", 224, 1),
    "send_window_bytes": ("=I", 228, 1), "receive_window_bytes": ("=I", 232, 1),
}  # fmt: skip
"""Format, offset, and how many of the kernel's units make one of ours."""


def parse_kernel_tcp(raw: bytes) -> KernelTcp:
    """Read the fields of a TCP_INFO answer."""
    raw = raw.ljust(_LENGTH_BYTES, b"\0")
    options, scales = raw[5], raw[6]
    scaling = bool(options & _WINDOW_SCALE)
    found = {key: int(struct.unpack_from(kind, raw, at)[0]) // unit for key, (kind, at, unit) in _FIELDS.items()}
    if found["least_rtt_ms"] == _UNKNOWN // 1000:
        found["least_rtt_ms"] = 0
    return KernelTcp(
        is_established=raw[0] == _ESTABLISHED, has_sack=bool(options & _SACK),
        has_timestamps=bool(options & _TIMESTAMPS), has_scaling=scaling,
        send_scale=scales & 0x0F if scaling else 0, receive_scale=scales >> 4 if scaling else 0, **found,
    )  # fmt: skip


_UNKNOWN = 2**32 - 1
"""A least round-trip time that was not measured yet."""

LONGEST_HOLD_S = 2.5
"""Covers the first retransmission of a SYN (1 s) on a path of 1.5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynOptions:
    """The options that a SYN offers."""

    window_scaling: bool = True
    sack: bool = True
    timestamps: bool = True


_AT_REST = SynOptions()


def write_options(options: SynOptions) -> None:
    """Set the switches of the calling thread's namespace."""
    set_sysctl("net/ipv4/tcp_window_scaling", int(options.window_scaling))
    set_sysctl("net/ipv4/tcp_sack", int(options.sack))
    set_sysctl("net/ipv4/tcp_timestamps", int(options.timestamps))


class OptionsGate:
    """Lets connections of equal options open at the same time."""

    def __init__(self, write: Callable[[SynOptions], None] = write_options) -> None:
        self._write = write
        self._changed = threading.Condition()
        self._current = _AT_REST
        self._holders = 0

    def leave_alone(self) -> None:
        """From now on set no switch: connections open with the options that the host has."""
        self._write = lambda _options: None

    @contextlib.contextmanager
    def opening(self, options: SynOptions) -> Iterator[None]:
        """Hold the switches at ``options`` for the length of a with block."""
        with self._changed:
            self._changed.wait_for(lambda: not self._holders or self._current == options)
            if self._current != options:
                self._write(options)
                self._current = options
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                if not self._holders:
                    # At rest the namespace behaves like any Linux host: SSH comes in meanwhile.
                    self._write(_AT_REST)
                    self._current = _AT_REST
                self._changed.notify_all()


GATE = OptionsGate()
"""The gate of this process, which lives in one namespace."""

LARGEST_UNSCALED_BYTES = 65535
"""The window field of a TCP header has 16 bits (RFC 9293 3.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSettings:
    """How a new connection of the device opens; one that is blocked never does, and nothing of it is on the wire.

    Attributes:
        mss_bytes: The segment size that it announces (`ip tcp mss`); None for that of the interface.
        finds_path_mtu: Its packets have the bit DF (`ip tcp path-mtu-discovery`; without it p0f and nmap saw none).
        is_marked: Its link rewrites the SYN (`flashferry.lab.syn`).
    """

    window_bytes: int
    syn_options: SynOptions
    synwait_s: float
    is_blocked: bool = False
    mss_bytes: int | None = None
    finds_path_mtu: bool = False
    is_marked: bool = False


def tcp_settings(configuration: Configuration, figures: TcpFigures, *, ineffective: str | None = None) -> TcpSettings:
    """Read the `ip tcp` lines, but for those that `ineffective` finds, as a fault.

    A window above 65535 makes IOS offer window scaling (Cisco TCP Window Scaling feature guide); without the line the
    platform's own figures hold.
    """
    if ineffective:
        lines = [line for line in configuration.lines() if not re.search(ineffective, line.text)]
        configuration = configuration.refilled(lines)
    line = configuration.value("ip tcp window-size")
    window_bytes = int(line) if line else figures.default_window_bytes
    synwait = configuration.value("ip tcp synwait-time")
    return TcpSettings(
        window_bytes=window_bytes,
        syn_options=SynOptions(
            window_scaling=window_bytes > LARGEST_UNSCALED_BYTES or figures.default_window_scaling,
            sack=configuration.find("ip tcp selective-ack") is not None or figures.default_sack,
            timestamps=configuration.find("ip tcp timestamp") is not None or figures.default_timestamps,
        ),
        synwait_s=float(synwait) if synwait else figures.synwait_s,
        mss_bytes=int(mss) if (mss := configuration.value("ip tcp mss")) else None,
        finds_path_mtu=configuration.find("ip tcp path-mtu-discovery") is not None,
    )


_TCP_WINDOW_CLAMP = 10  # linux/tcp.h
_IP_MTU_DISCOVER = 10  # linux/in.h: 0 never sets DF, 1 sets it and follows what comes back
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h; beyond net.core.rmem_max, needs CAP_NET_ADMIN
_FIRST_RATIO = 0.8945
_FULL_RATIO = 0.625
"""Of packets of 1500 bytes from a TUN interface (measured: section 7 of the facts for the lab)."""

_LEAST_BUFFER_BYTES = 16384
_SEND_PENDING = 2
"""TCP_QUICKACK (tcp(7)): an even number sends what is pending and leaves the later ones delayed (net/ipv4/tcp.c)."""

_LEAST_SPARE_BYTES = 16384
_SPARE_SHARE = 4
"""A quarter of the window beyond it: a slow flash must still show as a window that closes."""


_LEAST_MSS_BYTES = 88  # net/ipv4/tcp.c: TCP_MIN_MSS


def before_connect(connection: socket.socket, tcp: TcpSettings) -> None:
    """Set what decides the SYN of a connection, or what answers those of a port: window scale, segment size and DF."""
    _set_buffer(connection, tcp.window_bytes)
    _set_clamp(connection, tcp.window_bytes)
    connection.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, int(tcp.finds_path_mtu))
    if tcp.mss_bytes is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, max(_LEAST_MSS_BYTES, tcp.mss_bytes))


def mark_syn(connection: socket.socket, tcp: TcpSettings, *, is_open: bool) -> None:
    """Ask the link for IOS's SYN before a connection opens, and stop to when it is open."""
    if tcp.is_marked:
        with contextlib.suppress(PermissionError):  # a stand-in without rights has no link of its own either
            connection.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"" if is_open else mark(tcp.window_bytes))


def before_data(connection: socket.socket, window_bytes: int, *, head_comes_first: bool = False) -> None:
    """Set the buffer of an open connection that has carried no data yet.

    Where `head_comes_first`, a small segment takes its part of the window, so that of a window of three segments one is
    cut in pieces from then on; so the buffer is set for the ratio of the full segments at once.
    """
    _set_buffer(connection, int(window_bytes / (2 * (_FULL_RATIO if head_comes_first else _FIRST_RATIO))))
    _set_clamp(connection, window_bytes)


def before_dialogue(connection: socket.socket, window_bytes: int) -> None:
    """Set the buffer of an open connection that carries small segments before the data, as SSH's login does.

    They take many times their length of the buffer; in one of just the window the kernel would drop some of them.
    """
    _set_buffer(connection, max(_LEAST_BUFFER_BYTES, int(window_bytes / (2 * _FIRST_RATIO))))
    _set_clamp(connection, window_bytes)


def after_first_data(connection: socket.socket, window_bytes: int) -> None:
    """Set the buffer by the ratio that the first segments gave."""
    clamp = connection.getsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP)
    buffer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    ratio = min(1.0, max(0.1, clamp / buffer))
    free_bytes = window_bytes + max(_LEAST_SPARE_BYTES, window_bytes // _SPARE_SHARE)
    _set_buffer(connection, max(_LEAST_BUFFER_BYTES, int(free_bytes / (2 * ratio))))
    _set_clamp(connection, window_bytes)


def set_window(connection: socket.socket, window_bytes: int) -> None:
    """Have the kernel hold and advertise so much, as exactly as it can, once data has come."""
    _set_buffer(connection, int(window_bytes / (2 * _FULL_RATIO)))
    _set_clamp(connection, window_bytes)


def acknowledge(connection: socket.socket) -> None:
    """Acknowledge at once what was read.

    Linux acknowledges every second segment, and an odd one up to 40 ms later. Where a window holds few segments, an odd
    number of them, and the round trip is longer than that, the copy loses a segment per round trip by it.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, _SEND_PENDING)


def _set_buffer(connection: socket.socket, size_bytes: int) -> None:
    """Set SO_RCVBUF; the kernel doubles it."""
    size_bytes = min(size_bytes, 2**30)
    try:
        connection.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size_bytes)
    except PermissionError:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)


def _set_clamp(connection: socket.socket, window_bytes: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, min(window_bytes, 2**30))

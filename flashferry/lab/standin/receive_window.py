"""Make a Linux socket advertise at most a given receive window, and never let it grow.

Facts (measured on Linux 6.18; the reasons are in its commits a2cbb1603943, 697a6c8cec03, 58d3aade20cd)
-----
TCP_WINDOW_CLAMP before connect sets the window scale and locks autotuning, but on the first full segment the kernel
recomputes the clamp from SO_RCVBUF and the ratio of payload to buffer it sees. So the buffer has to be set three
times: before connect, after it with the kernel's first guess of the ratio, and after the first data with the
ratio as it then is. With that no advertised window was above the one asked for, from 4128 to 1073741 bytes.

The kernel acknowledges a segment before the reader has taken it out of the buffer. In a buffer of just the window that
segment counts against the window advertised with it, and the copy is slower by a segment or two per round trip, and by
all that waits for a late reader. So the last buffer has some room beyond the window, which the clamp still bounds.
Linux rounds an unscaled window down to whole segments, so windows of a few segments come out smaller than on IOS.
"""

from __future__ import annotations

import socket

_TCP_WINDOW_CLAMP = 10  # linux/tcp.h
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


def before_connect(connection: socket.socket, window_bytes: int) -> None:
    """Set what decides the window scale of the SYN."""
    _set_buffer(connection, window_bytes)
    _set_clamp(connection, window_bytes)


def before_data(connection: socket.socket, window_bytes: int, *, head_comes_first: bool = False) -> None:
    """Set the buffer of an open connection that has carried no data yet.

    Args:
        connection: The connection.
        window_bytes: The window that it shall have.
        head_comes_first: A small segment comes before the full ones. It takes its part of the window, so that of a
            window of three segments one is cut in pieces from then on; so the buffer is set for the ratio of the full
            segments at once.
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

"""Open a TCP connection of the device: window, options and patience as configured."""

from __future__ import annotations

import errno
import select
import socket
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.addresses import bind_to
from flashferry.lab.standin.handshake import GATE, LONGEST_HOLD_S

if TYPE_CHECKING:
    import threading

    from flashferry.lab.standin.tcp_settings import TcpSettings

_POLL_S = 0.2


def open_connection(
    connection: socket.socket, address: tuple[str, int], *, source: str, tcp: TcpSettings, stop: threading.Event
) -> None:
    """Connect a fresh socket to ``address``.

    The options of the namespace are held for the handshake, though no longer than `LONGEST_HOLD_S`: a SYN sent
    again after that may carry the options of another device's copy.

    Raises:
        TimeoutError: There was no answer within `ip tcp synwait-time`.
        OSError: The connection was refused, or ``stop`` was set.
    """
    if tcp.is_blocked:
        stop.wait(tcp.synwait_s)
        raise TimeoutError
    receive_window.before_connect(connection, tcp.window_bytes)
    bind_to(connection, source)
    connection.settimeout(0)
    deadline_s = time.monotonic() + tcp.synwait_s
    with GATE.opening(tcp.syn_options):
        error = connection.connect_ex(address)
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, "connect")
        established = _wait_established(connection, min(LONGEST_HOLD_S, tcp.synwait_s), stop)
    if not established and not _wait_established(connection, deadline_s - time.monotonic(), stop):
        raise TimeoutError


def _wait_established(connection: socket.socket, wait_s: float, stop: threading.Event) -> bool:
    """Wait until a connect is done; False when it is not yet. Raises OSError: it failed."""
    deadline_s = time.monotonic() + wait_s
    while not stop.is_set() and time.monotonic() < deadline_s:
        poll = select.poll()
        poll.register(connection, select.POLLOUT)
        if poll.poll(1000 * min(_POLL_S, max(0.001, deadline_s - time.monotonic()))):
            error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, "connect")
            return True
    if stop.is_set():
        raise ConnectionAbortedError
    return False

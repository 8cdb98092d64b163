"""Connections of the devices: their addresses, the table of `show tcp`, and how one opens.

A device has one address from its world. Any other that its configuration gives to an interface, such as a loopback, is
made real when a connection wants to come from it, and only in a network namespace of the stand-ins' own. Whether
an answer finds its way there is the network's affair: within the network of the site it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
import select
import socket
import threading
import time
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar, cast

from flashferry.lab.namespaces import Interface, set_sysctl, set_up_interfaces
from flashferry.lab.standin import device_tcp
from flashferry.lab.standin.device_tcp import GATE, LONGEST_HOLD_S, SynOptions, read_kernel_tcp

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable

    from flashferry.lab.standin.device_tcp import KernelTcp, TcpSettings
    from flashferry.lab.standin.terminal import Terminal

_LOCK = threading.Lock()
_MAY_ADD = threading.Event()


def allow_new_addresses() -> None:
    """Say that the network namespace is the stand-ins' own: addresses may be added, and packets leave with TTL 255."""
    _MAY_ADD.set()
    with contextlib.suppress(OSError):
        set_sysctl("net/ipv4/ip_default_ttl", 255)


def bind_to(connection: socket.socket, address: str) -> None:
    """Bind a fresh socket to an address of the device.

    Raises OSError: it is not there and may not be made (EADDRNOTAVAIL).
    """
    try:
        connection.bind((address, 0))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL or not _MAY_ADD.is_set():
            raise
        _add(address)
        connection.bind((address, 0))


def _add(address: str) -> None:
    from pyroute2 import NetlinkError

    with _LOCK, contextlib.suppress(NetlinkError):  # another copy may have added it meanwhile: binding shows
        set_up_interfaces((Interface(name="lo", addresses=(f"{address}/32",)),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A live connection.

    Attributes:
        window_bytes: Its receive window; fixed when it opens, whatever is configured later.
        options: What the device offered when it opened, or would have in answer to a peer that offers it.
        live: Its socket, to read what the kernel knows of it; None where there is none.
    """

    tcb: str
    local: tuple[str, int]
    foreign: tuple[str, int]
    opened_s: float
    window_bytes: int
    options: SynOptions
    live: socket.socket | None = None
    state: str = "ESTAB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What connections carried, in segments and bytes."""

    segments_in: int = 0
    data_segments_in: int = 0
    bytes_in: int = 0
    out_of_order: int = 0
    segments_out: int = 0
    data_segments_out: int = 0
    bytes_out: int = 0
    retransmitted: int = 0

    def plus(self, one: KernelTcp | None) -> Totals:
        """Return the totals with another connection."""
        if one is None:
            return self
        return Totals(**{each.name: getattr(self, each.name) + getattr(one, each.name) for each in fields(self)})


class ConnectionTable:
    """Live connections of one device; used from the event loop and from copy threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Connection] = {}
        self.opened = 0
        self._closed = Totals()

    def add(
        self, local: tuple[str, int], foreign: tuple[str, int], *, window_bytes: int = 4128,
        live: socket.socket | None = None, options: SynOptions | None = None,
    ) -> str:  # fmt: skip
        """Enter a connection and return its TCB address; 4128 bytes are the documented default of IOS."""
        with self._lock:
            tcb = f"7F{random.getrandbits(40):010X}"
            self.opened += 1
            self._rows[tcb] = Connection(
                tcb=tcb, local=local[:2], foreign=foreign[:2], opened_s=time.monotonic(),
                window_bytes=window_bytes, live=live, options=options or SynOptions(),
            )  # fmt: skip
            return tcb

    def change(self, tcb: str, local: tuple[str, int], foreign: tuple[str, int]) -> None:
        """Correct the addresses of a connection: they are known when it is open."""
        with self._lock:
            self._rows[tcb] = replace(self._rows[tcb], local=local[:2], foreign=foreign[:2])

    def remove(self, tcb: str) -> None:
        """Take a connection out, before its socket is closed; what it carried stays in the totals."""
        with self._lock:
            row = self._rows.pop(tcb, None)
            if row is not None:
                self._closed = self._closed.plus(read_kernel_tcp(row.live))

    def rows(self) -> list[Connection]:
        """Return the connections, oldest first."""
        with self._lock:
            return list(self._rows.values())

    def totals(self) -> Totals:
        """Return what all connections carried, those that are closed too."""
        with self._lock:
            totals = self._closed
            for row in self._rows.values():
                totals = totals.plus(read_kernel_tcp(row.live))
            return totals


_POLL_S = 0.2


def open_connection(
    connection: socket.socket, address: tuple[str, int], *, source: str, tcp: TcpSettings, stop: threading.Event
) -> None:
    """Connect a fresh socket to ``address``.

    The options of the namespace are held for the handshake, though no longer than `LONGEST_HOLD_S`: a SYN sent again
    after that may carry the options of another device's copy.

    Raises TimeoutError: there was no answer within `ip tcp synwait-time`; OSError: the connection was refused, or
    ``stop`` was set.
    """
    if tcp.is_blocked:
        stop.wait(tcp.synwait_s)
        raise TimeoutError
    device_tcp.before_connect(connection, tcp)
    device_tcp.mark_syn(connection, tcp, is_open=False)
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
    device_tcp.mark_syn(connection, tcp, is_open=True)


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


T = TypeVar("T")


async def stoppable(terminal: Terminal, stop: Callable[[], None], work: Callable[[], T]) -> T:
    """Return what ``work`` returns, in a thread of its own; Ctrl-Shift-6 or the end of the session stops it."""
    terminal.on_escape = stop
    closed = asyncio.ensure_future(terminal.closed.wait())
    closed.add_done_callback(lambda _: stop())
    try:
        return await in_own_thread(work)
    finally:
        terminal.on_escape = None
        closed.cancel()


async def in_own_thread(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, or raise what it raises; nothing where no caller waits for it any more."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def end(found: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("T", found))

    def run() -> None:
        found: T | None = None
        error: BaseException | None = None
        try:
            found = work()
        except BaseException as raised:  # noqa: BLE001 - handed to the waiting session, whatever it is
            error = raised
        with contextlib.suppress(RuntimeError):  # the devices of the site have been switched off meanwhile
            loop.call_soon_threadsafe(end, found, error)

    threading.Thread(target=run, name="device-work", daemon=True).start()
    return await done

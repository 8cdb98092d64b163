"""Socket options for sending fast and for observing connections.

Python's `socket` lacks some of the numbers before 3.12; they are fixed in Linux' ABI (linux/tcp.h, asm/socket.h).
Options that the kernel refuses are reported by the caller.
"""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

from flashferry.fileserver.errors import ServerStartFailed
from flashferry.tcp.syn import SynOptions, parse_saved_syn
from flashferry.tcp.tcp_info import NO_PACING_LIMIT, TcpInfo, parse_tcp_info

BACKLOG = 1024
"""Connections that may wait to be accepted on a listening socket."""

_TCP = socket.IPPROTO_TCP
_TCP_INFO = 11
_TCP_CONGESTION = 13
_TCP_USER_TIMEOUT = 18
_TCP_NOTSENT_LOWAT = 25
_TCP_SAVE_SYN = 27
_TCP_SAVED_SYN = 28
_SO_MAX_PACING_RATE = 47

STATE_CLOSE = 7
"""`TCP_CLOSE` of linux/tcp.h: reset, timed out, or closed on both sides."""


def listening_socket(
    address: str, ports: Sequence[int], dscp: int = 0, congestion_controls: Sequence[str] = ()
) -> socket.socket:
    """Return a socket that listens on the first available port of some, and saves SYNs.

    Its connections start with the first congestion control that the kernel grants, else with the host's default.

    It is created in the parent process, so a port in use is an error of the caller's thread, and only the parent needs
    the privilege for a port below 1024. It listens at once: Linux allows two sockets to be bound to a port while
    neither listens, so the slower of two servers started together would lose its port.

    Args:
        address: The address to listen on.
        ports: Ports to try, at least one; 0 is any free one.
        dscp: Code point of all packets, 0 to 63.
        congestion_controls: Names, the best first.

    Raises:
        ServerStartFailed: The address is not this host's, or all ports are in use or need privileges.
    """
    for port in ports[:-1]:
        with contextlib.suppress(ServerStartFailed):
            return _listening_at(address, port, dscp, congestion_controls)
    return _listening_at(address, ports[-1], dscp, congestion_controls)


def _listening_at(address: str, port: int, dscp: int, congestion_controls: Sequence[str]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
        save_syn(listener)
        set_first_congestion_control(listener, congestion_controls)
        if dscp:
            # Inherited by every connection, so that its SYN-ACK is marked too.
            set_dscp(listener, dscp)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = {
            errno.EADDRINUSE: "Stop its owner or choose another port",
            errno.EACCES: "Ports below 1024 take root or CAP_NET_BIND_SERVICE; use 2121 otherwise",
            errno.EADDRNOTAVAIL: "Give an address of this host, or 0.0.0.0",
        }.get(error.errno or 0, "Check address and port")
        message = f"cannot listen on {address} port {port}: {error.strerror}"
        raise ServerStartFailed(message, hint=hint, needs_right=error.errno == errno.EACCES) from error
    return listener


def save_syn(listener: socket.socket) -> bool:
    """Ask a listening socket to keep the SYN of each connection; return whether the kernel does."""
    return _accepted(listener, _TCP, _TCP_SAVE_SYN, 1)


def saved_syn(connection: socket.socket) -> SynOptions | None:
    """Return the options of a connection's SYN, which the kernel returns once; None if not saved or malformed."""
    try:
        raw = connection.getsockopt(_TCP, _TCP_SAVED_SYN, 512)
        return _shared(parse_saved_syn(raw)) if raw else None
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _shared(syn: SynOptions) -> SynOptions:
    """Return the same object for equal options: a thousand routers of one model need not keep a thousand."""
    return syn


def read_info_bytes(connection: socket.socket) -> bytes | None:
    """Return TCP_INFO as bytes; None if the socket is closed."""
    try:
        return connection.getsockopt(_TCP, _TCP_INFO, 512)
    except OSError:
        return None


def read_info(connection: socket.socket) -> TcpInfo | None:
    """Return the parsed TCP_INFO; None if the socket is closed."""
    raw = read_info_bytes(connection)
    return parse_tcp_info(raw) if raw else None


def congestion_control(connection: socket.socket) -> str:
    """Return the congestion control in force."""
    return connection.getsockopt(_TCP, _TCP_CONGESTION, 16).rstrip(b"\0").decode("ascii", "replace")


def set_congestion_control(connection: socket.socket, name: str) -> str:
    """Set the congestion control; return an empty text, or why the kernel refused it."""
    try:
        connection.setsockopt(_TCP, _TCP_CONGESTION, name.encode("ascii"))
    except OSError as error:
        return {
            errno.EPERM: f"{name} is not in net.ipv4.tcp_allowed_congestion_control",
            errno.ENOENT: f"{name} is not in this kernel (modprobe tcp_{name})",
        }.get(error.errno or 0, f"{name}: {error.strerror}")
    return ""


def set_first_congestion_control(connection: socket.socket, names: Iterable[str]) -> tuple[str, ...]:
    """Set the first congestion control that the kernel grants; return why it refused those before it."""
    refusals = []
    for name in names:
        refusal = set_congestion_control(connection, name)
        if not refusal:
            break
        refusals.append(refusal)
    return tuple(refusals)


def set_cap(connection: socket.socket, cap_bytes_per_s: int | None) -> bool:
    """Set or remove the pacing cap (SO_MAX_PACING_RATE, bytes per second); works during a transfer and without fq."""
    value = NO_PACING_LIMIT if cap_bytes_per_s is None else cap_bytes_per_s
    try:
        connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", value))
    except OSError:
        return False
    return True


def cap(connection: socket.socket) -> int | None:
    """Return the pacing cap in force in bytes per second; None for none."""
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, 8)
    except OSError:
        return None
    value = int.from_bytes(raw, "little" if struct.pack("=H", 1)[0] else "big")
    return None if value in (NO_PACING_LIMIT, 2**32 - 1) else value


def set_unacked_limit(connection: socket.socket, limit_s: float) -> bool:
    """Let the kernel end a connection whose data is unacknowledged for `limit_s` (TCP_USER_TIMEOUT)."""
    return _accepted(connection, _TCP, _TCP_USER_TIMEOUT, int(limit_s * 1000))


def set_notsent_lowat(connection: socket.socket, size_bytes: int) -> bool:
    """Limit the unsent bytes in the kernel, so that the bytes written are close to those sent."""
    return _accepted(connection, _TCP, _TCP_NOTSENT_LOWAT, size_bytes)


def set_mss(connection: socket.socket, mss_bytes: int) -> bool:
    """Ask for a segment size; on a listener it goes into the SYN-ACK."""
    return _accepted(connection, _TCP, socket.TCP_MAXSEG, mss_bytes)


def set_keepalive(connection: socket.socket) -> bool:
    """Enable keepalives, which keep NAT and firewall entries of an idle connection, and detect a lost peer.

    The first is sent after 60 s without data; after five in a row without an answer, 20 s apart, the peer is lost.
    """
    return (
        _accepted(connection, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        and _accepted(connection, _TCP, socket.TCP_KEEPIDLE, 60)
        and _accepted(connection, _TCP, socket.TCP_KEEPINTVL, 20)
        and _accepted(connection, _TCP, socket.TCP_KEEPCNT, 5)
    )


def set_abort_on_close(connection: socket.socket, aborts: bool) -> bool:
    """Let closing send a reset and drop unsent data, or end normally.

    A normal end would look like the end of the file. The option also applies if the process dies.
    """
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", aborts, 0))
    except OSError:
        return False
    return True


def set_dscp(connection: socket.socket, dscp: int) -> bool:
    """Mark a connection's packets with a code point."""
    taken = False
    with contextlib.suppress(OSError):
        if connection.family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
            taken = True
    # A dual-stack socket that carries IPv4 takes the IPv4 option, a true IPv6 one refuses it.
    return _accepted(connection, socket.IPPROTO_IP, socket.IP_TOS, dscp << 2) or taken


def _accepted(connection: socket.socket, level: int, option: int, value: int) -> bool:
    try:
        connection.setsockopt(level, option, value)
    except OSError:
        return False
    return True

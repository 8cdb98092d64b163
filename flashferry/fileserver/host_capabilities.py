"""Features that this host's kernel grants to our process, found by trying them.

Facts
-----

- A session takes four descriptors at most: control connection, passive listener, data connection, image.
- A process may raise its soft limit to the hard one; more takes privileges (setrlimit(2)), and is the host's
  decision.
"""

import errno
import os
import resource
import socket
from pathlib import Path

from msgspec import Struct

from flashferry.fileserver import sockets
from flashferry.fileserver.errors import ServerStartFailed

DESCRIPTORS_PER_SESSION = 4
"""Control connection, data connection, passive listener, file."""

MOST_SESSIONS = 4000
"""Sessions allowed by default; each costs some 10 kB."""

_OWN_DESCRIPTORS = 32
_LEAST_SESSIONS = 8


def sessions_allowed(requested: int | None, open_files: int) -> int:
    """Return how many sessions may run at once.

    Args:
        requested: The requested number; None takes what the limit allows, at most `MOST_SESSIONS`.
        open_files: The hard limit on open files; `resource.RLIM_INFINITY` for none.

    Raises:
        ServerStartFailed: The limit is too low for the sessions requested, or for any use at all.
    """
    most = MOST_SESSIONS if requested is None else requested
    if open_files == resource.RLIM_INFINITY:
        return most
    carried = (open_files - _OWN_DESCRIPTORS) // DESCRIPTORS_PER_SESSION
    least = _LEAST_SESSIONS if requested is None else requested
    if carried < least:
        needed = least * DESCRIPTORS_PER_SESSION + _OWN_DESCRIPTORS
        alternative = "" if requested is None else f", or ask for at most {max(carried, 0)} sessions"
        raise ServerStartFailed(
            f"open files: {least} sessions take {needed} descriptors, the hard limit is {open_files}",
            hint=f"Raise it (LimitNOFILE= in the unit, 'hard nofile' in limits.conf){alternative}",
        )
    return min(most, carried)


def hard_limit() -> int:
    """Return the hard limit on open files of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def raise_soft_limit() -> None:
    """Raise the soft limit on open files to the hard limit."""
    hard = hard_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


_CONTROLS = ("bbr", "cubic", "reno")


class CongestionControl(Struct, frozen=True, kw_only=True):
    """One congestion control and whether this process may use it; if not, why."""

    name: str
    granted: bool
    reason: str = ""


class HostCapabilities(Struct, frozen=True, kw_only=True):
    """Features that the kernel granted.

    Attributes:
        kernel: Its release.
        default_congestion_control: Congestion control of a new socket.
        congestion_controls: The congestion controls that we may use, each granted or not.
        saves_syn: Whether SYNs can be saved (TCP_SAVE_SYN).
        paces: Whether a cap can be set (SO_MAX_PACING_RATE).
        send_buffer_ceiling_bytes: Third value of net.ipv4.tcp_wmem; None if unreadable.
        open_files: Descriptors this process may have.
    """

    kernel: str
    default_congestion_control: str
    congestion_controls: tuple[CongestionControl, ...]
    saves_syn: bool
    paces: bool
    send_buffer_ceiling_bytes: int | None
    open_files: int

    def allows(self, name: str) -> bool:
        """Return whether a congestion control may be used."""
        return any(grant.granted for grant in self.congestion_controls if grant.name == name)


def probe_capabilities() -> HostCapabilities:
    """Try on a test socket which features the kernel grants to this process in its network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        default = sockets.congestion_control(probe)
        controls = tuple(_try(probe, name) for name in _CONTROLS)
        return HostCapabilities(
            kernel=os.uname().release,
            default_congestion_control=default,
            congestion_controls=controls,
            saves_syn=sockets.save_syn(probe),
            paces=sockets.set_cap(probe, 1_000_000) and sockets.cap(probe) == 1_000_000,
            send_buffer_ceiling_bytes=_send_buffer_ceiling(),
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )


def _try(probe: socket.socket, name: str) -> CongestionControl:
    reason = sockets.set_congestion_control(probe, name)
    return CongestionControl(name=name, granted=not reason, reason=reason)


def _send_buffer_ceiling() -> int | None:
    try:
        return int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text(encoding="ascii").split()[2])
    except (OSError, ValueError, IndexError):
        return None


def may_bind(port: int) -> str:
    """Return an empty text if this process may listen on a port, or in words why not."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - the question is about any interface; nothing listens
        except OSError as error:
            return {
                errno.EACCES: f"port {port} takes root or CAP_NET_BIND_SERVICE; use 2121 otherwise",
                errno.EADDRINUSE: f"port {port} is in use; stop its owner or choose another port",
            }.get(error.errno or 0, f"port {port}: {error.strerror}")
    return ""

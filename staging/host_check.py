"""What this host grants: each finding with what to do about it. Changes nothing on the host."""

from __future__ import annotations

import errno
import resource
import socket
from dataclasses import dataclass
from pathlib import Path

TCP_CONGESTION = 13
"""`TCP_CONGESTION` of linux/tcp.h."""

SESSIONS_WANTED = 500
"""A fleet of this size is what one machine is meant for; a session takes about four descriptors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that this host grants or not.

    Attributes:
        name: What was looked at.
        is_good: Whether everything works as it should with it.
        found: What was found.
        advice: What to do about it; empty where nothing need be done.
    """

    name: str
    is_good: bool
    found: str
    advice: str = ""


def look_at_host(lab_reason: str | None) -> tuple[Finding, ...]:
    """Return all findings.

    Args:
        lab_reason: Why the lab cannot run here, or None where it can.
    """
    return (
        *(_congestion_control(name) for name in ("bbr", "cubic")),
        _port(),
        _send_buffer(),
        _open_files(),
        Finding(
            name="lab",
            is_good=lab_reason is None,
            found="root, namespaces and /dev/net/tun are there" if lab_reason is None else lab_reason,
            advice="" if lab_reason is None else "Run as root on Linux with /dev/net/tun to use the lab",
        ),
    )


def _congestion_control(name: str) -> Finding:
    what = f"congestion control {name}"
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())
        except OSError as error:
            if error.errno == errno.EPERM:
                return Finding(
                    name=what,
                    is_good=False,
                    found="loaded, not allowed without privileges",
                    advice=f"As root: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic {name}'",
                )
            return Finding(name=what, is_good=False, found="not in this kernel", advice=f"As root: modprobe tcp_{name}")
    return Finding(name=what, is_good=True, found="granted")


def _port() -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", 21))  # noqa: S104 -- a look whether we might; nothing listens
        except PermissionError:
            return Finding(
                name="FTP port 21",
                is_good=False,
                found="not allowed; 2121 is used, with the port in the URL",
                advice="Give the service CAP_NET_BIND_SERVICE; old IOS releases may not take a port in the URL",
            )
        except OSError as error:
            return Finding(
                name="FTP port 21",
                is_good=False,
                found=f"in use ({error.strerror}); 2121 is used, with the port in the URL",
                advice="Stop the other FTP server, or give --ftp-port",
            )
    return Finding(name="FTP port 21", is_good=True, found="allowed and free")


def _send_buffer() -> Finding:
    text = Path("/proc/sys/net/ipv4/tcp_wmem").read_text(encoding="ascii")
    ceiling_bytes = int(text.split()[2])
    # 100 Mbit/s at 300 ms is 3.75 MB in flight, and the kernel keeps sent data until it is acknowledged.
    good = ceiling_bytes >= 4_000_000
    return Finding(
        name="send buffer ceiling",
        is_good=good,
        found=f"tcp_wmem allows {ceiling_bytes:,} bytes",
        advice="" if good else "As root: sysctl -w net.ipv4.tcp_wmem='4096 16384 16777216'",
    )


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    good = hard == resource.RLIM_INFINITY or hard >= SESSIONS_WANTED * 4
    return Finding(
        name="open files",
        is_good=good,
        found=f"{soft} now, up to {hard}; this process has {sum(1 for _ in Path('/proc/self/fd').iterdir())} open",
        advice="" if good else f"Raise the limit (ulimit -n) to {SESSIONS_WANTED * 4} for a fleet of {SESSIONS_WANTED}",
    )

"""What this host grants: each finding with what to do about it. Changes nothing on the host."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from flashferry.fileserver import (
    DESCRIPTORS_PER_SESSION,
    CongestionControl,
    HostCapabilities,
    may_bind,
    probe_capabilities,
)
from flashferry.transports import USUAL

SESSIONS_WANTED = 500
"""A fleet of this size is what one machine is meant for."""

SEND_BUFFER_WANTED_BYTES = 4_000_000
"""100 Mbit/s at 300 ms is 3.75 MB in flight, and the kernel keeps what was sent until it is acknowledged."""


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
    capabilities = probe_capabilities()
    return (
        *(_congestion_control(grant) for grant in capabilities.congestion_controls if grant.name != "reno"),
        _port(),
        _witness(capabilities),
        _send_buffer(capabilities.send_buffer_ceiling_bytes),
        _open_files(),
        Finding(
            name="lab",
            is_good=lab_reason is None,
            found=lab_reason or "root, namespaces and /dev/net/tun are there",
            advice="" if lab_reason is None else "Needed for 'flashferry lab' only, not for your own routers",
        ),
    )


def _congestion_control(grant: CongestionControl) -> Finding:
    advice = (
        f"As root: modprobe tcp_{grant.name}; sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'. "
        "Without it transfers go on with what there is"
    )
    return Finding(
        name=f"congestion control {grant.name}",
        is_good=grant.granted,
        found="granted" if grant.granted else grant.reason,
        advice="" if grant.granted else advice,
    )


def _port() -> Finding:
    port = USUAL.ports.well_known
    reason = may_bind(port)
    advice = (
        "2121 is used instead, with the port in the URL, which old IOS releases may not take. Give the service "
        "CAP_NET_BIND_SERVICE, or stop the other FTP server"
    )
    return Finding(
        name=f"FTP port {port}",
        is_good=not reason,
        found=reason or "allowed and free",
        advice=advice if reason else "",
    )


def _witness(capabilities: HostCapabilities) -> Finding:
    lacking = [
        name
        for name, granted in (("SYN audit", capabilities.saves_syn), ("pacing cap", capabilities.paces))
        if not granted
    ]
    return Finding(
        name="SYN audit and pacing",
        is_good=not lacking,
        found=f"{' and '.join(lacking)} not granted" if lacking else f"granted by Linux {capabilities.kernel}",
        advice="Linux 4.13 or later has both" if lacking else "",
    )


def _send_buffer(ceiling_bytes: int | None) -> Finding:
    good = ceiling_bytes is not None and ceiling_bytes >= SEND_BUFFER_WANTED_BYTES
    return Finding(
        name="send buffer ceiling",
        is_good=good,
        found=f"tcp_wmem allows {ceiling_bytes:,} bytes" if ceiling_bytes is not None else "tcp_wmem cannot be read",
        advice="" if good else "As root: sysctl -w net.ipv4.tcp_wmem='4096 16384 16777216'",
    )


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SESSIONS_WANTED * DESCRIPTORS_PER_SESSION
    good = soft == resource.RLIM_INFINITY or soft >= wanted
    return Finding(
        name="open files",
        is_good=good,
        found=f"{soft}, may be raised to {hard}",
        advice="" if good else f"ulimit -n {wanted} for a fleet of {SESSIONS_WANTED}",
    )

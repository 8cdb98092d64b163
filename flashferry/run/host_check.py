"""Check what this host grants to file server and lab, each finding with advice. Changes nothing."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.depot.paths import AUTO
from flashferry.depot.status import DepotFound, find_depot
from flashferry.fileserver import (
    DESCRIPTORS_PER_SESSION,
    CongestionControl,
    HostCapabilities,
    SettingsInvalid,
    may_bind,
    probe_capabilities,
)
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.listeners import HOST_KEYS, check_files
from flashferry.transports.scp import describe_host_keys
from flashferry.transports.transport import Transport
from flashferry.transports.transport_selection import transport_request
from inventory.host_key_rules import state_directory
from inventory.transport_policy import AS_USUAL

_CONTROLLER_CLIENT = "virl2_client"

RECOMMENDED_SESSIONS = 500
"""The fleet that one machine is meant for."""

RECOMMENDED_SEND_BUFFER_BYTES = 4_000_000
"""100 Mbit/s at 300 ms is 3.75 MB in flight, and the kernel keeps what was sent until it is acknowledged."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that this host grants or not.

    Attributes:
        name: What was checked.
        is_good: Whether everything works with it.
        found: What was found.
        advice: What to do; empty if nothing.
    """

    name: str
    is_good: bool
    found: str
    advice: str = ""


def check_host(
    lab_reason: str | None,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    state: Path | None = None,
    depot: str = AUTO,
) -> tuple[Finding, ...]:
    """Check the host and return all findings.

    Args:
        lab_reason: Why the lab cannot run here, or None.
        certificate: Our certificate for HTTPS, or None.
        key: Its private key, or None.
        state: State folder with our SSH host keys, read only; None: the default one.
        depot: The host's depot: `auto`, `never`, or the path of its socket.
    """
    capabilities = probe_capabilities()
    found = find_depot(state_directory(state), depot)
    return (
        *(_congestion_control(grant) for grant in capabilities.congestion_controls if grant.name != "reno"),
        _port(found),
        _depot(found),
        *_other_ports(found),
        _ssh(),
        _host_keys(state_directory(state) / HOST_KEYS),
        _certificate(certificate, key),
        _witness(capabilities),
        _send_buffer(capabilities.send_buffer_ceiling_bytes),
        _open_files(),
        _controller(),
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


def _port(depot: DepotFound | None) -> Finding:
    port = USUAL.ports.well_known
    advice = (
        "2121 is used instead, with the port in the URL, which old IOS releases may not take. Give the service "
        "CAP_NET_BIND_SERVICE, or stop the other FTP server"
    )
    return _listening(f"FTP port {port}", port, (USUAL,), depot, advice)


def _listening(name: str, port: int, served: Sequence[Transport], depot: DepotFound | None, advice: str) -> Finding:
    """Check a port: served by the depot for all runs, or available to a run's own server."""
    view = depot.view if depot is not None else None
    theirs = {} if view is None else {one.name: view.ports[one.name] for one in served if one.name in view.ports}
    if view is not None and port in theirs.values():
        return Finding(name=name, is_good=True, found=f"served by the depot, process {view.pid}, for all runs")
    reason = may_bind(port)
    found = reason or "allowed and free"
    if theirs:
        found += "; runs use the depot's port " + " and ".join(str(one) for one in sorted(set(theirs.values())))
    return Finding(name=name, is_good=not reason, found=found, advice=advice if reason else "")


def _depot(found: DepotFound | None) -> Finding:
    """Check whether runs find a depot, and whether it answers."""
    if found is None:
        text = "none: each run brings its own file server, and shares no site's cap with others"
        return Finding(name="depot", is_good=True, found=text)
    if found.view is None:
        return Finding(name="depot", is_good=False, found=found.trouble, advice=found.hint)
    return Finding(name="depot", is_good=True, found=f"at {found.socket}: {found.view.in_words}")


def _other_ports(depot: DepotFound | None) -> Iterator[Finding]:
    """Yield findings on the ports of other transports, needed only if devices fetch by them."""
    listeners: dict[str, list[Transport]] = {}
    for one in TRANSPORTS:
        listeners.setdefault(one.listener_name, []).append(one)
    for name, served in listeners.items():
        ports = served[0].ports
        if name == USUAL.listener_name:
            continue
        advice = (
            f"{ports.others[0]} is used instead, with the port in the URL. Give the service CAP_NET_BIND_SERVICE, or "
            f"have what listens there listen elsewhere, or give another with --{name}-port"
        )
        title = f"{' and '.join(one.title for one in served)} port {ports.well_known}"
        yield _listening(title, ports.well_known, served, depot, advice)


def _ssh() -> Finding:
    """Check that our SSH server's library is installed."""
    missing = transport_request(AS_USUAL).missing
    encrypted = [one for one in TRANSPORTS if not one.is_clear_text and one.takes_vrf]
    lacking = next((missing[one.name] for one in encrypted if one.name in missing), None)
    return Finding(
        name=f"extra for {' and '.join(one.title for one in encrypted)}",
        is_good=lacking is None,
        found="installed" if lacking is None else lacking[0],
        advice="" if lacking is None else lacking[1],
    )


def _host_keys(folder: Path) -> Finding:
    """Check that our host keys are private, if they exist; none is made."""
    try:
        keys = describe_host_keys(folder, makes=False)
    except SettingsInvalid as error:
        return Finding(name="SSH host keys", is_good=False, found=error.message, advice=error.hint or "")
    found = "; ".join(keys) or f"none in {folder} yet: they are made when SSH is first served"
    return Finding(name="SSH host keys", is_good=True, found=f"in {folder}: {found}" if keys else found)


def _controller() -> Finding:
    """Check that the client of Cisco Modeling Labs' API is installed."""
    is_there = find_spec(_CONTROLLER_CLIENT) is not None
    return Finding(
        name="extra for Cisco Modeling Labs",
        is_good=is_there,
        found="installed" if is_there else f"expected the package {_CONTROLLER_CLIENT}, found none",
        advice="" if is_there else f"Needed for nights against such a controller only. {extra_hint('cml')}",
    )


def _certificate(certificate: Path | None, key: Path | None) -> Finding:
    """Check the certificate; none is needed if no device fetches by HTTPS."""
    if certificate is None and key is None:
        found = "none given, so that no device fetches by HTTPS; --certificate and --key have one looked at"
        return Finding(name="certificate", is_good=True, found=found)
    try:
        transport_request(AS_USUAL, certificate=certificate, key=key)
        assert certificate is not None
        assert key is not None
        check_files(certificate, key)
    except ConfigInvalid as error:
        return Finding(name="certificate", is_good=False, found=error.message, advice=error.hint or "")
    return Finding(name="certificate", is_good=True, found=f"{certificate} is good now, and the key is its")


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
    good = ceiling_bytes is not None and ceiling_bytes >= RECOMMENDED_SEND_BUFFER_BYTES
    return Finding(
        name="send buffer ceiling",
        is_good=good,
        found=f"tcp_wmem allows {ceiling_bytes:,} bytes" if ceiling_bytes is not None else "tcp_wmem cannot be read",
        advice="" if good else "As root: sysctl -w net.ipv4.tcp_wmem='4096 16384 16777216'",
    )


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    recommended = RECOMMENDED_SESSIONS * DESCRIPTORS_PER_SESSION
    good = soft == resource.RLIM_INFINITY or soft >= recommended
    return Finding(
        name="open files",
        is_good=good,
        found=f"{soft}, may be raised to {hard}",
        advice="" if good else f"ulimit -n {recommended} for a fleet of {RECOMMENDED_SESSIONS}",
    )

"""Namespaces and interfaces of a link: what joins the core with a site before the first packet."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from flashferry.lab.namespaces import (
    Interface,
    enter_namespace,
    in_namespace,
    join_by_veth,
    open_tun,
    set_sysctl,
    set_up_interfaces,
    unshare_network,
)

WAN, LAN = "wan0", "lan0"
"""Names of the interfaces of a site and of its depot: towards the core, and towards each other."""
_QUEUE_PACKETS = 10000
"""Of the interfaces themselves: the queue that counts is that of the link model."""
_EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The TUN descriptors of a link's two ends; a depot at the site has one of its own, and an address."""

    core: int
    site: int
    depot: int | None = None
    depot_address: str = ""


def set_up_link(settings: dict[str, Any]) -> Ends | None:
    """Join the site, and its depot where it has one, with the core, and stay in the core.

    The first link of a world makes the core's namespace, the others enter it.

    Args:
        settings: ``site_pid``, ``site_addresses``, ``site_network``, ``core_address``, ``core_pid`` (None to make the
            core), ``interface`` (its name in the core), ``has_tun`` (False: plain veth pairs), ``depot_pid`` and
            ``depot_address`` (None without a depot).

    Returns:
        The ends between which packets have to be carried; None where the kernel carries them.
    """
    name, depot_pid = settings["interface"], settings.get("depot_pid")
    if settings["core_pid"] is None:
        unshare_network()
    else:
        enter_namespace(settings["core_pid"])
    ends = _join(name, settings) if settings["has_tun"] else None
    if ends is None:
        join_by_veth(name, WAN, settings["site_pid"])
    _set_up_in(settings["site_pid"], WAN, tuple(settings["site_addresses"]), _EVERYWHERE)
    # The sender's buffer must never be the limit: 16 MB hold twice the largest window of the experiments.
    _let_send()
    _set_up(name, (settings["core_address"],), settings["site_network"])
    if depot_pid is not None:
        if ends is None:
            # Its own way to the core, for a plain pair of interfaces has two ends only.
            join_by_veth(f"{name}d", WAN, depot_pid)
            _set_up(f"{name}d", (settings["core_address"],), f"{settings['depot_address']}/32")
        _set_up_in(depot_pid, WAN, (f"{settings['depot_address']}/32",), _EVERYWHERE)
    return ends


def set_up_lan(settings: dict[str, Any]) -> Ends | None:
    """Join the calling thread's namespace, a depot's, with its site by a LAN.

    The devices' addresses are those that they have on the WAN link: the site is one namespace, which answers for them
    on either interface. What the depot sends to the site's network takes the LAN, all else the WAN link.

    Args:
        settings: ``site_pid``, ``site_network``, ``depot_address``, and ``profile`` (None: a plain veth pair).

    Returns:
        The ends between which packets have to be carried, the depot as the core; None where the kernel carries them.
    """
    ends = None
    if settings["profile"] is not None:
        with in_namespace(settings["site_pid"]):
            site_tun = open_tun(LAN)
        ends = Ends(core=open_tun(LAN), site=site_tun)
    else:
        join_by_veth(LAN, LAN, settings["site_pid"])
    address = f"{settings['depot_address']}/32"
    _set_up_in(settings["site_pid"], LAN, (), address)
    _let_send()
    _set_up(LAN, (address,), settings["site_network"])
    return ends


def _join(name: str, settings: dict[str, Any]) -> Ends:
    """Open the TUN interfaces of a link."""
    depot_pid, depot_tun = settings.get("depot_pid"), None
    with in_namespace(settings["site_pid"]):
        site_tun = open_tun(WAN)
    if depot_pid is not None:
        with in_namespace(depot_pid):
            depot_tun = open_tun(WAN)
    return Ends(
        core=open_tun(name), site=site_tun, depot=depot_tun, depot_address=settings.get("depot_address") or ""
    )  # fmt: skip


def _let_send() -> None:
    set_sysctl("net/ipv4/tcp_wmem", "4096 65536 16777216")


def _set_up_in(pid: int, name: str, addresses: tuple[str, ...], route: str) -> None:
    with in_namespace(pid):
        _set_up(name, addresses, route)


def _set_up(name: str, addresses: tuple[str, ...], route: str) -> None:
    # Metrics of an earlier copy (ssthresh, RTT) must not colour the next one.
    set_sysctl("net/ipv4/tcp_no_metrics_save", 1)
    # A new namespace inherits the host's forwarding; none of them is a router.
    set_sysctl("net/ipv4/ip_forward", 0)
    with contextlib.suppress(OSError):
        set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
        set_sysctl("net/ipv6/conf/all/disable_ipv6", 1)
    wan = Interface(name=name, addresses=addresses, routes=(route,), txqueuelen=_QUEUE_PACKETS)
    set_up_interfaces((Interface(name="lo"), wan))

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

_QUEUE_PACKETS = 10000
"""Of the interfaces themselves: the queue that counts is that of the link model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The TUN descriptors of a link's two ends."""

    core: int
    site: int


def set_up_link(settings: dict[str, Any]) -> Ends | None:
    """Join the site with the core, and stay in the core.

    The first link of a world makes the core's namespace, the others enter it.

    Args:
        settings: ``site_pid``, ``site_addresses``, ``site_network``, ``core_address``, ``core_pid`` (None to make the
            core), ``interface`` (its name in the core) and ``has_tun`` (False: a plain veth pair).

    Returns:
        The ends between which packets have to be carried; None where the kernel carries them.
    """
    name = settings["interface"]
    if settings["core_pid"] is None:
        unshare_network()
    else:
        enter_namespace(settings["core_pid"])
    ends = None
    if settings["has_tun"]:
        with in_namespace(settings["site_pid"]):
            site_tun = open_tun("wan0")
        ends = Ends(core=open_tun(name), site=site_tun)
    else:
        join_by_veth(name, "wan0", settings["site_pid"])
    with in_namespace(settings["site_pid"]):
        _set_up("wan0", tuple(settings["site_addresses"]), "0.0.0.0/0")
    # The sender's buffer must never be the limit: 16 MB hold twice the largest window of the experiments.
    set_sysctl("net/ipv4/tcp_wmem", "4096 65536 16777216")
    _set_up(name, (settings["core_address"],), settings["site_network"])
    return ends


def _set_up(name: str, addresses: tuple[str, ...], route: str) -> None:
    # Metrics of an earlier copy (ssthresh, RTT) must not colour the next one.
    set_sysctl("net/ipv4/tcp_no_metrics_save", 1)
    # A new namespace inherits the host's forwarding; neither side is a router.
    set_sysctl("net/ipv4/ip_forward", 0)
    with contextlib.suppress(OSError):
        set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
        set_sysctl("net/ipv6/conf/all/disable_ipv6", 1)
    wan = Interface(name=name, addresses=addresses, routes=(route,), txqueuelen=_QUEUE_PACKETS)
    set_up_interfaces((Interface(name="lo"), wan))

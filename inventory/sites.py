"""Sites: devices behind one WAN link share its rate, its budget and its windows; and no two share an address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from inventory.host_view import HostView
from inventory.keys import SHARED
from inventory.time_window import TimeWindow

if TYPE_CHECKING:
    from nornir.core.inventory import Host


class Site(Struct, frozen=True, kw_only=True):
    """A site, by the values that its devices share.

    Attributes:
        name: Its name.
        link_rate_bps: Rate of its WAN link in bit/s, or None if unknown.
        cap_share: Share of that rate that all copies together may use, in (0, 1].
        server_address: Our address as its devices reach it; None if not given or not common to all.
        vrf: VRF through which they reach us; None if not given or not common to all.
        windows: Maintenance windows; empty means at any time.
        max_copies: Most concurrent copies over its link; None takes the run's limit.
        depot: Host name or URL of its depot, or None. With a depot images cross the link once, and devices fetch over
            the LAN.
        neighbours: Whether its devices serve each other.
        lan_rate_bps: Rate of the LAN between depot or neighbours and devices in bit/s, or None if unknown.
    """

    name: str
    link_rate_bps: float | None
    cap_share: float
    server_address: str | None
    vrf: str | None
    windows: tuple[TimeWindow, ...]
    max_copies: int | None
    depot: str | None = None
    neighbours: bool = False
    lan_rate_bps: float | None = None

    @property
    def cap_bps(self) -> float | None:
        """Return the rate that all copies to this site together may use, in bit/s on the link; None if unknown."""
        return None if self.link_rate_bps is None else self.link_rate_bps * self.cap_share


def sites_of(devices: Iterable[HostView]) -> dict[str, Site]:
    """Return the sites of some devices, by name. A device without a site has a link of its own.

    Raises:
        ConfigInvalid: Two devices of a site have different values of a key that belongs to the site.
    """
    members: dict[str, list[HostView]] = {}
    for device in devices:
        if device.site is not None:
            members.setdefault(device.site, []).append(device)
    return {name: _site(name, of_it) for name, of_it in members.items()}


def rate_missing(links: str, lacking: str, insist: str) -> ConfigInvalid:
    """Return the error about links whose rate is needed but unknown.

    Args:
        links: The sites, or devices without one, in words.
        lacking: Why copies need the rate on this host.
        insist: Option that starts the copies without it.
    """
    return ConfigInvalid(
        f"{links}: data key 'link_rate_bps': expected the rate of the WAN link in bit/s, found none, and {lacking}: "
        "copies would have neither a cap nor a pace",
        hint="Give it in the site's group, or load the module tcp_bbr and allow it "
        f"(net.ipv4.tcp_allowed_congestion_control); {insist} lets them run all the same",
    )


def _site(name: str, devices: list[HostView]) -> Site:
    first = devices[0]
    for other in devices[1:]:
        _agree(name, first, other)
    return Site(
        name=name,
        server_address=_common([device.server_address for device in devices]),
        vrf=_common([device.vrf for device in devices]),
        **{key: getattr(first, key) for key in SHARED},
    )


def _agree(site: str, first: HostView, other: HostView) -> None:
    for key in SHARED:
        expected, found = getattr(first, key), getattr(other, key)
        if expected != found:
            raise ConfigInvalid(
                f"data key '{key}': expected {_text(expected)} as {first.name} of the same site '{site}' has it, "
                f"found {_text(found)}",
                host=other.name,
                hint="Give it once, in the site's group",
            )


def _common(values: list[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)


_CONNECTION = "napalm"
"""Connection whose options may have another port than the host's."""


def check_addresses(hosts: Iterable[Host]) -> None:
    """Check that no two selected devices have the same login address and port.

    Two inventory names for one device would change its configuration at the same time.

    Names are not resolved: two names of one address are found when the device says who it is.

    Args:
        hosts: The devices that a command is about.

    Raises:
        ConfigInvalid: Two are; both are named.
    """
    first: dict[tuple[str, int], str] = {}
    for host in hosts:
        if not host.hostname:
            continue  # reported at login
        address = _plain(host.hostname)
        port = host.get_connection_parameters(_CONNECTION).port or host.port or 22
        other = first.setdefault((address, port), host.name)
        if other != host.name:
            raise ConfigInvalid(
                f"hostname: {host.hostname} port {port} is the address of {other}, too: expected one device for each "
                "address",
                host=host.name,
                hint="Take one of them out of the inventory, give it its own address, or choose with --host",
            )


def _plain(address: str) -> str:
    """Return an address in normal form: IPv6 may be written in several ways, a name in any case."""
    try:
        return str(ipaddress.ip_address(address.strip()))
    except ValueError:
        return address.strip().rstrip(".").casefold()

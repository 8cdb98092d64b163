"""One address, one device: two names for one would both have it in hand, and take each other's lines for their own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from nornir.core.inventory import Host

from flashferry.core.errors import ConfigInvalid

_CONNECTION = "napalm"
"""Its connection options are where an inventory may state another port."""


def check_addresses(hosts: Iterable[Host]) -> None:
    """Check that no two of some devices are logged in to at the same address and port.

    Names are not resolved: two names of one address are found when the device says who it is.

    Args:
        hosts: The devices that a command is about.

    Raises:
        ConfigInvalid: Two are; both are named.
    """
    first: dict[tuple[str, int], str] = {}
    for host in hosts:
        if not host.hostname:
            continue  # told by whoever wants to log in to it
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
    """Return an address as it is compared: an IPv6 address may be written in several ways, a name in any case."""
    try:
        return str(ipaddress.ip_address(address.strip()))
    except ValueError:
        return address.strip().rstrip(".").casefold()

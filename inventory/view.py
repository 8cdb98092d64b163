"""The typed view on one inventory host: where it is, at which site, and what its WAN link carries.

Nornir keeps free-form `data` per host and group. The keys that flashferry reads are few, so they are checked
here, once, with errors that name host and key; everything else in `data` belongs to the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from inventory.errors import ConfigInvalid

DEFAULT_CAP_SHARE = 0.8
"""Share of a site's link that copies may take unless the inventory says otherwise."""

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""An address, a name or a VRF as one word: it goes into a command line, where a blank or line break ends it."""

INTERFACE = re.compile(r"[A-Za-z][A-Za-z-]*\d+(?:[/.:]\d+)*")
"""An interface name as one word: `GigabitEthernet0/0/0`, `Gi0`, `Loopback0`, `Vlan10`, `Te1/1/1.100`."""

SUPPORTED_PLATFORMS = ("ios",)
"""NAPALM's name for both Cisco IOS and IOS-XE."""


class InventoryHost(Protocol):
    """What we need of `nornir.core.inventory.Host`: merged attributes and merged data."""

    name: str
    hostname: str | None
    port: int | None
    platform: str | None

    def extended_data(self) -> Mapping[str, object]:
        """Return the data of host, groups and defaults, the nearest winning."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One device as flashferry sees it.

    Attributes:
        name: Inventory name.
        address: Name or address to log in to.
        port: SSH port.
        platform: NAPALM platform, one of `SUPPORTED_PLATFORMS`.
        site: Name of the site whose link the device shares, or None.
        link_rate_bps: Rate of the site's WAN link in bit/s, or None where nobody said.
        cap_share: Share of that rate that copies may take, in (0, 1].
        server_address: Our address as the device reaches it, or None: the local end of the SSH connection.
        vrf: VRF through which the device reaches us, or None.
        source_interface: Interface from which the device's FTP client is to come, or None: as the device has it. IOS
            knows it only as a configuration line, so it is set for the copy and put back like the tuned lines.
    """

    name: str
    address: str
    port: int
    platform: str
    site: str | None
    link_rate_bps: float | None
    cap_share: float
    server_address: str | None
    vrf: str | None
    source_interface: str | None = None

    @property
    def cap_bps(self) -> float | None:
        """Return the rate that copies to this site may take together, in bit/s on the link; None if unknown."""
        return None if self.link_rate_bps is None else self.link_rate_bps * self.cap_share


def view(host: InventoryHost) -> HostView:
    """Return the checked view on a Nornir host.

    Raises:
        ConfigInvalid: The host has no address, an unsupported platform, or a key with a value of the wrong kind.
    """
    data = host.extended_data()
    if not host.hostname:
        raise ConfigInvalid("no 'hostname' in the inventory", host=host.name, hint="Give its address or DNS name")
    platform = host.platform or ""
    if platform not in SUPPORTED_PLATFORMS:
        raise ConfigInvalid(
            f"platform: expected {' or '.join(SUPPORTED_PLATFORMS)} (IOS and IOS-XE), found {platform or 'none'!r}",
            host=host.name,
        )
    return HostView(
        name=host.name,
        address=host.hostname,
        port=host.port or 22,
        platform=platform,
        site=_text(host.name, data, "site"),
        link_rate_bps=_number(host.name, data, "link_rate_bps", low=1_000, high=1e12),
        cap_share=_number(host.name, data, "cap_share", low=0.01, high=1.0) or DEFAULT_CAP_SHARE,
        server_address=_text(host.name, data, "server_address"),
        vrf=_text(host.name, data, "vrf"),
        source_interface=_interface(host.name, data.get("source_interface")),
    )


def _text(host: str, data: Mapping[str, object], key: str) -> str | None:
    value = data.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str) and WORD.fullmatch(value):
        return value
    raise ConfigInvalid(
        f"data key '{key}': expected one word of letters, digits, '.', '_', '-', found {value!r}", host=host
    )


def _interface(host: str, value: object) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and INTERFACE.fullmatch(value):
        return value
    raise ConfigInvalid(
        f"data key 'source_interface': expected an interface such as GigabitEthernet0/0, found {value!r}", host=host
    )


def _number(host: str, data: Mapping[str, object], key: str, *, low: float, high: float) -> float | None:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigInvalid(f"data key '{key}': expected a number from {low:g} to {high:g}, found {value!r}", host=host)
    return float(value)

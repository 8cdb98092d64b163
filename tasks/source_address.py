"""Where a device's copy comes from: the VRF and the source interface of the inventory, or any of its own addresses.

Facts
-----
* A source interface is ignored while it is down (Cisco command reference), and the copy then comes from an unexpected
  address: so VRF and interface are checked before.
* Without one a copy comes from the interface that it leaves by. A router that is managed by its loopback address
  therefore comes from another address than the one that we log in to.
"""

from __future__ import annotations

import re

from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.devices.session import DeviceSession
from templates.ntc import ntc_rows
from templates.rows import VrfDefinition, rows

MOST_ADDRESSES = 256
"""A router of a provider has thousands of interfaces; the ticket is then bound to its first addresses."""

_ROW = re.compile(r"(?m)^[A-Za-z]\S*\s+(\d{1,3}(?:\.\d{1,3}){3})\s+(?:YES|NO)\b")


def own_addresses(session: DeviceSession) -> tuple[str, ...]:
    """Return where connections of the device may come from: the address we reach it at, then those it lists."""
    reached = session.peer_address
    try:
        listed = _ROW.findall(session.ask(session.platform.commands.addresses, limit_s=60))
    except (DeviceRefused, OutputNotUnderstood):
        listed = []
    return tuple(dict.fromkeys((reached, *(one for one in listed if _is_ipv4(one)))))[:MOST_ADDRESSES]


def _is_ipv4(text: str) -> bool:
    return all(int(part) <= 255 for part in text.split(".")) and not text.startswith(("0.", "127."))


_INTERFACE_ROW = re.compile(r"(?m)^([A-Za-z]\S*)\s+(\d{1,3}(?:\.\d{1,3}){3})\s+(?:YES|NO)\b.*\bup\s+up\s*$")


def interface_with(session: DeviceSession, *, named: str | None = None) -> tuple[str, str] | None:
    """Return name and address of the interface from which a copy is to come; None where it is not up.

    `named` is the inventory's source interface; None: the interface with the address that we reach the device at.
    """
    try:
        listed = _INTERFACE_ROW.findall(session.ask(session.platform.commands.addresses, limit_s=60))
    except (DeviceRefused, OutputNotUnderstood):
        return None
    reached = session.peer_address
    is_meant = (lambda row: row[1] == reached) if named is None else (lambda row: same_interface(named, row[0]))
    return next((row for row in listed if is_meant(row)), None)


_NAME = re.compile(r"([A-Za-z-]+)\s*([\d/.:]*)")


def vrf_refusal(vrf: str | None, running: str) -> str | None:
    """Return why a VRF cannot be used, or None."""
    names = [row.name for row in rows(VrfDefinition, running)]
    if vrf is None or vrf in names:
        return None
    there = f"the device has {', '.join(names)}" if names else "the device has none"
    return f"VRF '{vrf}' of the inventory: {there}; VRF names are case-sensitive"


def interface_refusal(interface: str | None, brief: str) -> str | None:
    """Return why a source interface cannot be used, or None."""
    if interface is None:
        return None
    table = {str(row["interface"]): row for row in ntc_rows("show ip interface brief", brief)}
    found = next((name for name in table if same_interface(interface, name)), None)
    if found is None:
        known = ", ".join(list(table)[:8]) or "no interface at all"
        return f"source interface '{interface}' of the inventory: the device has {known}"
    row = table[found]
    if not re.match(r"\d", str(row["ip_address"])):
        return f"source interface {found} of the inventory has no IPv4 address"
    if (str(row["status"]), str(row["proto"])) != ("up", "up"):
        return f"source interface {found} of the inventory is {row['status']}/{row['proto']}: it would be ignored"
    return None


def same_interface(given: str, full: str) -> bool:
    """Return whether a name, possibly cut as IOS takes it (`Gi1`), means an interface (`GigabitEthernet1`)."""
    short, long = _NAME.fullmatch(given.strip()), _NAME.fullmatch(full.strip())
    if short is None or long is None:
        return given.strip().lower() == full.strip().lower()
    return short[2] == long[2] and long[1].lower().startswith(short[1].lower())

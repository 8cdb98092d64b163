"""Interface names and the state that follows from their configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.standin.configuration import Configuration, Line

_KINDS = ("GigabitEthernet", "Loopback", "Tunnel", "Vlan", "TenGigabitEthernet")
_VIRTUAL = ("Loopback", "Tunnel", "Vlan")


def canonical_interface(name: str, configuration: Configuration) -> str | None:
    """Write an interface name out (``Gi1`` becomes ``GigabitEthernet1``).

    Returns None for a physical interface that the device does not have; virtual ones are made on demand.
    """
    found = re.fullmatch(r"([A-Za-z]+)\s*(\d[\d/.]*)", name)
    kinds = [kind for kind in _KINDS if found and kind.lower().startswith(found[1].lower())]
    if found is None or not kinds:
        return None
    full = f"{kinds[0]}{found[2]}"
    if kinds[0] in _VIRTUAL or configuration.find(f"interface {full}") is not None:
        return full
    return None


def interface_lines(configuration: Configuration) -> list[Line]:
    """Return the interface sections in order."""
    return [line for line in configuration.lines() if line.text.startswith("interface ")]


def address_of(section: Line) -> str | None:
    """Return the address of an interface section."""
    texts = [child.text for child in section.children if child.text.startswith("ip address ")]
    return texts[0].split()[2] if texts else None


def is_shut(section: Line) -> bool:
    """Tell whether the interface is administratively down."""
    return any(child.text == "shutdown" for child in section.children)


def brief(configuration: Configuration) -> str:
    """Return `show ip interface brief`."""
    rows = ["Interface              IP-Address      OK? Method Status                Protocol"]
    for section in interface_lines(configuration):
        name = section.text.removeprefix("interface ")
        address = address_of(section)
        status, protocol = ("administratively down", "down") if is_shut(section) else ("up", "up")
        method = "NVRAM" if address else "unset"
        rows.append(f"{name:<22} {address or 'unassigned':<15} YES {method:<6} {status:<21} {protocol:<8}")
    return "".join(f"{row}\n" for row in rows)


def source_address(configuration: Configuration, interface: str) -> str | None:
    """Return the address of `ip ftp source-interface`; None when it is down or has none, then it is ignored."""
    name = canonical_interface(interface, configuration)
    section = configuration.find(f"interface {name}")
    return None if section is None or is_shut(section) else address_of(section)

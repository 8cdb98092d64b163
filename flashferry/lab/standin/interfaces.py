"""Interface names and the state that follows from their configuration; `show_interfaces` prints it."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration, Line

_KINDS = (
    "GigabitEthernet", "FastEthernet", "Ethernet", "Loopback", "Tunnel", "Vlan", "TenGigabitEthernet", "TwentyFiveGigE",
    "FortyGigabitEthernet",
)  # fmt: skip
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


def network_of(section: Line) -> ipaddress.IPv4Network | None:
    """Return the network that an interface is connected to; None also where its mask has gaps and makes none."""
    texts = [child.text.split() for child in section.children if child.text.startswith("ip address ")]
    with contextlib.suppress(ValueError):
        return ipaddress.IPv4Network((texts[0][2], texts[0][3]), strict=False) if texts else None
    return None


def vrf_of(section: Line) -> str:
    """Return the VRF of an interface section; empty for the global table."""
    return value_of(section, "vrf forwarding") or ""


def is_shut(section: Line) -> bool:
    """Return whether the interface is administratively down."""
    return any(child.text == "shutdown" for child in section.children)


def interface_name(section: Line) -> str:
    """Return the name of an interface section."""
    return section.text.removeprefix("interface ")


def is_virtual(name: str) -> bool:
    """Return whether an interface has no plug."""
    return name.startswith(_VIRTUAL)


def is_up(section: Line, cabled: tuple[str, ...]) -> bool:
    """Return whether an interface is up: it is not shut, and virtual, addressed or one with a cable.

    The stand-in has one way out, by the interface with the world's address; a plug that has neither address nor cable
    is down although it is not shut.
    """
    name = interface_name(section)
    return not is_shut(section) and (is_virtual(name) or address_of(section) is not None or name in cabled)


def value_of(section: Line, key: str) -> str | None:
    """Return what follows ``key`` in a line of an interface section; None without such a line."""
    texts = [child.text for child in section.children if child.text.startswith(f"{key} ")]
    return texts[0].removeprefix(f"{key} ") if texts else None


def short_name(name: str) -> str:
    """Return an interface's name as tables shorten it (``Gi1/0/1``)."""
    kind = next((kind for kind in _KINDS if name.startswith(kind)), name)
    return f"{'Twe' if kind == 'TwentyFiveGigE' else kind[:2]}{name.removeprefix(kind)}"

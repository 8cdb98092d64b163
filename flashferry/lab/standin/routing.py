"""Which way a connection of the device leaves: routing tables (VRFs), interfaces and source addresses as configured.

Facts 4.1: a management port is in a VRF of its own, and a copy that has to leave by it needs `ip ftp source-interface`
or the keyword ``vrf`` after the destination. `ip ftp source-interface` takes the VRF of its interface (12.3(6) and
later) and is ignored while that is down (Cisco command reference). A table without an interface that is up, has an
address and leads there brings nothing out; that `copy` then says ``Timed out`` is unconfirmed.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import canonical_interface, interface_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.configuration import Configuration, Line

GLOBAL_TABLE = ""
"""The name of the routing table that is no VRF's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPath:
    """How a connection leaves: the VRF (empty for the global table) and the source address."""

    vrf: str
    source_address: str


def path_to(
    configuration: Configuration, destination: str, *, vrf: str | None = None, source_interface: str | None = None
) -> RoutedPath | None:
    """Return how a connection leaves for a host; None where no table has a way.

    A host's name is looked for by the default route. `vrf` is the table that the command names, `source_interface` what
    `ip ftp source-interface` says.
    """
    source = _usable(configuration, source_interface)
    table = vrf if vrf is not None else source.vrf if source is not None else GLOBAL_TABLE
    leaving = interface_towards(configuration, table, destination)
    if leaving is None:
        return None
    chosen = source if source is not None and source.vrf == table else leaving
    return RoutedPath(vrf=table, source_address=chosen.address or "")


def vrf_names(configuration: Configuration) -> frozenset[str]:
    """Return the VRFs that are defined."""
    lines = [line.text for line in configuration.lines() if line.text.startswith("vrf definition ")]
    return frozenset(text.removeprefix("vrf definition ") for text in lines)


def _usable(configuration: Configuration, name: str | None) -> Line | None:
    full = canonical_interface(name, configuration) if name else None
    section = configuration.find(f"interface {full}") if full else None
    return section if section is not None and not section.is_shut and section.address else None


def interface_towards(configuration: Configuration, table: str, destination: str) -> Line | None:
    """Return the interface with the longest prefix that covers a host; connected networks come before routes."""
    host = _address(destination)
    usable = [s for s in interface_lines(configuration) if s.vrf == table and not s.is_shut and s.address]
    candidates = [(network.prefixlen, section) for section in usable if (network := section.network)
                  and host in network]  # fmt: skip
    for network, via in static_routes(configuration, table):
        section = _next_hop(usable, via, configuration)
        if section is not None and host in network:
            candidates.append((network.prefixlen, section))
    return max(candidates, key=lambda each: each[0])[1] if candidates else None


def _next_hop(usable: list[Line], via: str, configuration: Configuration) -> Line | None:
    name = canonical_interface(via, configuration)
    for section in usable:
        network = section.network
        if section.text == f"interface {name}" or (network and _address(via) in network and name is None):
            return section
    return None


def static_routes(configuration: Configuration, table: str) -> Iterator[tuple[ipaddress.IPv4Network, str]]:
    """Return the static routes of a table: each network, and the next hop or interface that leads there."""
    for line in configuration.lines():
        words = line.text.split()
        if words[:2] != ["ip", "route"]:
            continue
        own, rest = (words[3], words[4:]) if words[2:3] == ["vrf"] and len(words) > 3 else (GLOBAL_TABLE, words[2:])
        try:
            network = ipaddress.IPv4Network((rest[0], rest[1]))
        except (IndexError, ValueError):
            continue
        if own == table and len(rest) > 2:
            yield network, rest[2]


def is_address(host: str) -> bool:
    """Return whether a host is written as an address, not as a name."""
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _address(text: str) -> ipaddress.IPv4Address:
    """Return a host's address; a name stands for one that only the default route covers."""
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return ipaddress.IPv4Address(0)

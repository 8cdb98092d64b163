"""`show ip route`, `show ip arp`, `show ip cef` and `show vrf`: what `routing` goes by, as tables."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from flashferry.lab.standin.hardware import dotted
from flashferry.lab.standin.interfaces import (
    address_of,
    canonical_interface,
    interface_lines,
    interface_name,
    network_of,
    short_name,
    vrf_of,
)
from flashferry.lab.standin.routing import GLOBAL_TABLE, interface_towards, static_routes, vrf_names
from flashferry.lab.standin.show_interfaces import is_usable, mac_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
Network = ipaddress.IPv4Network
_DEFAULT = Network("0.0.0.0/0")


def route(vty: Vty, _: Arguments) -> str:
    """`show ip route`: the global table."""
    return _table(vty.device, GLOBAL_TABLE)


def route_vrf(vty: Vty, arguments: Arguments) -> str:
    """`show ip route vrf NAME`."""
    if arguments[0] not in vrf_names(vty.device.running):
        return f"% IP routing table {arguments[0]} does not exist\n"
    return f"\nRouting Table: {arguments[0]}\n{_table(vty.device, arguments[0])}"


def route_summary(vty: Vty, _: Arguments) -> str:
    """`show ip route summary`: the global table, counted; the shape is that of the Cisco command reference."""
    counted = {"connected": 0, "static": 0}
    for row in _rows(vty.device, GLOBAL_TABLE):
        counted["static" if row[1].startswith("S") else "connected"] += 1
    total = sum(counted.values())
    rows = ["IP routing table name is default (0x0)", "IP routing table maximum-paths is 32",
            "Route Source    Networks    Subnets     Replicates  Overhead    Memory (bytes)"]  # fmt: skip
    rows += [f"{name:<16}{0:<12}{count:<12}{0:<12}{96 * count:<12}{312 * count}" for name, count in counted.items()]
    rows += [
        f"{'internal':<16}{1:<36}{0:<12}{372}",
        f"{'Total':<16}{1:<12}{total:<12}{0:<12}{96 * total:<12}{312 * total}",
    ]
    return "".join(f"{row}\n" for row in rows)


def _table(device: Device, table: str) -> str:
    rows = sorted(_rows(device, table))
    defaults = [text for network, text in rows if network == _DEFAULT]
    others = [(network, text) for network, text in rows if network != _DEFAULT]
    last = "Gateway of last resort is not set"
    if defaults:
        via = defaults[0].partition(" via ")[2] or str(_DEFAULT.network_address)
        last = f"Gateway of last resort is {via} to network 0.0.0.0"
    return "".join(f"{line}\n" for line in (*_CODES, "", last, "", *defaults, *_grouped(others)))


def _rows(device: Device, table: str) -> Iterator[tuple[Network, str]]:
    """Return the routes that lead out by an interface that is up."""
    running = device.running
    for section in interface_lines(running):
        network, address = network_of(section), address_of(section)
        if network is None or address is None or vrf_of(section) != table or not is_usable(device, section):
            continue
        name = interface_name(section)
        yield network, f"C        {network} is directly connected, {name}"
        if network.prefixlen < 32:
            yield Network(f"{address}/32"), f"L        {address}/32 is directly connected, {name}"
    for network, via in static_routes(running, table):
        own = canonical_interface(via, running)
        leaving = running.find(f"interface {own}") if own is not None else None
        if leaving is not None and is_usable(device, leaving):
            shown = f"{network} is directly connected, {own}"
        elif own is None and interface_towards(running, table, via) is not None:
            shown = f"{network} [1/0] via {via}"
        else:
            continue
        yield network, f"{'S*    ' if network == _DEFAULT else 'S        '}{shown}"


def _grouped(rows: list[tuple[Network, str]]) -> list[str]:
    """Put the routes of a classful network under its headline."""
    lines: list[str] = []
    majors = sorted({_major(network) for network, _ in rows})
    for major in majors:
        own = [(network, text) for network, text in rows if _major(network) == major]
        masks = {network.prefixlen for network, _ in own}
        count = len({network for network, _ in own})
        if len(masks) > 1:
            lines.append(f"      {major} is variably subnetted, {count} subnets, {len(masks)} masks")
        elif masks != {major.prefixlen}:
            only = f"{major.network_address}/{masks.pop()}"
            lines.append(f"      {only} is subnetted, {count} subnets")
        lines += [text for _, text in own]
    return lines


def _major(network: Network) -> Network:
    """Return the classful network that a network is in; a shorter prefix stands for itself."""
    first = int(network.network_address) >> 24
    length = 8 if first < 128 else 16 if first < 192 else 24
    return network.supernet(new_prefix=length) if network.prefixlen > length else network


def arp(vty: Vty, _: Arguments) -> str:
    """`show ip arp`: the device's own addresses; it knows no others, for its link has no layer 2."""
    rows = ["Protocol  Address          Age (min)  Hardware Addr   Type   Interface"]
    for section in interface_lines(vty.device.running):
        address, name = address_of(section), interface_name(section)
        if address is None or name.startswith(("Loopback", "Tunnel")) or not is_usable(vty.device, section):
            continue
        mac = dotted(mac_of(vty.device, section))
        rows.append(f"Internet  {address:<15}         -   {mac}  ARPA   {name}")
    return "".join(f"{row}\n" for row in rows)


def cef(vty: Vty, _: Arguments) -> str:
    """`show ip cef`: the global table as it is forwarded."""
    device = vty.device
    found: dict[Network, tuple[str, str]] = {
        _DEFAULT: ("no route", ""), Network("0.0.0.0/8"): ("drop", ""), Network("0.0.0.0/32"): ("receive", ""),
        Network("127.0.0.0/8"): ("drop", ""), Network("224.0.0.0/4"): ("drop", ""),
        Network("224.0.0.0/24"): ("receive", ""), Network("240.0.0.0/4"): ("drop", ""),
        Network("255.255.255.255/32"): ("receive", ""),
    }  # fmt: skip
    for network, text in _rows(device, GLOBAL_TABLE):
        hop, name = ("receive" if text.startswith("L") else "attached"), text.rpartition(", ")[2]
        if " via " in text:
            hop = text.partition(" via ")[2]
            section = interface_towards(device.running, GLOBAL_TABLE, hop)
            name = interface_name(section) if section is not None else ""
        found[network] = (hop, name)
        if text.startswith("C") and network.prefixlen < 31:
            for own in (network.network_address, network.broadcast_address):
                found[Network(f"{own}/32")] = ("receive", name)
    rows = ["Prefix               Next Hop             Interface"]
    rows += [f"{network!s:<20} {hop:<20} {name}".rstrip() for network, (hop, name) in sorted(found.items())]
    return "".join(f"{row}\n" for row in rows)


def vrf(vty: Vty, _: Arguments) -> str:
    """`show vrf`; nothing at all where there is none."""
    running = vty.device.running
    rows: list[str] = []
    for line in running.lines():
        if not line.text.startswith("vrf definition "):
            continue
        name = line.text.removeprefix("vrf definition ")
        texts = [child.text for child in line.children]
        rd = next((text.removeprefix("rd ") for text in texts if text.startswith("rd ")), "<not set>")
        protocols = ",".join(p for p in ("ipv4", "ipv6") if f"address-family {p}" in texts)
        own = [short_name(interface_name(s)) for s in interface_lines(running) if vrf_of(s) == name] or [""]
        rows.append(f"  {name:<32} {rd:<21} {protocols:<11} {own[0]}".rstrip())
        rows += [f"{'':<69}{each}" for each in own[1:]]
    head = "  Name                             Default RD            Protocols   Interfaces"
    return "".join(f"{row}\n" for row in (head, *rows)) if rows else ""


_CODES = (
    "Codes: L - local, C - connected, S - static, R - RIP, M - mobile, B - BGP",
    "       D - EIGRP, EX - EIGRP external, O - OSPF, IA - OSPF inter area ",
    "       N1 - OSPF NSSA external type 1, N2 - OSPF NSSA external type 2",
    "       E1 - OSPF external type 1, E2 - OSPF external type 2",
    "       i - IS-IS, su - IS-IS summary, L1 - IS-IS level-1, L2 - IS-IS level-2",
    "       ia - IS-IS inter area, * - candidate default, U - per-user static route",
    "       o - ODR, P - periodic downloaded static route, H - NHRP, l - LISP",
    "       a - application route",
    "       + - replicated route, % - next hop override, p - overrides from PfR",
)

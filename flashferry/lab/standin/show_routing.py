"""`show ip route`, `show ip arp`, `show ip cef`, `show vrf`, and `show tcp` as the kernel knows the connections."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import canonical_interface, interface_lines, short_name
from flashferry.lab.standin.device_tcp import parse_kernel_tcp, read_kernel_tcp
from flashferry.lab.standin.hardware import dotted
from flashferry.lab.standin.routing import GLOBAL_TABLE, interface_towards, static_routes, vrf_names
from flashferry.lab.standin.show_interfaces import is_usable, mac_of
from flashferry.lab.standin.texts_data import printed, printed_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.connections import Connection
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
Network = ipaddress.IPv4Network
_DEFAULT = Network("0.0.0.0/0")


def route(vty: Vty, _: Arguments) -> str:
    """`show ip route`: the global table."""
    return _table(vty.device, GLOBAL_TABLE)


def route_to(vty: Vty, arguments: Arguments) -> str:
    """`show ip route A.B.C.D`: the entry with the longest prefix; as genieparser's captures have it."""
    host, table = ipaddress.IPv4Address(arguments[0]), list(_rows(vty.device, GLOBAL_TABLE))
    fitting = [row for row in table if host in row[0] and (row[0] != _DEFAULT or not int(host))]
    if not fitting:
        major = _major(Network(f"{host}/32"))
        is_in_table = any(network.subnet_of(major) for network, _ in table if network != _DEFAULT)
        return "% Subnet not in table\n" if is_in_table else "% Network not in table\n"
    network, text = max(fitting, key=lambda each: each[0].prefixlen)
    kind, _, rest = text.partition(" ")
    is_static, via = kind.startswith("S"), rest.partition(" via ")[2]
    return printed(
        "route entry", network=network, distance=int(is_static), known='"static"' if is_static else '"connected"',
        default=", candidate default path" if network == _DEFAULT else ", supernet" * (network.prefixlen < 8),
        how=" (connected, via interface)" if not is_static else "" if via else " (connected)",
        last=f"  * {via}" if via else f"  * directly connected, via {rest.rpartition(', ')[2]}",
    )  # fmt: skip


def route_by(vty: Vty, _: Arguments) -> str:
    """`show ip route connected|static|...`: the rows of one source, without the legend."""
    letters = {"connected": ("C", "L"), "static": ("S",)}.get(vty.words[3], ())
    rows = sorted(row for row in _rows(vty.device, GLOBAL_TABLE) if row[1].startswith(letters or ("none",)))
    return "".join(f"{line}\n" for line in _grouped(rows))


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
    rows = list(printed_rows("route summary"))
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
    return "".join(
        f"{line}\n" for line in (*printed_rows("ip route codes"), "", last, "", *defaults, *_grouped(others))
    )


def _rows(device: Device, table: str) -> Iterator[tuple[Network, str]]:
    """Return the routes that lead out by an interface that is up."""
    running = device.running
    for section in interface_lines(running):
        network, address = section.network, section.address
        if network is None or address is None or section.vrf != table or not is_usable(device, section):
            continue
        name = section.interface
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
        address, name = section.address, section.interface
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
            name = section.interface if section is not None else ""
        found[network] = (hop, name)
        if text.startswith("C") and network.prefixlen < 31:
            for own in (network.network_address, network.broadcast_address):
                found[Network(f"{own}/32")] = ("receive", name)
    rows = ["Prefix               Next Hop             Interface"]
    rows += [f"{network!s:<20} {hop:<20} {name}".rstrip() for network, (hop, name) in sorted(found.items())]
    return "".join(f"{row}\n" for row in rows)


def _vrfs(vty: Vty) -> Iterator[tuple[str, str, tuple[str, ...], list[str]]]:
    """Yield name, route distinguisher, protocols and interfaces of each VRF."""
    running = vty.device.running
    for line in running.lines():
        if not line.text.startswith("vrf definition "):
            continue
        name = line.text.removeprefix("vrf definition ")
        texts = [child.text for child in line.children]
        rd = next((text.removeprefix("rd ") for text in texts if text.startswith("rd ")), "<not set>")
        protocols = tuple(p for p in ("ipv4", "ipv6") if f"address-family {p}" in texts)
        yield (
            name,
            rd,
            protocols,
            [short_name(s.interface) for s in interface_lines(running) if s.vrf == name],
        )


def vrf_detail(vty: Vty, arguments: Arguments) -> str:
    """`show vrf detail [NAME]`: the lines of genieparser's captures."""
    blocks = []
    for number, (name, rd, protocols, interfaces) in enumerate(_vrfs(vty), start=1):
        if arguments and arguments[0] != name:
            continue
        rows = [f"VRF {name} (VRF Id = {number}); default RD {rd}; default VPNID <not set>",
                "  New CLI format, supports multiple address-families", "  Flags: 0x1808"]  # fmt: skip
        rows += ["  Interfaces:", f"    {'   '.join(interfaces)}"] if interfaces else ["  No interfaces"]
        for family in ("ipv4", "ipv6"):
            if family not in protocols:
                rows.append(f"Address family {family} unicast not active")
                continue
            rows.append(f"Address family {family} unicast (Table ID = 0x{number:X}):")
            rows += printed_rows("vrf family")
        rows += ["Address family ipv4 multicast not active", "Address family ipv6 multicast not active"]
        blocks.append("".join(f"{row}\n" for row in rows))
    return "\n".join(blocks)


def vrf(vty: Vty, _: Arguments) -> str:
    """`show vrf`; nothing at all where there is none."""
    rows: list[str] = []
    for name, rd, protocols, interfaces in _vrfs(vty):
        rows.append(f"  {name:<32} {rd:<21} {','.join(protocols):<11} {(*interfaces, '')[0]}".rstrip())
        rows += [f"{'':<69}{each}" for each in interfaces[1:]]
    head = "  Name                             Default RD            Protocols   Interfaces"
    return "".join(f"{row}\n" for row in (head, *rows)) if rows else ""


_TIMERS = (
    "Retrans", "TimeWait", "AckHold", "SendWnd", "KeepAlive", "GiveUp", "PmtuAger", "DeadWait", "Linger", "ProcessQ",
)  # fmt: skip


def brief(vty: Vty, _: Arguments) -> str:
    """`show tcp brief`: the live connections of the device, SSH and FTP."""
    rows = ["TCB       Local Address               Foreign Address             (state)"]
    for row in vty.device.connections.rows():
        local, foreign = (f"{host}.{port}" for host, port in (row.local, row.foreign))
        rows.append(f"{row.tcb}  {local:<26}  {foreign:<26}  {row.state}")
    return "".join(f"{row}\n" for row in rows)


def blocks(vty: Vty, _: Arguments) -> str:
    """`show tcp`: a block for each connection."""
    return "".join(f"\nTCB {row.tcb}\n{_block(vty, row)}" for row in vty.device.connections.rows())


def tcb(vty: Vty, arguments: Arguments) -> str:
    """`show tcp tcb ADDRESS`."""
    requested = arguments[0].upper().removeprefix("0X")
    row = next((row for row in vty.device.connections.rows() if row.tcb == requested), None)
    return f"%TCB {arguments[0]} is not valid\n" if row is None else _block(vty, row)


def statistics(vty: Vty, _: Arguments) -> str:
    """`show tcp statistics`: shape of the Cisco command reference."""
    table = vty.device.connections
    return printed("tcp statistics", table=table, total=table.totals(), closed=table.opened - len(table.rows()))


def _block(vty: Vty, row: Connection) -> str:
    """Return a connection; the initial sequence numbers are made up, what was carried is added to them."""
    kernel = read_kernel_tcp(row.live) or parse_kernel_tcp(b"")
    running, scales = vty.device.running, row.options.window_scaling
    iss, irs = int(row.tcb[-8:], 16), int(row.tcb[-9:-1], 16)
    window_bytes = min(kernel.receive_window_bytes or row.window_bytes, row.window_bytes)
    flags = ["nagle"]
    flags += ["path mtu capable"] if running.find("ip tcp path-mtu-discovery") else []
    flags += ["SACK option permitted"] if kernel.has_sack and row.options.sack else []
    flags += ["win-scale"] if kernel.has_scaling and scales else []
    return printed(
        "tcp connection", row=row, kernel=kernel, queue=running.value("ip tcp queuemax") or "50",
        timers="".join(f"{name:<12}{0:8d}{0:11d}             0x0\n" for name in _TIMERS),
        now_ms=int(1000 * time.monotonic()) & 0xFFFFFFFF, uptime_ms=int(1000 * (time.monotonic() - row.opened_s)),
        iss=iss, sent=(iss + 1 + kernel.bytes_out) % 2**32, irs=irs, received=(irs + 1 + kernel.bytes_in) % 2**32,
        scales=(kernel.send_scale, kernel.receive_scale) if scales else (0, 0),
        window_bytes=window_bytes, left_bytes=row.window_bytes - window_bytes,
        most_ms=kernel.rtt_ms + 4 * kernel.rtt_variation_ms, flags=", ".join(flags),
        status="passive open, gen tcbs" if row.local[1] == vty.device.settings.port else "active open",
    )  # fmt: skip

"""`show ip route`, `show ip arp`, `show ip cef` and `show vrf`: what `routing` goes by, as tables."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import (
    address_of,
    canonical_interface,
    interface_lines,
    interface_name,
    network_of,
    short_name,
    vrf_of,
)
from flashferry.lab.standin.device_tcp import parse_kernel_tcp, read_kernel_tcp
from flashferry.lab.standin.hardware import dotted
from flashferry.lab.standin.routing import GLOBAL_TABLE, interface_towards, static_routes, vrf_names
from flashferry.lab.standin.show_interfaces import is_usable, mac_of
from flashferry.lab.standin.texts_data import printed_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.connections import Connection
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.device_tcp import KernelTcp
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
Network = ipaddress.IPv4Network
_DEFAULT = Network("0.0.0.0/0")


def route(vty: Vty, _: Arguments) -> str:
    """`show ip route`: the global table."""
    return _table(vty.device, GLOBAL_TABLE)


def route_to(vty: Vty, arguments: Arguments) -> str:
    """`show ip route A.B.C.D`: the entry with the longest prefix; as genieparser's captures have it."""
    host = ipaddress.IPv4Address(arguments[0])
    rows = [row for row in _rows(vty.device, GLOBAL_TABLE) if row[0] != _DEFAULT or not int(host)]
    fitting = [(network, text) for network, text in rows if host in network]
    if not fitting:
        shown = _major(Network(f"{host}/32"))
        return "% Network not in table\n" if not _is_in_table(vty, shown) else "% Subnet not in table\n"
    network, text = max(fitting, key=lambda each: each[0].prefixlen)
    kind, _, rest = text.partition(" ")
    is_static, via = kind.startswith("S"), rest.partition(" via ")[2]
    known = '"static"' if is_static else '"connected"'
    name = rest.rpartition(", ")[2]
    last = f"  * {via}" if via else f"  * directly connected, via {name}"
    default = ", candidate default path" if network == _DEFAULT else ", supernet" * (network.prefixlen < 8)
    via_interface = "" if not is_static or via else " (connected)"
    return (
        f"Routing entry for {network}{default}\n  Known via {known}, distance {int(is_static)}, metric 0"
        f"{via_interface or (' (connected, via interface)' if not is_static else '')}\n"
        f"  Routing Descriptor Blocks:\n{last}\n      Route metric is 0, traffic share count is 1\n"
    )


def _is_in_table(vty: Vty, major: Network) -> bool:
    return any(network.subnet_of(major) for network, _ in _rows(vty.device, GLOBAL_TABLE) if network != _DEFAULT)


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
            [short_name(interface_name(s)) for s in interface_lines(running) if vrf_of(s) == name],
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
            rows += _VRF_FAMILY
        rows += ["Address family ipv4 multicast not active", "Address family ipv6 multicast not active"]
        blocks.append("".join(f"{row}\n" for row in rows))
    return "\n".join(blocks)


_VRF_FAMILY = (
    "  Flags: 0x0", "  No Export VPN route-target communities", "  No Import VPN route-target communities",
    "  No import route-map", "  No global export route-map", "  No export route-map",
    "  VRF label distribution protocol: not configured", "  VRF label allocation mode: per-prefix",
)  # fmt: skip


def vrf(vty: Vty, _: Arguments) -> str:
    """`show vrf`; nothing at all where there is none."""
    rows: list[str] = []
    for name, rd, protocols, interfaces in _vrfs(vty):
        rows.append(f"  {name:<32} {rd:<21} {','.join(protocols):<11} {(*interfaces, '')[0]}".rstrip())
        rows += [f"{'':<69}{each}" for each in interfaces[1:]]
    head = "  Name                             Default RD            Protocols   Interfaces"
    return "".join(f"{row}\n" for row in (head, *rows)) if rows else ""


_CODES = printed_rows("ip route codes")

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
    total, live = table.totals(), len(table.rows())
    return (
        f"Rcvd: {total.segments_in} Total, 0 no port\n"
        "      0 checksum error, 0 bad offset, 0 too short\n"
        f"      {total.data_segments_in} packets ({total.bytes_in} bytes) in sequence\n"
        "      0 dup packets (0 bytes)\n"
        "      0 partially dup packets (0 bytes)\n"
        f"      {total.out_of_order} out-of-order packets (0 bytes)\n"
        f"Sent: {total.segments_out} Total, 0 urgent packets\n"
        f"      {total.data_segments_out} data packets ({total.bytes_out} bytes)\n"
        f"      {total.retransmitted} data packets retransmitted (0 bytes)\n"
        f"{table.opened} Connections initiated, {table.opened} connections accepted, "
        f"{table.opened} connections established\n"
        f"{table.opened - live} Connections closed (including 0 dropped, 0 embryonic dropped)\n"
        "0 Total rxmt timeout, 0 connections dropped in rxmt timeout\n"
        "0 Keepalive timeout, 0 keepalive probe, 0 Connections dropped in keepalive\n"
    )


def _block(vty: Vty, row: Connection) -> str:
    kernel = read_kernel_tcp(row.live) or parse_kernel_tcp(b"")
    return _head(vty, row) + _sequence(row, kernel) + _times(row, kernel) + _flags(vty, row, kernel) + _carried(kernel)


def _head(vty: Vty, row: Connection) -> str:
    queue = vty.device.running.value("ip tcp queuemax") or "50"
    timers = "".join(f"{name:<12}{0:8d}{0:11d}             0x0\n" for name in _TIMERS)
    return (
        f"Connection state is {row.state}, I/O status: 1, unread input bytes: 0\n"
        "Connection is ECN Disabled, Mininum incoming TTL 0, Outgoing TTL 255\n"
        f"Local host: {row.local[0]}, Local port: {row.local[1]}\n"
        f"Foreign host: {row.foreign[0]}, Foreign port: {row.foreign[1]}\n"
        f"Connection tableid (VRF): 0\nMaximum output segment queue size: {queue}\n\n"
        "Enqueued packets for retransmit: 0, input: 0  mis-ordered: 0 (0 bytes)\n\n"
        f"Event Timers (current time is 0x{int(1000 * time.monotonic()) & 0xFFFFFFFF:X}):\n"
        f"Timer          Starts    Wakeups            Next\n{timers}\n"
    )


def _sequence(row: Connection, kernel: KernelTcp) -> str:
    """Sequence numbers and windows: the initial numbers are made up, what was carried is added to them."""
    iss, irs = int(row.tcb[-8:], 16), int(row.tcb[-9:-1], 16)
    sent, received = ((start + 1 + more) % 2**32 for start, more in ((iss, kernel.bytes_out), (irs, kernel.bytes_in)))
    scales = (kernel.send_scale, kernel.receive_scale) if row.options.window_scaling else (0, 0)
    window = min(kernel.receive_window_bytes or row.window_bytes, row.window_bytes)
    return (
        f"iss: {iss:10d}  snduna: {sent:10d}  sndnxt: {sent:10d}\nirs: {irs:10d}  rcvnxt: {received:10d}\n\n"
        f"sndwnd: {kernel.send_window_bytes:6d}  scale: {scales[0]:6d}  maxrcvwnd: {row.window_bytes:6d}\n"
        f"rcvwnd: {window:6d}  scale: {scales[1]:6d}  delrcvwnd: {row.window_bytes - window:6d}\n\n"
    )


def _times(row: Connection, kernel: KernelTcp) -> str:
    most_ms = kernel.rtt_ms + 4 * kernel.rtt_variation_ms
    uptime_ms = int(1000 * (time.monotonic() - row.opened_s))
    return (
        f"SRTT: {kernel.rtt_ms} ms, RTTO: {kernel.retransmission_timeout_ms} ms, RTV: {kernel.rtt_variation_ms} ms, "
        f"KRTT: 0 ms\nminRTT: {kernel.least_rtt_ms} ms, maxRTT: {most_ms} ms, ACK hold: 200 ms\n"
        f"uptime: {uptime_ms} ms, Sent idletime: {kernel.idle_send_ms} ms, "
        f"Receive idletime: {kernel.idle_receive_ms} ms\n"
    )


def _flags(vty: Vty, row: Connection, kernel: KernelTcp) -> str:
    flags = ["nagle"]
    flags += ["path mtu capable"] if vty.device.running.find("ip tcp path-mtu-discovery") else []
    flags += ["SACK option permitted"] if kernel.has_sack and row.options.sack else []
    flags += ["win-scale"] if kernel.has_scaling and row.options.window_scaling else []
    status = "passive open, gen tcbs" if row.local[1] == vty.device.settings.port else "active open"
    return f"Status Flags: {status}\nOption Flags: {', '.join(flags)}\nIP Precedence value : 0\n\n"


def _carried(kernel: KernelTcp) -> str:
    return (
        f"Datagrams (max data segment is {kernel.segment_bytes} bytes):\n"
        f"Rcvd: {kernel.segments_in} (out of order: {kernel.out_of_order}), with data: {kernel.data_segments_in}, "
        f"total data bytes: {kernel.bytes_in}\n"
        f"Sent: {kernel.segments_out} (retransmit: {kernel.retransmitted}, fastretransmit: 0, partialack: 0, "
        f"Second Congestion: 0), with data: {kernel.data_segments_out}, total data bytes: {kernel.bytes_out}\n\n"
        " Packets received in fast path: 0, fast processed: 0, slow path: 0\n"
    )

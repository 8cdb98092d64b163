"""`show interfaces`, `show ip interface` and their tables: the configuration, the platform's ports, what was carried.

Lines are those of the Cisco command reference and of public captures of each kind of port. Counters are those of the
device's own connections and stand at the interface with the world's address; the others have carried nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import canonical_interface, interface_lines, is_up, is_virtual, short_name
from flashferry.lab.standin.connections import Totals
from flashferry.lab.standin.hardware import base_mac, dotted, port_of
from flashferry.lab.standin.texts_data import printed, printed_rows

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]


def brief(vty: Vty, arguments: Arguments) -> str:
    """`show ip interface brief [NAME]`."""
    rows = ["Interface              IP-Address      OK? Method Status                Protocol"]
    for section in _chosen(vty, arguments):
        address = section.address
        status, protocol = _states(vty.device, section)
        method = "NVRAM" if address else "unset"
        name = section.interface
        rows.append(f"{name:<22} {address or 'unassigned':<15} YES {method:<6} {status:<21} {protocol:<8}")
    return "".join(f"{row}\n" for row in rows)


def _chosen(vty: Vty, arguments: Arguments) -> list[Line]:
    running = vty.device.running
    sections = interface_lines(running)
    name = canonical_interface("".join(arguments), running) if arguments else None
    return [section for section in sections if name is None or section.interface == name]


def interfaces(vty: Vty, arguments: Arguments) -> str:
    """`show interfaces [NAME]`."""
    return "".join(_detail(vty.device, section) for section in _chosen(vty, arguments))


def ip_interface(vty: Vty, arguments: Arguments) -> str:
    """`show ip interface [NAME]`."""
    return "".join(_ip_detail(vty.device, section) for section in _chosen(vty, arguments))


def description(vty: Vty, _: Arguments) -> str:
    """`show interfaces description`."""
    rows = ["Interface                      Status         Protocol Description"]
    for section in interface_lines(vty.device.running):
        status, protocol = _states(vty.device, section)
        status = "admin down" if section.is_shut else status
        about = section.value("description") or ""
        rows.append(f"{short_name(section.interface):<30} {status:<14} {protocol:<8} {about}".rstrip())
    return "".join(f"{row}\n" for row in rows)


def status(vty: Vty, _: Arguments) -> str:
    """`show interfaces status` of a switch: its ports, all of VLAN 1."""
    rows = ["", "Port         Name               Status       Vlan       Duplex  Speed Type"]
    for section in switch_ports(vty.device):
        name = section.interface
        state = "disabled" if section.is_shut else "connected" if is_usable(vty.device, section) else "notconnect"
        pace = "a-full a-1000" if state == "connected" else "  auto   auto"
        about = (section.value("description") or "")[:18]
        medium = port_of(vty.device.platform, name).medium
        rows.append(f"{short_name(name):<12} {about:<18} {state:<12} {1:<10} {pace} {medium}")
    return "".join(f"{row}\n" for row in rows)


def switch_ports(device: Device) -> list[Line]:
    """Return the ports of a switch, of all its members."""
    lines = interface_lines(device.running)
    return [line for line in lines if line.interface.count("/") == 2 and line.address is None]


def mac_of(device: Device, section: Line) -> int:
    """Return the layer-2 address of an interface: they are counted through within a chassis or member."""
    name = section.interface
    member = int(name.split("/")[0].lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") or 0)
    lines = interface_lines(device.running)
    number = next((i for i, line in enumerate(lines) if line.text == section.text), 0)
    return base_mac(device, max(1, member) if device.platform.cabled else 1) + number % 256


def is_usable(device: Device, section: Line) -> bool:
    """Return whether an interface of a device is up."""
    return is_up(section, device.platform.cabled) and section.interface not in device.dead_ports


def _states(device: Device, section: Line) -> tuple[str, str]:
    if section.is_shut:
        return "administratively down", "down"
    return ("up", "up") if is_usable(device, section) else ("down", "down")


def _prefixed(section: Line) -> str | None:
    address, network = section.address, section.network
    return f"{address}/{network.prefixlen}" if address and network else None


def _detail(device: Device, section: Line) -> str:
    name = section.interface
    port, mac = port_of(device.platform, name), dotted(mac_of(device, section))
    state, protocol = _states(device, section)
    tail = ""
    if "/" in name and device.platform.cabled and state != "administratively down":
        tail = "(connected) " if state == "up" else "(notconnect) "
    about, prefixed = section.value("description"), _prefixed(section)
    bandwidth = section.value("bandwidth") or port.bandwidth_kbps
    rows = [f"{name} is {state}, line protocol is {protocol} {tail}"]
    rows += [
        f"  Hardware is {port.hardware}"
        if _has_no_layer_2(name)
        else f"  Hardware is {port.hardware}, address is {mac} (bia {mac})"
    ]
    rows += [f"  Description: {about}"] if about else []
    rows += [f"  Internet address is {prefixed}"] if prefixed else []
    rows += [
        f"  MTU {_mtu(section)} bytes, BW {bandwidth} Kbit/sec, DLY {port.delay_us} usec, ",
        "     reliability 255/255, txload 1/255, rxload 1/255",
        f"  Encapsulation {'LOOPBACK' if _has_no_layer_2(name) else 'ARPA'}, loopback not set",
        "  Keepalive not supported " if is_virtual(name) else "  Keepalive set (10 sec)",
        *(f"  {line}" for line in port.media),
    ]
    carries = section.address == device.settings.address
    carried, last = (device.connections.totals(), "00:00:00") if carries else (Totals(), "never")
    return "".join(f"{row}\n" for row in rows) + printed("interface counters", carried=carried, last=last)


def _has_no_layer_2(name: str) -> bool:
    return name.startswith(("Loopback", "Tunnel"))


def _mtu(section: Line) -> str:
    return section.value("mtu") or "1500"


def _ip_detail(device: Device, section: Line) -> str:
    state, protocol = _states(device, section)
    head = f"{section.interface} is {state}, line protocol is {protocol}\n"
    prefixed, vrf = _prefixed(section), section.vrf
    if prefixed is None:
        return f"{head}  Internet protocol processing disabled\n"
    routing = f'  VPN Routing/Forwarding "{vrf}"\n' if vrf else ""
    return head + printed("ip interface", prefixed=prefixed, mtu=section.value("ip mtu") or _mtu(section), vrf=routing)


_ROW_CHARS = 31


def vlan_brief(vty: Vty, _: Arguments) -> str:
    """`show vlan brief`."""
    rows = [row for one in _vlans(vty) for row in _vlan_rows(vty, *one)]
    return "".join(f"{row}\n" for row in ("", *printed_rows("vlan head"), *rows, *printed_rows("vlan old")))


def vlan_one(vty: Vty, arguments: Arguments) -> str:
    """`show vlan id N`, `show vlan name NAME`."""
    found = next((one for one in _vlans(vty) if arguments[0] in (str(one[0]), one[1])), None)
    if found is None:
        return f"VLAN {vty.words[2]} {arguments[0]} not found in current VLAN database\n"
    return "".join(f"{row}\n" for row in ("", *printed_rows("vlan head"), *_vlan_rows(vty, *found), ""))


def _vlans(vty: Vty) -> list[tuple[int, str]]:
    found = {1: "default"}
    for line in vty.device.running.lines():
        number = line.text.removeprefix("vlan ")
        if line.text.startswith("vlan ") and number.isdecimal():
            names = [child.text.removeprefix("name ") for child in line.children if child.text.startswith("name ")]
            found[int(number)] = names[0] if names else f"VLAN{int(number):04d}"
    return sorted(found.items())


def _vlan_rows(vty: Vty, number: int, name: str) -> list[str]:
    """Return the rows of a VLAN: its ports are those of its access lines, and for VLAN 1 those without one."""
    ports = [
        short_name(section.interface) for section in switch_ports(vty.device)
        if (section.value("switchport access vlan") or "1") == str(number)
    ]  # fmt: skip
    head = f"{number:<4} {name:<32} active    "
    return [f"{'' if at else head:<48}{', '.join(part)}" for at, part in enumerate(_in_rows(ports))]


def _in_rows(names: list[str]) -> list[list[str]]:
    rows: list[list[str]] = [[]]
    for name in names:
        if rows[-1] and len(", ".join((*rows[-1], name))) > _ROW_CHARS:
            rows.append([])
        rows[-1].append(name)
    return rows


def vlan(vty: Vty, arguments: Arguments) -> str:
    """`show vlan`."""
    return vlan_brief(vty, arguments) + f"{printed('vlan types')}\n"


def mac_address_table(vty: Vty, _: Arguments) -> str:
    """`show mac address-table`: the switch's own addresses; the world at the end of the cable has no layer 2."""
    rows = list(printed_rows("mac address-table"))  # with the groups of CDP, per-VLAN spanning tree and IEEE 802.1D
    own = [s for s in interface_lines(vty.device.running) if s.interface.startswith("Vlan")]
    for section in own:
        name = section.interface
        rows.append(f"{name[4:]:>4}    {dotted(mac_of(vty.device, section))}    STATIC      {short_name(name)} ")
    return "".join(f"{row}\n" for row in (*rows, f"Total Mac Addresses for this criterion: {3 + len(own)}"))


def spanning_tree(vty: Vty, _: Arguments) -> str:
    """`show spanning-tree`: it is the root, for no other switch is there."""
    rows = [
        f"{short_name(section.interface):<19} Desg FWD 4         128.{number:<4} P2p \n"
        for number, section in enumerate(switch_ports(vty.device), start=1) if is_usable(vty.device, section)
    ]  # fmt: skip
    return printed("spanning tree", address=dotted(base_mac(vty.device))) + "".join(rows) + "\n\n"


def summary(vty: Vty, _: Arguments) -> str:
    """`show interfaces summary`: no queue holds anything."""
    rows = list(printed_rows("interfaces summary"))
    for section in interface_lines(vty.device.running):
        mark = "*" if is_usable(vty.device, section) else " "
        rows.append(f"{mark} {section.interface:<23}" + f"{0:>9} " * 9)
    return "".join(f"{row}\n" for row in rows)


def counters(vty: Vty, arguments: Arguments) -> str:
    """`show interfaces [NAME] counters|stats`: what the device's own connections carried."""
    rows = ["Port                     InOctets    InUcastPkts    InMcastPkts    InBcastPkts"]
    for section in _chosen(vty, arguments):
        carries = section.address == vty.device.settings.address
        carried = vty.device.connections.totals() if carries else Totals()
        name = short_name(section.interface)
        rows.append(f"{name:<17} {carried.bytes_in:>15} {carried.segments_in:>14} {0:>14} {0:>14}")
    return "".join(f"{row}\n" for row in ("", *rows, ""))


def accounting(vty: Vty, arguments: Arguments) -> str:
    """`show interfaces [NAME] accounting`: what the device's own connections carried, by protocol."""
    rows: list[str] = []
    for section in _chosen(vty, arguments):
        description = section.value("description")
        rows.append(f"{section.interface} {description or ''}")
        if section.address != vty.device.settings.address:
            rows.append("No traffic sent or received on this interface.")
            continue
        carried = vty.device.connections.totals()
        rows.append("                Protocol    Pkts In   Chars In   Pkts Out  Chars Out")
        rows.append(
            f"                      IP {carried.segments_in:>10} {carried.bytes_in:>10} {carried.segments_out:>10} "
            f"{carried.bytes_out:>10}"
        )
    return "".join(f"{row}\n" for row in rows)


def vlan_summary(vty: Vty, _: Arguments) -> str:
    """`show vlan summary`."""
    count = 5 + sum(line.text.startswith("vlan ") and line.text[5:].isdigit() for line in vty.device.running.lines())
    return printed("vlan summary", count=count)


def switchport(vty: Vty, arguments: Arguments) -> str:
    """`show interfaces [NAME] switchport`."""
    text = ""
    chosen = {section.interface for section in _chosen(vty, arguments)}
    for section in switch_ports(vty.device):
        if (name := section.interface) not in chosen:
            continue
        state = "static access" if is_usable(vty.device, section) else "down"
        mode = (section.value("switchport mode") or "dynamic auto").replace("access", "static access")
        access = section.value("switchport access vlan") or "1"
        text += printed("switchport", name=short_name(name), mode=mode, state=state, access=access)
    return text

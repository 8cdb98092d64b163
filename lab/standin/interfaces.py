"""Interface names and the state that follows from their configuration."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.standin.configuration import Configuration, Line

_KINDS = ("GigabitEthernet", "FastEthernet", "Ethernet", "Loopback", "Tunnel", "Vlan", "TenGigabitEthernet")
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
    texts = [child.text for child in section.children if child.text.startswith("vrf forwarding ")]
    return texts[0].removeprefix("vrf forwarding ") if texts else ""


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


def detail(configuration: Configuration) -> str:
    """Return `show interfaces`: the lines of the Cisco command reference; counters stay at zero."""
    return "".join(_detail(number, section) for number, section in enumerate(interface_lines(configuration), start=1))


def _detail(number: int, section: Line) -> str:
    name = section.text.removeprefix("interface ")
    address = address_of(section)
    state = "administratively down, line protocol is down" if is_shut(section) else "up, line protocol is up"
    about = [c.text.removeprefix("description ") for c in section.children if c.text.startswith("description ")]
    mac = f"0050.56bf.{number:04x}"
    rows = [f"{name} is {state} ", f"  Hardware is CSR vNIC, address is {mac} (bia {mac})"]
    rows += [f"  Description: {about[0]}"] if about else []
    rows += [f"  Internet address is {address}/24"] if address else []
    return "".join(f"{row}\n" for row in (*rows, *_COUNTERS))


_COUNTERS = (
    "  MTU 1500 bytes, BW 1000000 Kbit/sec, DLY 10 usec, ",
    "     reliability 255/255, txload 1/255, rxload 1/255",
    "  Encapsulation ARPA, loopback not set",
    "  Keepalive set (10 sec)",
    "  Full Duplex, 1000Mbps, link type is auto, media type is Virtual",
    "  output flow-control is unsupported, input flow-control is unsupported",
    "  ARP type: ARPA, ARP Timeout 04:00:00",
    "  Last input 00:00:00, output 00:00:00, output hang never",
    '  Last clearing of "show interface" counters never',
    "  Input queue: 0/375/0/0 (size/max/drops/flushes); Total output drops: 0",
    "  Queueing strategy: fifo",
    "  Output queue: 0/40 (size/max)",
    "  5 minute input rate 0 bits/sec, 0 packets/sec",
    "  5 minute output rate 0 bits/sec, 0 packets/sec",
    "     0 packets input, 0 bytes, 0 no buffer",
    "     Received 0 broadcasts (0 IP multicasts)",
    "     0 runts, 0 giants, 0 throttles ",
    "     0 input errors, 0 CRC, 0 frame, 0 overrun, 0 ignored",
    "     0 watchdog, 0 multicast, 0 pause input",
    "     0 packets output, 0 bytes, 0 underruns",
    "     0 output errors, 0 collisions, 0 interface resets",
    "     0 unknown protocol drops",
    "     0 babbles, 0 late collision, 0 deferred",
    "     0 lost carrier, 0 no carrier, 0 pause output",
    "     0 output buffer failures, 0 output buffers swapped out",
)

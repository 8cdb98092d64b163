"""The tables of a switch: one VLAN, one cable to the world, nothing learned behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.hardware import base_mac, dotted
from flashferry.lab.standin.interfaces import interface_lines, interface_name, short_name
from flashferry.lab.standin.show_interfaces import is_usable, mac_of, switch_ports

if TYPE_CHECKING:
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
_ROW_CHARS = 31


def vlan_brief(vty: Vty, _: Arguments) -> str:
    """`show vlan brief`."""
    names = [short_name(interface_name(section)) for section in switch_ports(vty.device)]
    rows = _VLAN_HEAD + tuple(
        f"{'1    default                          active    ' if not number else ' ' * 48}{', '.join(part)}"
        for number, part in enumerate(_in_rows(names))
    )
    return "".join(f"{row}\n" for row in ("", *rows, *_VLAN_OLD))


def _in_rows(names: list[str]) -> list[list[str]]:
    """Put names into rows as wide as the column of ports."""
    rows: list[list[str]] = [[]]
    for name in names:
        if rows[-1] and len(", ".join((*rows[-1], name))) > _ROW_CHARS:
            rows.append([])
        rows[-1].append(name)
    return rows


def vlan(vty: Vty, arguments: Arguments) -> str:
    """`show vlan`."""
    return vlan_brief(vty, arguments) + "".join(f"{row}\n" for row in _VLAN_TYPES)


def mac_address_table(vty: Vty, _: Arguments) -> str:
    """`show mac address-table`: the switch's own addresses; the world behind the cable has no layer 2."""
    rows = ["          Mac Address Table", "-------------------------------------------", "",
            "Vlan    Mac Address       Type        Ports", "----    -----------       --------    -----"]  # fmt: skip
    rows += [f" All    {address}    STATIC      CPU" for address in _OWN_GROUPS]
    own = [s for s in interface_lines(vty.device.running) if interface_name(s).startswith("Vlan")]
    for section in own:
        name = interface_name(section)
        rows.append(f"{name[4:]:>4}    {dotted(mac_of(vty.device, section))}    STATIC      {short_name(name)} ")
    count = len(_OWN_GROUPS) + len(own)
    return "".join(f"{row}\n" for row in (*rows, f"Total Mac Addresses for this criterion: {count}"))


_OWN_GROUPS = ("0100.0ccc.cccc", "0100.0ccc.cccd", "0180.c200.0000")
"""Of CDP, of per-VLAN spanning tree and of the spanning tree of IEEE 802.1D."""


def spanning_tree(vty: Vty, _: Arguments) -> str:
    """`show spanning-tree`: it is the root, for no other switch is there."""
    address = dotted(base_mac(vty.device))
    rows = ["", "VLAN0001", "  Spanning tree enabled protocol rstp", "  Root ID    Priority    32769",
            f"             Address     {address}", "             This bridge is the root",
            "             Hello Time   2 sec  Max Age 20 sec  Forward Delay 15 sec", "",
            "  Bridge ID  Priority    32769  (priority 32768 sys-id-ext 1)", f"             Address     {address}",
            "             Hello Time   2 sec  Max Age 20 sec  Forward Delay 15 sec", "             Aging Time  300 sec",
            "", "Interface           Role Sts Cost      Prio.Nbr Type",
            "------------------- ---- --- --------- -------- --------------------------------"]  # fmt: skip
    for number, section in enumerate(switch_ports(vty.device), start=1):
        if is_usable(vty.device, section):
            rows.append(f"{short_name(interface_name(section)):<19} Desg FWD 4         128.{number:<4} P2p ")
    return "".join(f"{row}\n" for row in (*rows, "", ""))


_VLAN_HEAD = (
    "VLAN Name                             Status    Ports",
    "---- -------------------------------- --------- -------------------------------",
)
_VLAN_OLD = (
    "1002 fddi-default                     act/unsup ",
    "1003 token-ring-default               act/unsup ",
    "1004 fddinet-default                  act/unsup ",
    "1005 trnet-default                    act/unsup ",
)
_VLAN_TYPES = (
    "",
    "VLAN Type  SAID       MTU   Parent RingNo BridgeNo Stp  BrdgMode Trans1 Trans2",
    "---- ----- ---------- ----- ------ ------ -------- ---- -------- ------ ------",
    "1    enet  100001     1500  -      -      -        -    -        0      0   ",
    "1002 fddi  101002     1500  -      -      -        -    -        0      0   ",
    "1003 tr    101003     1500  -      -      -        -    srb      0      0   ",
    "1004 fdnet 101004     1500  -      -      -        ieee -        0      0   ",
    "1005 trnet 101005     1500  -      -      -        ibm  -        0      0   ",
    "",
    "Remote SPAN VLANs",
    "------------------------------------------------------------------------------",
    "",
    "",
    "Primary Secondary Type              Ports",
    "------- --------- ----------------- ------------------------------------------",
    "",
)

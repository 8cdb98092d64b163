"""Routers of Cisco Modeling Labs that a night can be made of: what is known of each node definition.

Facts
-----

- Names of the day-0 files and interfaces: Cisco's own lab topologies and node definitions (CiscoDevNet/cml-community,
  BSD-3: `ios_config.txt` and `Ethernet0/0` in 42 nodes iol-xe, `ios_config.txt` and `GigabitEthernet0/0` in 33 nodes
  iosv, `iosxe_config.txt` and `GigabitEthernet1` in cat8000v, whose driver is that of csr1000v).
- An IOL router boots no image from its flash; none can be staged to it for an upgrade. iosv writes its flash with
  0.083 MB/s.
- `platform console serial` stands in the stock configuration of cat8000v; without it a virtual router's console is
  VGA, which is not read.
- External connectors and unmanaged switches are no routers; that they do not count as nodes of a licence is known of
  connectors in Cisco's free labs, of switches it is not confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONNECTOR = "external_connector"
SWITCH = "unmanaged_switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterKind:
    """What is known of a node definition.

    Attributes:
        name: The node definition.
        platform: What an inventory calls it.
        day0_file: The file that its first configuration is in.
        interface: Its first interface, by which it is reached.
        can_boot_staged: Whether it boots images from its own flash, so that staging one to it means something.
        has_serial_line: Whether its first configuration must say that its console is serial.
    """

    name: str
    platform: str
    day0_file: str
    interface: str
    can_boot_staged: bool = True
    has_serial_line: bool = False


ROUTERS: Mapping[str, RouterKind] = {
    one.name: one
    for one in (
        RouterKind(name="iosv", platform="cisco_ios", day0_file="ios_config.txt", interface="GigabitEthernet0/0"),
        RouterKind(
            name="iol-xe",
            platform="cisco_iosxe",
            day0_file="ios_config.txt",
            interface="Ethernet0/0",
            can_boot_staged=False,
        ),
        RouterKind(
            name="csr1000v",
            platform="cisco_iosxe",
            day0_file="iosxe_config.txt",
            interface="GigabitEthernet1",
            has_serial_line=True,
        ),
        RouterKind(
            name="cat8000v",
            platform="cisco_iosxe",
            day0_file="iosxe_config.txt",
            interface="GigabitEthernet1",
            has_serial_line=True,
        ),
    )
}
"""The routers by their node definition."""

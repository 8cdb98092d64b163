"""Routers in containerlab: its kinds, how their management port is connected, whether TCP reaches IOS. Pure.

Facts
-----
By the sources of containerlab 0.79.0 (39ff2b7) and vrnetlab (9b1495f); none of it was tried:

* A vrnetlab image is a virtual machine in a container. Its management port is QEMU's user-mode network unless the
  variable `CLAB_MGMT_PASSTHROUGH` is `true` (vrnetlab 0.21.0 and newer): TCP from outside ends in QEMU, whose kernel's
  window and losses a measurement would show instead of the router's. containerlab sets it by itself for `cisco_vios`.
* With it, packets go from the container's `eth0` to the machine's `tap0` and back, redirected by `tc`, so what leaves
  for the router leaves by `tap0`, and what comes from it by `eth0`.
* IOL is a program in the container and reads `eth0` itself: there is no device by which packets leave for it.
* The management port is in the VRF `clab-mgmt`, in all of these kinds.
* The image tells by its label `vrnetlab-version` which commit built it, and no release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flashferry.nightly.topology.definitions import ROUTERS

MANAGEMENT_VRF = "clab-mgmt"
"""The VRF by which the routers reach this host."""

PASSTHROUGH = "CLAB_MGMT_PASSTHROUGH"
"""The variable of a node by which TCP reaches its router and not QEMU."""

OUTWARD, INWARD = "eth0", "tap0"
"""Devices in a container by which packets leave for this host, and for its router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerKind:
    """A kind of node.

    Attributes:
        name: containerlab's name for it.
        node_definition: The same router in Cisco Modeling Labs, by which series are named.
        is_machine: Whether it is a virtual machine, which needs KVM.
        is_passed_through: Whether containerlab passes its management port through by itself.
    """

    name: str
    node_definition: str
    is_machine: bool = True
    is_passed_through: bool = False

    @property
    def platform(self) -> str:
        """What an inventory calls it."""
        return ROUTERS[self.node_definition].platform

    @property
    def ports(self) -> tuple[str, ...]:
        """Devices in its container that a condition is set on: one for each direction that can be had."""
        return (OUTWARD, INWARD) if self.is_machine else (OUTWARD,)

    def why_not_measured(self, environment: Mapping[str, str]) -> str | None:
        """Return why copies of such a node would tell nothing of IOS, or None: by its environment."""
        if not self.is_machine or environment.get(PASSTHROUGH, str(self.is_passed_through)).lower() == "true":
            return None
        return (
            f"expected {PASSTHROUGH} 'true' in its environment, found it otherwise: its management port would be "
            "QEMU's user-mode network, where TCP ends in QEMU and not in IOS"
        )


KINDS: Mapping[str, ContainerKind] = {
    one.name: one
    for one in (
        ContainerKind(name="cisco_vios", node_definition="iosv", is_passed_through=True),
        ContainerKind(name="cisco_iol", node_definition="iol-xe", is_machine=False),
        ContainerKind(name="cisco_csr1000v", node_definition="csr1000v"),
        ContainerKind(name="cisco_c8000v", node_definition="cat8000v"),
    )
}
"""The kinds that nights know, by containerlab's names."""

KIND_OF: Mapping[str, ContainerKind] = {one.node_definition: one for one in KINDS.values()}
"""The same by the node definition."""

"""What runs the nodes of a lab: a Protocol, so that real stand-in routers or a mere clock can stand behind it.

The controller keeps labs, rights, faults and everything that is said over HTTPS; it asks a runtime for what only the
nodes know: how far they have booted, their addresses, what their consoles said, and what a link's condition came out
as. A runtime knows no fault of the controller: a node that hangs in QUEUED hangs in what the controller says of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol


class NodeState(StrEnum):
    """The states of a node, as `lab_element_state` has them, in the order in which a lab takes its nodes through them.

    DEFINED_ON_CORE is a node that never ran or was wiped; STOPPED one that still has its disk.
    """

    DEFINED_ON_CORE = "DEFINED_ON_CORE"
    STOPPED = "STOPPED"
    QUEUED = "QUEUED"
    STARTED = "STARTED"
    BOOTED = "BOOTED"
    DISCONNECTED = "DISCONNECTED"

    @property
    def is_running(self) -> bool:
        """Whether the node counts as started: against the licence's nodes, and for wipe and delete."""
        return self not in {NodeState.DEFINED_ON_CORE, NodeState.STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is set on a link, as the controller's interface has it (bounds: `flashferry.lab.cml.conditions`).

    Whether a real controller applies latency once or per direction is not documented; a runtime says which it does.

    Attributes:
        bandwidth_kbps: 0 to 10,000,000; 0 for no limit.
        latency_ms: 0 to 10,000, whole.
        jitter_ms: 0 to 10,000, whole.
        is_enabled: Whether it is in force at all; a condition may be set and lie idle.
        others: The remaining keys of the interface, as they were set: ``delay_corr``, ``limit``, ``gap``, ...
    """

    bandwidth_kbps: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    loss_percent: float = 0.0
    is_enabled: bool = True
    others: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePlan:
    """One interface of a node.

    Attributes:
        interface_id: The controller's id of it.
        label: Its name on the device: ``GigabitEthernet1``.
        slot: Its place among the physical ones; None for a loopback.
        mac_address: The address that the controller deals out, lower case with colons.
    """

    interface_id: str
    label: str
    slot: int | None
    mac_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node of a lab, as it is to run.

    Attributes:
        node_id: The controller's id of it.
        label: Its name in the lab.
        node_definition: ``cat8000v``, ``csr1000v``, ``iosv``, ``iol-xe``, ``external_connector``, ...
        image_definition: The image; None for the definition's own.
        day0: The main day-0 file; of an external connector the key of its mapping.
        interfaces: In the order of the topology.
        tags: As written, ``pat:tcp:2001:22`` among them.
        bridge: Of an external connector: the bridge that its key is mapped to, ``bridge0`` or ``virbr0``.
    """

    node_id: str
    label: str
    node_definition: str
    image_definition: str | None = None
    day0: str = ""
    interfaces: tuple[InterfacePlan, ...] = ()
    tags: tuple[str, ...] = ()
    bridge: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """One link between two interfaces.

    Attributes:
        link_id: The controller's id of it.
        label: Its name in the lab.
        interface_ids: The ids of the interfaces at its two ends.
        condition: What is set on it when the lab starts; None for nothing.
    """

    link_id: str
    label: str
    interface_ids: tuple[str, str]
    condition: Condition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPlan:
    """A lab as it is to run: the whole of it, whichever of its nodes are started."""

    lab_id: str
    title: str
    nodes: tuple[NodePlan, ...]
    links: tuple[LinkPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    r"""What is to be seen of a node.

    Attributes:
        state: How far it is.
        addresses: IPv4 addresses by the label of the interface, without a length; those a snooping bridge would see.
        console: All that its console said since it was last started, with `\n` at the ends of lines.
    """

    state: NodeState
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    console: str = ""


class NodeRuntime(Protocol):
    """Runs nodes. All methods return at once: what takes its time shows in `state`.

    The controller calls it from several threads, one call at a time.
    """

    def start(self, lab: LabPlan) -> None:
        """Start all nodes that do not run; those that run are left alone.

        Raises RuntimeError: it cannot; the text is a whole sentence, and the controller answers 400 with it.
        """

    def state(self, lab_id: str, node_id: str) -> NodeView:
        """Return what is to be seen of a node; of an unknown one, that it is DEFINED_ON_CORE."""

    def set_condition(self, lab_id: str, link_id: str, condition: Condition | None) -> Condition | None:
        """Put a condition on a link, or none, whether or not the lab runs; it holds for later starts, too.

        Returns:
            What is in force on the link now, the controller's ``operational``; None for nothing.
        """

    def stop(self, lab_id: str, node_id: str | None = None) -> None:
        """Stop one node, or all; a lab that never started is none of its affair."""

    def wipe(self, lab_id: str) -> None:
        """Throw away the disks of all nodes."""

    def forget(self, lab_id: str) -> None:
        """Let go of a lab that was deleted, and of all that it left."""

    def start_capture(self, lab_id: str, link_id: str) -> None:
        """Begin to record what goes over a link, anew if it is under way; a runtime that cannot record does nothing."""

    def capture(self, lab_id: str, link_id: str) -> bytes | None:
        """Return what went over a link since its capture began, as pcap, while it runs; None where nothing can."""

    def stop_capture(self, lab_id: str, link_id: str) -> None:
        """End a recording; the controller has asked for what there was by `capture` right before."""

    def close(self) -> None:
        """End everything that still runs."""

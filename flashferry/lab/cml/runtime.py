"""What runs the nodes of a lab, as a Protocol: real stand-in routers, or a clock.

The controller keeps labs, rights and faults. A runtime knows how far nodes have booted, their addresses, consoles, and
links' conditions; it knows no fault of the controller.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol


class NodeState(StrEnum):
    """States of a node (`lab_element_state`), in their order.

    DEFINED_ON_CORE never ran or was wiped; STOPPED still has its disk.
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
    """Condition of a link; bounds are in `flashferry.lab.cml.topology`.

    Bandwidth in kbit/s (0 for no limit), latency and jitter in whole ms. Whether a real controller applies latency once
    or per direction is not documented; a runtime says which it does. `others` has the remaining keys as they were set.
    """

    bandwidth_kbps: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    loss_percent: float = 0.0
    is_enabled: bool = True
    others: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePlan:
    """An interface of a node; `slot` is its place among the physical ones, None for a loopback."""

    interface_id: str
    label: str
    slot: int | None
    mac_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node as it is to run.

    `image_definition`: None for that of the node's definition. `day0`: The main day-0 file; of an external connector
    the key of its mapping, and `bridge` what that maps to. `tags`: As written, such as ``pat:tcp:2001:22``.
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
    """A link between two interfaces, with the condition that it starts with."""

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
        """Start the nodes that do not run. Raises RuntimeError: it cannot; the sentence goes out with code 400."""

    def state(self, lab_id: str, node_id: str) -> NodeView:
        """Return what is to be seen of a node; of an unknown one, that it is DEFINED_ON_CORE."""

    def set_condition(self, lab_id: str, link_id: str, condition: Condition | None) -> Condition | None:
        """Put a condition on a link, or none, whether or not the lab runs; it holds for later starts, too.

        Returns what is in force on the link now, the controller's ``operational``; None for nothing.
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


_HEADER = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC = 0xA1B2C3D4
_SNAP = 65535
_ETHERNET = 1
_MICROSECONDS = 1_000_000

ARP_REQUEST = (
    b"\xff" * 6
    + bytes.fromhex("525400000001")
    + bytes.fromhex("08060001080006040001")
    + bytes.fromhex("525400000001c6120001")
    + bytes.fromhex("000000000000c6120002")
).ljust(60, b"\0")
"""Who has 198.18.0.2?"""


def pcap_of(frames: Iterable[tuple[float, bytes]]) -> bytes:
    """Return a capture of frames, each with its time in seconds."""
    parts = [_HEADER.pack(_MAGIC, 2, 4, 0, 0, _SNAP, _ETHERNET)]
    for at, frame in frames:
        parts.append(_RECORD.pack(int(at), int(at % 1 * _MICROSECONDS), len(frame), len(frame)) + frame)
    return b"".join(parts)


def frames_of(capture: bytes) -> Iterator[tuple[float, bytes]]:
    """Yield the frames of a capture; what is cut off at its end is left out."""
    place = _HEADER.size
    while place + _RECORD.size <= len(capture):
        second, fraction, size, _ = _RECORD.unpack_from(capture, place)
        place += _RECORD.size
        if place + size <= len(capture):
            yield second + fraction / _MICROSECONDS, capture[place : place + size]
        place += size


_CONNECTORS = frozenset({"external_connector", "unmanaged_switch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BootTimes:
    """Seconds that a node spends in each state; `stagger_s` is how much longer each next node of a lab is queued."""

    queued_s: float = 0.5
    started_s: float = 2.0
    stagger_s: float = 0.2
    stopping_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Node:
    plan: NodePlan
    place: int
    started_at: float | None = None
    stopped_at: float | None = None


class ClockRuntime:
    """Runs nodes that know only the time; `clock` returns seconds and never goes back.

    External connectors and switches are up at once. A node that has booted has 198.18.<lab>.<node> on its first
    physical interface.
    """

    def __init__(self, times: BootTimes | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._times = times or BootTimes()
        self._clock = clock
        self._labs: dict[str, dict[str, _Node]] = {}
        self._places: dict[str, int] = {}
        self._conditions: dict[tuple[str, str], Condition | None] = {}
        self._captures: dict[tuple[str, str], float] = {}

    def start(self, lab: LabPlan) -> None:
        """Start the clock of one node, or of all that stand."""
        self._places.setdefault(lab.lab_id, len(self._places) % 256)
        nodes = self._labs.setdefault(lab.lab_id, {})
        for place, plan in enumerate(lab.nodes):
            node = nodes.setdefault(plan.node_id, _Node(plan=plan, place=place))
            node.plan, node.place = plan, place
            if not self._state(node).is_running:
                node.started_at, node.stopped_at = self._clock(), None
        for link in lab.links:
            self._conditions[lab.lab_id, link.link_id] = link.condition

    def state(self, lab_id: str, node_id: str) -> NodeView:
        """Return what the clock says of a node."""
        node = self._labs.get(lab_id, {}).get(node_id)
        if node is None:
            return NodeView(state=NodeState.DEFINED_ON_CORE)
        state = self._state(node)
        ports = [each.label for each in node.plan.interfaces if each.slot is not None]
        addresses = {}
        if state is NodeState.BOOTED and ports and node.plan.node_definition not in _CONNECTORS:
            addresses = {ports[0]: (f"198.18.{self._places[lab_id]}.{node.place + 1}",)}
        return NodeView(state=state, addresses=addresses, console=self._console(node, state))

    def set_condition(self, lab_id: str, link_id: str, condition: Condition | None) -> Condition | None:
        """Note a condition; what is in force is what was asked for, unless it lies idle."""
        self._conditions[lab_id, link_id] = condition
        return condition if condition is not None and condition.is_enabled else None

    def stop(self, lab_id: str, node_id: str | None = None) -> None:
        """Stop the clock of one node, or of all."""
        for own_id, node in self._labs.get(lab_id, {}).items():
            if node_id in {None, own_id} and self._state(node).is_running and node.stopped_at is None:
                node.stopped_at = self._clock()

    def wipe(self, lab_id: str) -> None:
        """Set the clock of all nodes back to the beginning."""
        for node in self._labs.get(lab_id, {}).values():
            node.started_at = node.stopped_at = None

    def forget(self, lab_id: str) -> None:
        """Let go of a lab."""
        self._labs.pop(lab_id, None)
        self._places.pop(lab_id, None)
        self._conditions = {key: value for key, value in self._conditions.items() if key[0] != lab_id}

    def start_capture(self, lab_id: str, link_id: str) -> None:
        """Note the time."""
        self._captures[lab_id, link_id] = self._clock()

    def capture(self, lab_id: str, link_id: str) -> bytes | None:
        """Return one ARP request for each tenth of a second since, as nothing else goes over a link here."""
        began = self._captures.get((lab_id, link_id))
        if began is None:
            return None
        return pcap_of([(index / 10, ARP_REQUEST) for index in range(int((self._clock() - began) * 10) + 1)])

    def stop_capture(self, lab_id: str, link_id: str) -> None:
        """Forget the time."""
        self._captures.pop((lab_id, link_id), None)

    def close(self) -> None:
        """Forget everything."""
        self._labs.clear()

    def _state(self, node: _Node) -> NodeState:
        if node.started_at is None:
            return NodeState.DEFINED_ON_CORE
        now = self._clock()
        if node.stopped_at is not None:
            if now - node.stopped_at >= self._times.stopping_s:
                return NodeState.STOPPED
            now = node.stopped_at
        if node.plan.node_definition in _CONNECTORS:
            return NodeState.BOOTED
        run_for = now - node.started_at - self._times.queued_s - node.place * self._times.stagger_s
        if run_for < 0:
            return NodeState.QUEUED
        return NodeState.STARTED if run_for < self._times.started_s else NodeState.BOOTED

    def _console(self, node: _Node, state: NodeState) -> str:
        if node.started_at is None or state is NodeState.QUEUED or node.plan.node_definition in _CONNECTORS:
            return ""
        ends = self._clock() if node.stopped_at is None else node.stopped_at
        lines = [f"A clock stands in for {node.plan.label} ({node.plan.node_definition})"]
        lines += [f"booting, second {second}" for second in range(min(int(ends - node.started_at) + 1, 1000))]
        if state is NodeState.BOOTED:
            lines += ["%CVAC-4-CONFIG_DONE: Configuration generated from file bootflash:/iosxe_config.txt", ""]
            lines += ["Press RETURN to get started!", ""]
        return "\n".join(lines) + "\n"

"""A runtime whose nodes are nothing but a clock: they boot when their time has come, and say so on their consoles."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flashferry.lab.cml.pcap import ARP_REQUEST, pcap_of
from flashferry.lab.cml.runtime import Condition, LabPlan, NodePlan, NodeState, NodeView

_CONNECTORS = frozenset({"external_connector", "unmanaged_switch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BootTimes:
    """How long a node takes, each from the moment before.

    Attributes:
        queued_s: In QUEUED, before its compute takes it.
        started_s: In STARTED, until it has booted.
        stagger_s: By how much each node of a lab is queued longer than the one before it.
        stopping_s: From the order to stop until it is STOPPED.
    """

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
    """Runs nodes that only know the time.

    External connectors and switches are up at once. Every node has the address ``198.18.<lab>.<node>`` on its first
    physical interface once it has booted.

    Args:
        times: How long everything takes.
        clock: Seconds, of any beginning; never backwards.
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

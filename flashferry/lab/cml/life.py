"""The life of a lab: start, stop, wipe; the reported states of its nodes, links and of itself; its events.

The rules, as far as they are known: stop before wipe before delete; no start without a licence, beyond the quota, with
an external connector that has no bridge, or while no compute is ready. The runtime knows how far the nodes are; what
switches make of that is laid over it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flashferry.lab.cml.definitions import Definitions
from flashferry.lab.cml.elements import Lab, Link, Node, plan_of
from flashferry.lab.cml.faults import Switches
from flashferry.lab.cml.runtime import NodeRuntime, NodeState, NodeView
from flashferry.lab.cml.texts import refused

_AT_REST = frozenset({NodeState.DEFINED_ON_CORE, NodeState.STOPPED})
_ORDER = (NodeState.QUEUED, NodeState.STARTED, NodeState.BOOTED)


class Life:
    """Takes labs through their states.

    Args:
        runtime: What runs the nodes.
        switches: The faults.
        definitions: Which nodes count.
        clock: Seconds, of any beginning.
        now: The time as the interface writes it.
    """

    def __init__(
        self,
        runtime: NodeRuntime,
        switches: Switches,
        definitions: Definitions,
        *,
        clock: Callable[[], float],
        now: Callable[[], str],
    ) -> None:
        self._runtime = runtime
        self._switches = switches
        self._definitions = definitions
        self._clock = clock
        self._now = now

    def view(self, lab: Lab, node: Node) -> NodeView:
        """Return what is reported of a node: the runtime's view under the switches.

        A switch may hold a node back that runs already: its addresses, too, are seen only once it is BOOTED.
        """
        view = self._runtime.state(lab.lab_id, node.node_id)
        state = self._reported(lab, node, view.state)
        addresses = view.addresses if state is NodeState.BOOTED else {}
        return NodeView(state=state, addresses=addresses, console=view.console)

    def state(self, lab: Lab, node: Node) -> NodeState:
        """Return the reported state of a node."""
        return self.view(lab, node).state

    def lab_state(self, lab: Lab) -> str:
        """Return the state of the lab: STARTED while any node runs, DEFINED_ON_CORE when all are wiped."""
        states = {self.state(lab, node) for node in lab.nodes.values()}
        if any(state.is_running for state in states):
            return "STARTED"
        return "STOPPED" if NodeState.STOPPED in states else "DEFINED_ON_CORE"

    def link_state(self, lab: Lab, link: Link) -> str:
        """Return the state of a link: STARTED between two nodes that run."""
        states = {self.state(lab, lab.nodes[end.node_id]) for end in (link.one, link.two)}
        if NodeState.DEFINED_ON_CORE in states:
            return "DEFINED_ON_CORE"
        return "STARTED" if states <= {NodeState.STARTED, NodeState.BOOTED} else "STOPPED"

    def interface_state(self, lab: Lab, node_id: str) -> str:
        """Return the state of a node's interfaces."""
        state = self.state(lab, lab.nodes[node_id])
        if state in _AT_REST:
            return state.value
        return "STARTED" if state in {NodeState.STARTED, NodeState.BOOTED} else "STOPPED"

    def is_converged(self, lab: Lab) -> bool:
        """Whether nothing is under way: every node has booted or is at rest."""
        return all(
            node.node_id not in lab.stops and self.state(lab, node) in _AT_REST | {NodeState.BOOTED}
            for node in lab.nodes.values()
        )

    def counted(self, lab: Lab) -> int:
        """Return how many of the lab's running nodes count against the licence."""
        return sum(self.state(lab, node).is_running and self._counts(node) for node in lab.nodes.values())

    def start(self, lab: Lab, *, running: int) -> None:
        """Start the nodes of a lab that do not run.

        Args:
            lab: The lab.
            running: Nodes of all labs that count and run already.

        Raises Refused: 400.
        """
        chosen = [each for each in lab.nodes.values() if not self.state(lab, each).is_running]
        if (why := self._objection(lab, chosen, running)) is not None:
            raise refused("cannot_start", why=f" {why}")
        try:
            self._runtime.start(plan_of(lab))
        except RuntimeError as error:
            raise refused("cannot_start", why=f" {error}") from error

    def stop(self, lab: Lab, node: Node | None = None) -> None:
        """Stop a lab, or one node of it; what does not run is left alone. Raises Refused: the switch says so."""
        self._check_switch("stop")
        takes_s = self._switches.value("stop_takes_s")
        for each in lab.nodes.values() if node is None else (node,):
            state = self.state(lab, each)
            if takes_s and state.is_running:
                lab.stops.setdefault(each.node_id, (self._clock() + takes_s, state))
        self._runtime.stop(lab.lab_id, None if node is None else node.node_id)

    def wipe(self, lab: Lab) -> None:
        """Wipe a lab. Raises Refused: something of it runs, or the switch says so."""
        self._check_switch("wipe")
        if any(self.state(lab, each).is_running for each in lab.nodes.values()):
            raise refused("wipe_while_running")
        self._runtime.wipe(lab.lab_id)

    def check_deletable(self, lab: Lab) -> None:
        """Check that a lab may be deleted. Raises Refused: it is not stopped and wiped, or the switch says so."""
        self._check_switch("delete")
        if self.lab_state(lab) != "DEFINED_ON_CORE":
            raise refused("delete_while_running", lab_id=lab.lab_id)

    def forget(self, lab: Lab) -> None:
        """Let the runtime forget a deleted lab."""
        self._runtime.forget(lab.lab_id)

    def observe(self, lab: Lab) -> None:
        """Write down as events which states changed since it was last looked at."""
        for node in lab.nodes.values():
            state = self.state(lab, node)
            before = lab.seen.get(node.node_id, NodeState.DEFINED_ON_CORE)
            if state is not before:
                lab.seen[node.node_id] = state
                self.note(lab, "STATE_CHANGED", "NODE", node.node_id, {"state": state}, {"state": before})

    def note(
        self,
        lab: Lab,
        event: str,
        element_type: str,
        element_id: str,
        data: dict[str, Any] | None = None,
        previous: dict[str, Any] | None = None,
    ) -> None:
        """Write down an event."""
        lab.events.append(
            {
                "lab_id": lab.lab_id,
                "event": event,
                "element_type": element_type,
                "element_id": element_id,
                "data": data or {},
                "previous": previous or {},
                "timestamp": self._now(),
            }
        )

    def _reported(self, lab: Lab, node: Node, state: NodeState) -> NodeState:
        until, last = lab.stops.get(node.node_id, (0.0, state))
        if self._clock() < until:
            return last
        lab.stops.pop(node.node_id, None)
        if not state.is_running:
            return state
        if (most := self._switches.value("stuck").get(node.label)) is not None and most in _ORDER:
            state = min(state, NodeState(most), key=_place)
        if node.label in self._switches.value("disconnected") and state is not NodeState.QUEUED:
            return NodeState.DISCONNECTED
        if node.label in self._switches.value("no_boot") and state is NodeState.BOOTED:
            return NodeState.STARTED
        return state

    def _objection(self, lab: Lab, chosen: list[Node], running: int) -> str | None:
        if not self._switches.value("is_ready"):
            return "No compute host is ready."
        if not self._switches.value("is_licensed"):
            return "The product is not licensed."
        requested, quota = sum(self._counts(node) for node in chosen), self._switches.value("quota")
        if running + requested > quota:
            return f"{requested} more nodes do not fit: {running} of {quota} licensed nodes are started."
        for node in chosen:
            if node.node_definition == "external_connector" and lab.mappings.get(node.day0 or "NAT") is None:
                return f"External connector {node.label} has no bridge."
        return None

    def _counts(self, node: Node) -> bool:
        definition = self._definitions.node(node.node_definition)
        return definition is None or definition.is_counted

    def _check_switch(self, verb: str) -> None:
        if self._switches.take(f"refuse_{verb}"):
            raise refused("refused_by_switch", verb=verb)


def _place(state: NodeState) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)

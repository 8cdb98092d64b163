"""The life of a lab: start, stop, wipe; the reported states of its nodes, links and of itself; its events.

The rules, as far as they are known: stop before wipe before delete; no start without a licence, beyond the quota, with
an external connector that has no bridge, or while no compute is ready. The runtime knows how far the nodes are; what
switches make of that is laid over it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flashferry.lab.cml.definitions import Definitions, refused
from flashferry.lab.cml.elements import Capture, Lab, Link, Node, new_id, plan_of
from flashferry.lab.cml.faults import Switches
from flashferry.lab.cml.runtime import NodeRuntime, NodeState, NodeView, frames_of, pcap_of
from flashferry.lab.cml.topology import as_condition, as_json, checked, merged

_AT_REST = frozenset({NodeState.DEFINED_ON_CORE, NodeState.STOPPED})
_ORDER = (NodeState.QUEUED, NodeState.STARTED, NodeState.BOOTED)


class Life:
    """Takes labs through their states, by a runtime and under the switches of faults."""

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
        """Start the nodes of a lab that do not run; `running` are those of all labs that count. Raises Refused: 400."""
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
        return self._definitions.nodes[node.node_definition].is_counted

    def _check_switch(self, verb: str) -> None:
        if self._switches.take(f"refuse_{verb}"):
            raise refused("refused_by_switch", verb=verb)


def _place(state: NodeState) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


_MOST_PACKETS = 1_000_000
_LONGEST_S = 86_400
_LONGEST_FILTER = 128
_CAPTURE_KEYS = frozenset({"encap", "maxpackets", "maxtime", "bpfilter"})


class Conditions:
    """Stores conditions, and has the runtime apply them."""

    def __init__(self, runtime: NodeRuntime, switches: Switches) -> None:
        self._runtime = runtime
        self._switches = switches

    def change(self, lab: Lab, link: Link, requested: object) -> dict[str, Any]:
        """Set, or change, the condition of a link, and return it as it is stored. Raises Refused: 400: it is none."""
        change = checked(requested)
        if self._switches.value("condition_refused"):
            raise refused("bad_condition", why="a switch of the stand-in refuses it")
        self._store(lab, link, {**change, **(self._switches.value("wrong_condition") or {})})
        return self.shown(link, is_operational=True)

    def take_imported(self, lab: Lab) -> None:
        """Apply what a topology brought, or leave it out, as the switch says: which the real one does is not known."""
        for link in lab.links.values():
            requested, link.condition = link.condition, None
            if requested and not self._switches.value("import_ignores_conditions"):
                self._store(lab, link, requested)

    def remove(self, lab: Lab, link: Link) -> None:
        """Remove the condition of a link. Raises Refused: 400: there is none."""
        if link.condition is None:
            raise refused("no_condition")
        link.condition = link.operational = link.applied = None
        self._runtime.set_condition(lab.lab_id, link.link_id, None)

    def shown(self, link: Link, *, is_operational: bool) -> dict[str, Any]:
        """Return a condition as it reads back; of a link without one nothing, which is not confirmed."""
        held = dict(link.condition or {})
        return {**held, "operational": link.operational} if is_operational else held

    def _store(self, lab: Lab, link: Link, change: Mapping[str, Any]) -> None:
        is_enabled = self._switches.value("is_condition_enabled_by_default")
        link.condition = merged(link.condition, change, is_enabled_by_default=is_enabled)
        requested = {**link.condition, **(self._switches.value("wrong_operational") or {})}
        hidden = self._switches.value("wrong_on_link")
        link.applied = {**requested, **(hidden or {})}
        in_force = self._runtime.set_condition(lab.lab_id, link.link_id, as_condition(link.applied))
        link.operational = (requested if requested["enabled"] else None) if hidden else as_json(in_force)


class Captures:
    """Runs captures on links, by the clock."""

    def __init__(self, runtime: NodeRuntime, *, clock: Callable[[], float], now: Callable[[], str]) -> None:
        self._runtime = runtime
        self._clock = clock
        self._now = now

    def start(self, lab: Lab, link: Link, config: object, *, is_up: bool, has_link_key: bool) -> dict[str, Any]:
        """Start what is given, of a lab. Raises Refused: 400."""
        checked_config = _checked_config(config)
        if not is_up:
            raise refused("capture_not_running", link_id=link.link_id)
        key = link.link_id if has_link_key else new_id()
        link.capture = Capture(config=checked_config, key=key, began_at=self._clock(), started=self._now())
        self._runtime.start_capture(lab.lab_id, link.link_id)
        return self.status(lab, link)

    def stop(self, lab: Lab, link: Link) -> None:
        """Stop a capture; what it has is kept."""
        capture = self._of(link)
        self._refresh(lab, link, capture)
        if capture.ended_at is None:
            self._end(lab, link, capture)

    def status(self, lab: Lab, link: Link) -> dict[str, Any]:
        """Return how far it is; of a link without any an empty object, which is not confirmed."""
        if link.capture is None:
            return {}
        self._refresh(lab, link, link.capture)
        packets = sum(1 for _ in frames_of(link.capture.content))
        return {
            "config": {**link.capture.config, "link_capture_key": link.capture.key},
            "starttime": link.capture.started,
            "packetscaptured": packets,
        }

    def key(self, link: Link) -> str:
        """Return the key of the last capture. Raises Refused: 404: there was none."""
        return self._of(link).key

    def content(self, lab: Lab, link: Link) -> bytes:
        """Return what it has, as pcap. Raises Refused: 404: there was none."""
        capture = self._of(link)
        self._refresh(lab, link, capture)
        return capture.content or pcap_of([])

    def _of(self, link: Link) -> Capture:
        if link.capture is None:
            raise refused("no_capture", link_id=link.link_id)
        return link.capture

    def _refresh(self, lab: Lab, link: Link, capture: Capture) -> None:
        if capture.ended_at is not None:
            return
        frames = list(frames_of(self._runtime.capture(lab.lab_id, link.link_id) or b""))
        most = capture.config.get("maxpackets", _MOST_PACKETS)
        capture.content = pcap_of(frames[:most])
        is_over = self._clock() - capture.began_at >= capture.config.get("maxtime", _LONGEST_S)
        if len(frames) >= most or is_over:
            self._end(lab, link, capture)

    def _end(self, lab: Lab, link: Link, capture: Capture) -> None:
        capture.ended_at = self._clock()
        self._runtime.stop_capture(lab.lab_id, link.link_id)


def _checked_config(config: object) -> dict[str, Any]:
    if not isinstance(config, dict) or not set(config) <= _CAPTURE_KEYS:
        raise refused("bad_request", why=f"capture: expected an object of {', '.join(sorted(_CAPTURE_KEYS))}")
    if "maxpackets" not in config and "maxtime" not in config:
        raise refused("bad_request", why="capture: expected maxpackets or maxtime")
    for key, most in (("maxpackets", _MOST_PACKETS), ("maxtime", _LONGEST_S)):
        if key in config and not (isinstance(config[key], int) and 1 <= config[key] <= most):
            raise refused("bad_request", why=f"capture: {key}: expected 1..{most}, found {config[key]!r}")
    if not 0 <= len(str(config.get("bpfilter", ""))) <= _LONGEST_FILTER:
        raise refused("bad_request", why=f"capture: bpfilter: at most {_LONGEST_FILTER} characters")
    return dict(config)

"""Import, start, read, condition and remove labs on a controller.

Facts
-----
* "The lab must be stopped before it can be wiped", and wiped before it can be removed. How the controller answers other
  orders is unknown and does not matter: the next poll decides.
* Labs are STARTED, STOPPED or DEFINED_ON_CORE. Whether a wiped lab reports the last is unknown, so after an accepted
  wipe the removal is tried anyway.
* A lab is gone only if the answer is 404.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.json_access import Node
from flashferry.core.redaction import sanitize
from flashferry.nightly.backend import (
    Deadline,
    LabNode,
    Leftover,
    LinkCondition,
    NodeState,
    PlannedLink,
    RunningLab,
    Topology,
)
from flashferry.nightly.cml.controller import Answer, Call, Controller, below
from flashferry.nightly.cml.images import with_notes
from flashferry.nightly.lab_notes import PREFIX
from flashferry.nightly.night import Fault, NightFault
from flashferry.nightly.topology.definitions import conditioning

REAP, IMPORT, START, CONDITION, ARTEFACTS = "reap", "import", "start", "condition", "artefacts"
_IMPORT_S = 120.0
_SETTLE_S = 10.0
_POLL_S = 0.5
_GONE = (404,)
_STATES = {state.value: state for state in NodeState} | {"STARTING": NodeState.STARTED}
"""Any other state counts as QUEUED: the node cannot be used."""


class LabParts(Struct, frozen=True, kw_only=True):
    """What stays the same while a lab runs: its nodes as defined, and link IDs by label."""

    nodes: tuple[LabNode, ...]
    links: Mapping[str, str]


class LabLink(Struct, frozen=True, kw_only=True):
    """A link with the IDs of the nodes that it joins."""

    link_id: str
    label: str
    ends: frozenset[str]


def import_lab(controller: Controller, topology: Topology, *, notes: str, deadline: Deadline) -> str:
    """Import a lab with its title and notes, and return its ID.

    Raises:
        ConfigInvalid: The text is no topology.
        NightFault: The controller refuses it.
    """
    there = partial(lab_by_title, controller, topology.title, step=IMPORT, deadline=deadline)
    call = Call(
        method="POST",
        path="import",
        what="import the lab",
        step=IMPORT,
        params={"title": topology.title},
        content=with_notes(topology.text, title=topology.title, notes=notes),
        is_repeatable=False,
        timeout_s=_IMPORT_S,
    )
    found = controller.ask(call, deadline=deadline, done=there).value
    if (lab_id := Node(found).text("id")) is None:
        raise NightFault(
            "the controller imported the lab and returned no id of it",
            fault=Fault.LAB,
            step=IMPORT,
            hint="'flashferry nightly reap' removes it; 'flashferry nightly record' shows what it answers",
        )
    _note(controller, lab_id, topology.title, notes, deadline)
    return lab_id


def start_lab(controller: Controller, lab_id: str, *, deadline: Deadline) -> None:
    """Start a lab, without waiting for its nodes.

    Raises:
        NightFault: The controller refuses.
    """

    def done() -> bool | None:
        return True if lab_state(controller, lab_id, step=START, deadline=deadline) == "STARTED" else None

    path = below("labs", lab_id, "start")
    call = Call(method="PUT", path=path, what="start the lab", step=START, expects="nothing", is_repeatable=False)
    controller.ask(call, deadline=deadline, done=done)


def lab_by_title(controller: Controller, title: str, *, step: str, deadline: Deadline) -> object | None:
    """Return the details of the lab with a title; None if there is none."""
    for lab_id in lab_ids(controller, step=step, deadline=deadline):
        node = lab_details(controller, lab_id, step=step, deadline=deadline).value
        if Node(node).text("lab_title") == title:
            return {"id": lab_id, **node}
    return None


def lab_ids(controller: Controller, *, step: str, deadline: Deadline | None = None) -> tuple[str, ...]:
    """Return the IDs of all labs that the user can see; the page of tiles is updated later."""
    what, params = "read which labs there are", {"show_all": "true"}
    return Node(controller.get("labs", what, step=step, deadline=deadline, params=params).value).texts()


def leftovers(controller: Controller) -> tuple[Leftover, ...]:
    """Return all labs whose title has our prefix; unreadable ones and those just removed are skipped."""
    found = []
    for lab_id in lab_ids(controller, step=REAP):
        node = Node(lab_details(controller, lab_id, step=REAP, allows=(403, 404)).value)
        title = node.text("lab_title") or ""
        if title.startswith(PREFIX):
            notes, state = node.text("lab_notes") or "", node.text("state") or ""
            found.append(Leftover(lab_id=lab_id, title=title, notes=notes, state=state))
    return tuple(found)


def lab_details(
    controller: Controller, lab_id: str, *, step: str, deadline: Deadline | None = None, allows: tuple[int, ...] = _GONE
) -> Answer:
    """Return a lab's title, notes, owner and state."""
    return controller.get(below("labs", lab_id), "read what the lab is", step=step, deadline=deadline, allows=allows)


def lab_state(controller: Controller, lab_id: str, *, step: str, deadline: Deadline) -> str | None:
    """Return `DEFINED_ON_CORE`, `STOPPED` or `STARTED`; None: no such lab."""
    path = below("labs", lab_id, "state")
    found = controller.get(path, "read the lab's state", step=step, deadline=deadline, allows=_GONE).value
    return found if isinstance(found, str) else None


def lab_parts(controller: Controller, lab_id: str, *, step: str) -> LabParts:
    """Return a lab's nodes and links as defined, without configurations."""
    node = _topology(controller, lab_id, step)
    links = {link.text("label") or "": link.text("id") or "" for link in node.list("links")}
    return LabParts(nodes=tuple(map(_defined, node.list("nodes"))), links=links)


def lab_links(controller: Controller, lab_id: str, *, step: str) -> tuple[LabLink, ...]:
    """Return a lab's links and the nodes they join."""
    return tuple(
        LabLink(
            link_id=link.text("id") or "",
            label=link.text("label") or link.text("id") or "",
            # A topology that is downloaded says n1 and n2, one that is asked for node_a and node_b.
            ends=frozenset(filter(None, map(link.text, ("node_a", "node_b", "n1", "n2")))),
        )
        for link in _topology(controller, lab_id, step).list("links")
    )


def _topology(controller: Controller, lab_id: str, step: str) -> Node:
    path, params = below("labs", lab_id, "topology"), {"exclude_configurations": "true"}
    return Node(controller.get(path, "read the lab's topology", step=step, params=params).value)


def condition_in_force(controller: Controller, lab_id: str, link: LabLink, *, step: str) -> LinkCondition | None:
    """Return the condition in force on a link; None: none, or one without effect."""
    found = _condition(controller, below("labs", lab_id, "links", link.link_id, "condition"), link.label, step=step)
    return found if found != LinkCondition() else None


def node_states(controller: Controller, lab_id: str, *, step: str, deadline: Deadline | None = None) -> dict[str, str]:
    """Return the nodes' states by ID, in the controller's words; empty: the lab is gone."""
    path = below("labs", lab_id, "lab_element_state")
    answer = controller.get(path, "read the nodes' states", step=step, deadline=deadline, allows=_GONE)
    node = Node(answer.value).at("nodes")
    return {node_id: state.value for node_id, state in node.items() if isinstance(state.value, str)}


def nodes_now(controller: Controller, lab_id: str, parts: LabParts) -> tuple[LabNode, ...]:
    """Return a lab's nodes in their current state, with addresses once one has booted.

    Raises:
        NightFault: The lab is gone, or the controller does not answer.
    """
    states = node_states(controller, lab_id, step=START)
    if not states:
        raise NightFault(
            f"lab {sanitize(lab_id)} is not there any more, or has no nodes",
            fault=Fault.LAB,
            step=START,
            hint="It was removed while the night ran; 'flashferry nightly run' again",
        )
    addresses = _addresses(controller, lab_id) if NodeState.BOOTED in states.values() else {}
    return tuple(
        replace(
            node,
            state=_STATES.get(states.get(node.node_id, ""), NodeState.QUEUED),
            addresses=addresses.get(node.node_id, ()),
        )
        for node in parts.nodes
    )


def set_condition(controller: Controller, lab_id: str, parts: LabParts, link: PlannedLink) -> LinkCondition:
    """Set a link's condition and return the one in force, after at most `_SETTLE_S`.

    Raises:
        NightFault: There is no such link, the controller refuses, or no condition is in force.
    """
    path = below("labs", lab_id, "links", link_id(parts, link, step=CONDITION), "condition")
    what = f"set the condition of link {sanitize(link.label)}"
    body = conditioning(link.condition)
    controller.ask(Call(method="PATCH", path=path, what=what, step=CONDITION, expects="nothing", json=body))
    until = Deadline.after(_SETTLE_S, controller.clock)
    while True:
        found = _condition(controller, path, link.label, step=CONDITION)
        if found == link.condition or not until.pause(_POLL_S):
            break
    if found is None:
        raise NightFault(
            f"link {sanitize(link.label)}: its condition was set, and none is in force",
            fault=Fault.LAB,
            step=CONDITION,
            hint="Look at the link on the controller's page, and at its system log",
        )
    return found


def link_id(parts: LabParts, link: PlannedLink, *, step: str) -> str:
    """Return a link's ID.

    Raises:
        NightFault: There is no link with that label.
    """
    if (found := parts.links.get(link.label)) is None:
        raise NightFault(
            f"expected a link {sanitize(link.label)!r} in the lab, "
            f"found {', '.join(map(sanitize, parts.links)) or 'none'}",
            fault=Fault.LAB,
            step=step,
            hint="Give links of your own topology the labels that nightly.yaml names",
        )
    return found


def console_log(controller: Controller, lab_id: str, node_id: str) -> str:
    """Return the output of a node's first console; empty if none is kept."""
    path = below("labs", lab_id, "nodes", node_id, "consoles", "0", "log")
    allows = (400, 403, 404)
    answer = controller.get(path, "read a console's log", step=ARTEFACTS, expects="text", allows=allows)
    return console_text(answer.value)


def console_text(answer: str | None) -> str:
    """Return a console log from any of the forms that the answer may have."""
    try:
        found = json.loads(answer or '""')
    except ValueError:
        return answer or ""
    return _flat(found)


def download(controller: Controller, lab_id: str) -> str:
    """Return a lab's topology as the controller writes it, with configurations."""
    path = below("labs", lab_id, "download")
    return str(controller.get(path, "download the lab's topology", step=ARTEFACTS, expects="text").value)


def events(controller: Controller, lab_id: str) -> list[Any]:
    """Return the events of a lab."""
    path = below("labs", lab_id, "events")
    found = controller.get(path, "read the lab's events", step=ARTEFACTS).value
    return found if isinstance(found, list) else [found]


def _defined(node: Node) -> LabNode:
    """Return a node as the topology defines it; its current state may differ."""
    return LabNode(
        node_id=node.text("id") or "",
        label=node.text("label") or "",
        node_definition=node.text("node_definition") or "",
        image_definition=node.text("image_definition"),
        state=NodeState.DEFINED_ON_CORE,
        tags=node.texts("tags"),
    )


def _note(controller: Controller, lab_id: str, title: str, notes: str, deadline: Deadline) -> None:
    """Set a lab's title and notes if the import changed them."""
    node = Node(lab_details(controller, lab_id, step=IMPORT, deadline=deadline, allows=()).value)
    if (node.text("lab_title"), node.text("lab_notes")) != (title, notes):
        body = {"title": title, "notes": notes}
        path = below("labs", lab_id)
        what = "write the night's notes on the lab"
        call = Call(method="PATCH", path=path, what=what, step=IMPORT, expects="nothing", json=body)
        controller.ask(call, deadline=deadline)


def _addresses(controller: Controller, lab_id: str) -> dict[str, tuple[str, ...]]:
    path = below("labs", lab_id, "layer3_addresses")
    node = Node(controller.get(path, "read the nodes' addresses", step=START, allows=(400, 403, 404)).value)
    return {node_id: tuple(_node_addresses(node)) for node_id, node in node.items()}


def _node_addresses(node: Node) -> Iterable[str]:
    """Yield a node's addresses, IPv4 first, in the order of its interfaces."""
    ports = [port for _, port in node.at("interfaces").items()]
    found = (address for family in ("ip4", "ip6") for port in ports for address in port.texts(family))
    return (address.partition("/")[0] for address in found)


def _condition(controller: Controller, path: str, label: str, *, step: str) -> LinkCondition | None:
    """Return the condition in force on a link; None: none."""
    what, params = f"read the condition of link {sanitize(label)}", {"operational": "true"}
    node = Node(controller.get(path, what, step=step, params=params, allows=_GONE).value)
    if node.flag("enabled") is False or ("operational" in (node.value or {}) and not node.at("operational")):
        return None
    in_force = node.at("operational") or node
    if not in_force:
        return None
    return LinkCondition(
        bandwidth_kbps=in_force.whole("bandwidth") or 0,
        latency_ms=in_force.whole("latency") or 0,
        jitter_ms=in_force.whole("jitter") or 0,
        loss_percent=in_force.number("loss") or 0.0,
    )


def _flat(found: Any) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, dict):
        return _flat(next((found[key] for key in ("log", "logs", "console", "lines", "content") if key in found), ""))
    if isinstance(found, list):
        parts = [_flat(one) for one in found]
        return "".join(parts) if all(part.endswith("\n") for part in parts[:-1]) else "\n".join(parts)
    return ""


STEP = "clean"
_DOWN_POLL_S = 1.0
_STOP_AGAIN_S = 30.0
"""After this time a stop is repeated, also for each node."""

_REFUSALS = (400, 403, 404, 409, 423, 500)
"""Possible answers to orders in the wrong state; the real codes are unknown."""

_RESTING = frozenset({"STOPPED", "DEFINED_ON_CORE"})


class _Descent:
    """The removal of one lab, a step at a time.

    Attributes:
        said: The last error.
        state: The lab's last known state; empty: unknown.
    """

    def __init__(self, controller: Controller, lab: RunningLab, deadline: Deadline) -> None:
        self._controller, self._lab, self._deadline = controller, lab, deadline
        self._is_wiped = False
        self._stop_again: Deadline | None = None
        self.said = ""
        self.state = ""

    def is_gone(self) -> bool:
        """Check the lab and do the next thing; return whether it is gone.

        Raises:
            NightFault: `LAB`: the controller does not answer. `CLEANUP`: it is not our lab.
        """
        answer = lab_details(self._controller, self._lab.lab_id, step=STEP, deadline=self._deadline)
        if answer.is_gone:
            return True
        node = Node(answer.value)
        title = node.text("lab_title") or ""
        if title != self._lab.title or not title.startswith(PREFIX):
            raise left(f"lab {sanitize(self._lab.lab_id)} is now called {sanitize(title)!r} and is left alone", said="")
        self.state = node.text("state") or "in no state"
        next_step: dict[str, Callable[[], None]] = {"STARTED": self._stop, "STOPPED": self._wipe}
        next_step.get(self.state, self._remove)()
        return False

    def last_seen(self) -> str:
        """Return the lab's state at the end of the time."""
        title = sanitize(self._lab.title)
        return f"lab {title} is still there, {self.state}" if self.state else f"lab {title} may still be there"

    def _stop(self) -> None:
        self._is_wiped = False
        if self._stop_again is not None and not self._stop_again.is_over:
            return
        is_again = self._stop_again is not None
        self._order("PUT", "stop")
        if is_again:
            states = node_states(self._controller, self._lab.lab_id, step=STEP, deadline=self._deadline)
            for node_id in (one for one, state in states.items() if state not in _RESTING):
                self._order("PUT", "nodes", node_id, "state", "stop")
        self._stop_again = Deadline.after(_STOP_AGAIN_S, self._deadline.clock)

    def _wipe(self) -> None:
        if self._is_wiped:
            self._remove()
        else:
            self._is_wiped = self._order("PUT", "wipe")

    def _remove(self) -> None:
        # Refused: from the beginning, for something in it still runs.
        if not self._order("DELETE"):
            self._is_wiped, self._stop_again = False, None
            self._order("PUT", "stop")
            self._order("PUT", "wipe")

    def _order(self, method: str, *parts: str) -> bool:
        path = below("labs", self._lab.lab_id, *parts)
        what = f"{parts[-1] if parts else 'remove'} the lab"
        call = Call(method=method, path=path, what=what, step=STEP, expects="nothing", allows=_REFUSALS)
        answer = self._controller.ask(call, deadline=self._deadline)
        if answer.said and not answer.is_gone:
            self.said = f"could not {what}: {answer.said}"
        return not answer.said


def take_down(controller: Controller, lab: RunningLab, *, deadline: Deadline, poll_s: float = _DOWN_POLL_S) -> None:
    """Stop, wipe and remove a lab, and return once it is gone.

    A missing lab is no error; a lab with another title is left alone.

    Raises:
        NightFault: `CLEANUP`: it still exists.
    """
    descent = _Descent(controller, lab, deadline)
    while True:
        try:
            if descent.is_gone():
                return
        except NightFault as error:
            if error.fault is Fault.CLEANUP:
                raise
            descent.said = error.message
        if not deadline.pause(poll_s):
            raise left(descent.last_seen(), said=descent.said)


def left(message: str, *, said: str) -> NightFault:
    """Return the fault of a lab that still exists, or may."""
    return NightFault(
        f"{message}; {said}" if said else message,
        fault=Fault.CLEANUP,
        step=STEP,
        hint="'flashferry nightly reap' tries again; or stop, wipe and delete it on the controller's page",
    )

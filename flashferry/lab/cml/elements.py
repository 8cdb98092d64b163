"""Labs and what they are made of: nodes, interfaces, links, annotations; made from topologies or piece by piece."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from flashferry.lab.cml.definitions import Definitions, NodeDefinition, refused
from flashferry.lab.cml.runtime import InterfacePlan, LabPlan, LinkPlan, NodePlan, NodeState
from flashferry.lab.cml.topology import GivenTopology, as_condition, files_of

_MAC_PREFIX = "52:54:00"
_macs = count(1)


@dataclass(slots=True, kw_only=True)
class Interface:
    """An interface of a node."""

    interface_id: str
    node_id: str
    label: str
    slot: int | None
    kind: str = "physical"
    mac_address: str = ""


@dataclass(slots=True, kw_only=True)
class Node:
    """A node of a lab; `settings` are what the stand-in only keeps."""

    node_id: str
    label: str
    node_definition: str
    image_definition: str | None = None
    x: int = 0
    y: int = 0
    tags: list[str] = field(default_factory=list)
    configuration: list[tuple[str, str]] = field(default_factory=list)
    interfaces: list[Interface] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def day0(self) -> str:
        """The main day-0 file."""
        return self.configuration[0][1] if self.configuration else ""


@dataclass(slots=True, kw_only=True)
class Capture:
    """A packet capture on a link; ended by hand or by its time."""

    config: dict[str, Any]
    key: str
    began_at: float
    started: str
    ended_at: float | None = None
    content: bytes = b""


@dataclass(slots=True, kw_only=True)
class Link:
    """A link between two interfaces.

    `condition` is stored and read back, `operational` is what the controller says to be in force, and `applied` what
    the runtime applies; a switch makes them differ. `capture` is the last one.
    """

    link_id: str
    label: str
    one: Interface
    two: Interface
    condition: dict[str, Any] | None = None
    operational: dict[str, Any] | None = None
    applied: dict[str, Any] | None = None
    capture: Capture | None = None


@dataclass(slots=True, kw_only=True)
class Lab:
    """A lab, with its events, oldest first.

    `created` and `modified` are as the interface writes times, `born_at` is by the controller's clock. `mappings` has
    external connectors' keys and their bridges, `seen` each node's state at the last event, and `stops` the nodes that
    were ordered to stop and still show a state: until when, and which.
    """

    lab_id: str
    title: str
    owner_id: str
    owner: str
    created: str
    modified: str
    born_at: float
    description: str = ""
    notes: str = ""
    extras: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    annotations: dict[str, dict[str, Any]] = field(default_factory=dict)
    smart_annotations: dict[str, dict[str, Any]] = field(default_factory=dict)
    mappings: dict[str, str | None] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    seen: dict[str, NodeState] = field(default_factory=dict)
    stops: dict[str, tuple[float, NodeState]] = field(default_factory=dict)

    def node(self, node_id: str) -> Node:
        """Return a node. Raises Refused: 404."""
        return _found(self.nodes, node_id, "node")

    def link(self, link_id: str) -> Link:
        """Return a link. Raises Refused: 404."""
        return _found(self.links, link_id, "link")

    def interface(self, interface_id: object) -> Interface:
        """Return an interface. Raises Refused: 404."""
        return _found({each.interface_id: each for each in self.interfaces()}, str(interface_id), "interface")

    def interfaces(self) -> Iterator[Interface]:
        """Yield all interfaces, node by node."""
        for node in self.nodes.values():
            yield from node.interfaces

    def link_at(self, interface: Interface) -> Link | None:
        """Return the link at an interface."""
        return next((link for link in self.links.values() if interface in (link.one, link.two)), None)


Element = TypeVar("Element")


def _found(elements: Mapping[str, Element], key: str, what: str) -> Element:
    if key not in elements:
        raise refused(f"{what}_not_found", **{f"{what}_id": key})
    return elements[key]


def new_id() -> str:
    """Return an id as the controller makes them."""
    return str(uuid.uuid4())


def fill(lab: Lab, given: GivenTopology, definitions: Definitions) -> None:
    """Put the elements of a topology into a new lab; ids are made anew, as on a real controller."""
    ports: dict[tuple[object, object], Interface] = {}
    for each in given.nodes or ():
        node = Node(
            node_id=new_id(),
            label=each.label,
            node_definition=each.node_definition,
            image_definition=each.image_definition or None,
            x=each.x,
            y=each.y,
            tags=each.tags or [],
            configuration=files_of(each.configuration, definitions.nodes[each.node_definition].day0),
            settings=each.settings,
        )
        for port in each.interfaces or ():
            made = _interface(node, port.label, port.slot, kind=port.type, mac_address=port.mac_address)
            ports[each.id, port.id] = made
        lab.nodes[node.node_id] = node
        note_mapping(lab, node)
    for link in given.links or ():
        one, two = (ports[end] for end in link.ends)
        add_link(lab, one, two, link.label or "").condition = link.conditioning or None
    lab.annotations = {new_id(): each for each in given.annotations or ()}
    lab.smart_annotations = {new_id(): each for each in given.smart_annotations or ()}
    note_tags(lab)
    lab.extras.update(given.lab.extras)


def add_interfaces(node: Node, definition: NodeDefinition, slot: int | None) -> list[Interface]:
    """Return the new interfaces of a node: in the next slot, or in all that are free up to a slot."""
    taken = {each.slot for each in node.interfaces if each.kind == "physical"}
    free = next(number for number in count() if number not in taken)
    slots = [free] if slot is None else [number for number in range(slot + 1) if number not in taken]
    if not slots:
        raise refused("bad_request", why=f"slot {slot} of {node.label} is taken")
    return [_interface(node, definition.interface_label(number), number) for number in slots]


def populate(node: Node, definition: NodeDefinition) -> None:
    """Give a node the interfaces that it comes with."""
    if definition.has_loopback:
        _interface(node, "Loopback0", None, kind="loopback")
    add_interfaces(node, definition, 0 if definition.definition_id == "external_connector" else 3)


def add_link(lab: Lab, one: Interface, two: Interface, label: str = "") -> Link:
    """Put a link between two interfaces. Raises Refused: one has a link already, or both are one."""
    for interface in (one, two):
        if lab.link_at(interface) is not None or interface.kind != "physical":
            raise refused("bad_request", why=f"interface {interface.label} cannot take a link")
    if one.node_id == two.node_id:
        raise refused("bad_request", why="a link wants two nodes")
    ends = [f"{lab.nodes[end.node_id].label}-{end.label}" for end in (one, two)]
    link = Link(link_id=new_id(), label=label or "<->".join(ends), one=one, two=two)
    lab.links[link.link_id] = link
    return link


def note_mapping(lab: Lab, node: Node) -> None:
    """Map the key of an external connector to its bridge; of keys that are no bridge's, none is known yet."""
    if node.node_definition == "external_connector":
        key = node.day0 or "NAT"
        bridges = {"System Bridge": "bridge0", "NAT": "virbr0", "bridge0": "bridge0", "virbr0": "virbr0"}
        lab.mappings.setdefault(key, bridges.get(key))


def note_tags(lab: Lab) -> None:
    """Make a smart annotation for each tag, and remove every other, as the controller does by itself."""
    used = {tag for each in lab.nodes.values() for tag in each.tags}
    held = {str(each.get("tag")): key for key, each in lab.smart_annotations.items()}
    for tag in sorted(used - set(held)):
        lab.smart_annotations[new_id()] = {**_SMART_ANNOTATION, "tag": tag, "label": tag}
    for tag in set(held) - used:
        del lab.smart_annotations[held[tag]]


def plan_of(lab: Lab) -> LabPlan:
    """Return a lab as a runtime takes it."""
    return LabPlan(
        lab_id=lab.lab_id,
        title=lab.title,
        nodes=tuple(_node_plan(lab, node) for node in lab.nodes.values()),
        links=tuple(
            LinkPlan(
                link_id=link.link_id,
                label=link.label,
                interface_ids=(link.one.interface_id, link.two.interface_id),
                condition=None if link.applied is None else as_condition(link.applied),
            )
            for link in lab.links.values()
        ),
    )


def _node_plan(lab: Lab, node: Node) -> NodePlan:
    is_connector = node.node_definition == "external_connector"
    return NodePlan(
        node_id=node.node_id,
        label=node.label,
        node_definition=node.node_definition,
        image_definition=node.image_definition,
        day0=node.day0,
        interfaces=tuple(
            InterfacePlan(
                interface_id=each.interface_id, label=each.label, slot=each.slot, mac_address=each.mac_address
            )
            for each in node.interfaces
        ),
        tags=tuple(node.tags),
        bridge=lab.mappings.get(node.day0 or "NAT") if is_connector else None,
    )


def _interface(
    node: Node, label: str, slot: int | None, *, kind: str = "physical", mac_address: str | None = None
) -> Interface:
    mac_address = mac_address or (_mac() if kind == "physical" else "")
    made = Interface(
        interface_id=new_id(), node_id=node.node_id, label=label, slot=slot, kind=kind, mac_address=mac_address
    )
    node.interfaces.append(made)
    return made


def _mac() -> str:
    number = next(_macs)
    return f"{_MAC_PREFIX}:{number >> 16 & 0xFF:02x}:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}"


_SMART_ANNOTATION = {
    "tag": "", "is_on": True, "padding": 35, "label": "", "tag_offset_x": 0, "tag_offset_y": 0, "tag_size": 14,
    "group_distance": 400, "thickness": 1, "border_style": "", "fill_color": "#AAAAAAFF", "border_color": "#00000080",
    "z_index": 0,
}  # fmt: skip

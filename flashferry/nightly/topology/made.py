"""Read a topology file of the user: its routers, links and conditions, and check what a night needs.

The file is imported as it is, except for the title. Schemas 0.0 to 0.3 are accepted: a node's configuration is one text
or a list of files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Interface
from typing import Any

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import of_these
from flashferry.model.file_keys import Place, Reader, number, text, whole
from flashferry.nightly.backend import LinkCondition, PlannedLink, PlannedNode, Topology
from flashferry.nightly.description.values import (
    FORM,
    MOST_BANDWIDTH_KBPS,
    MOST_LATENCY_MS,
    MOST_TITLE,
    NightDescription,
    NodeGroup,
    ReachBy,
    Site,
)
from flashferry.nightly.night import NodeLogin
from flashferry.nightly.topology.definitions import (
    CONNECTOR,
    ROUTERS,
    SWITCH,
    WrittenLink,
    WrittenNode,
    day0,
    host_name,
    missing_for_ssh,
    topology_text,
)
from inventory.yaml_file import read_mapping

UNCONDITIONED = "unconditioned"
"""The condition name of a router whose links have no condition."""

_SCHEMA = re.compile(r"0\.[0-3](\.\d+)?")
_PATTY = re.compile(r"pat:(?:tcp:)?(\d+):22")
_SSH_PORT = 22


class _Link(Struct, frozen=True, kw_only=True):
    """A link of the file; its ends are node IDs."""

    label: str
    ends: frozenset[str]
    condition: LinkCondition | None


def own_topology(description: NightDescription, *, title: str) -> Topology:
    """Return the topology of the user's file.

    Raises:
        ConfigInvalid: The file is no topology, has no known router, a router's configuration does not permit SSH, or
            several links with conditions lead to a router.
    """
    path = description.topology.file
    assert path is not None
    top = Place(file=path, value=read_mapping(path), form=FORM)
    _check_lab(top.below("lab"))
    nodes = {text(node.below("id")): node for node in top.below("nodes").entries()}
    links = tuple(_links(top.below("links"), nodes, description.topology.conditions))
    routers = _own_routers(description, top, nodes)
    condition_of = {node_id: _condition_of(node, node_id, nodes, links) for node_id, node in routers.items()}
    return Topology(
        title=title,
        text=path.read_text(encoding="utf-8"),
        nodes=tuple(_own_planned(description, node, condition_of[node_id]) for node_id, node in routers.items()),
        links=tuple(_planned_links(links, {text(routers[one].below("label")): condition_of[one] for one in routers})),
    )


def _planned_links(links: tuple[_Link, ...], condition_of: Mapping[str, _Link | None]) -> Iterator[PlannedLink]:
    """Yield the links with conditions that lead to routers, given by label."""
    for link in links:
        nodes = tuple(label for label, found in condition_of.items() if found is link)
        if link.condition is not None and nodes:
            yield PlannedLink(
                label=link.label, condition_name=_condition_name(link), condition=link.condition, nodes=nodes
            )


def _check_lab(lab: Place) -> None:
    lab.mapping()
    version, title = lab.below("version"), lab.below("title")
    if not isinstance(version.value, str) or not _SCHEMA.fullmatch(version.value):
        raise version.wrong("a topology's schema, 0.0 to 0.3", "Export the lab again from the controller")
    if title.is_given and len(text(title)) > MOST_TITLE:
        raise title.problem(
            f"expected a title of at most {MOST_TITLE} characters, found {len(title.value)}",
            "The controller takes no longer one",
        )


def _own_routers(description: NightDescription, top: Place, nodes: Mapping[str, Place]) -> dict[str, Place]:
    """Return the night's routers by ID, each with a configuration that permits SSH."""
    known = {node_id: node for node_id, node in nodes.items() if node.below("node_definition").value in ROUTERS}
    labels_asked = description.topology.routers
    labels = {text(node.below("label")): node_id for node_id, node in known.items()}
    if missing := next((label for label in labels_asked if label not in labels), None):
        raise ConfigInvalid(
            f"{description.file}: key 'topology.routers': expected routers of {top.file}, found {missing}",
            hint=f"It has {', '.join(sorted(labels)) or 'none of a known kind'}",
        )
    routers = {labels[label]: known[labels[label]] for label in labels_asked} or known
    if not routers:
        raise top.below("nodes").problem(
            f"expected at least one node of {', '.join(ROUTERS)}, found none", "A night stages to such routers only"
        )
    if len(labels) != len(known):
        raise top.below("nodes").problem("expected each router's label once, found one twice", "Rename one of them")
    for node in routers.values():
        _check_ssh(node)
    return routers


def _check_ssh(node: Place) -> None:
    """Refuse a router whose configuration permits no login."""
    if (missing := missing_for_ssh(_configuration(node))) is not None:
        raise node.below("configuration").problem(
            f"router {node.below('label').value}: expected a configuration that lets SSH in, found no {missing}",
            "Add user, domain, 'crypto key generate rsa modulus 2048', 'ip ssh version 2' and the vty lines",
        )


def _configuration(node: Place) -> str:
    found = node.below("configuration").value
    if isinstance(found, list):
        return "\n".join(str(one.get("content") or "") for one in found if isinstance(one, dict))
    return str(found or "")


def _links(place: Place, nodes: Mapping[str, Place], given: Mapping[str, LinkCondition]) -> Iterator[_Link]:
    """Yield the links, with conditions from the description or else from the file."""
    found = [] if place.value in (None, []) else list(place.entries())
    labels = [str(one.below("label").value or one.below("id").value) for one in found]
    if missing := next((name for name in given if name not in labels), None):
        raise place.problem(
            f"expected a link with the label '{missing}' of topology.conditions, found none",
            f"It has {', '.join(labels) or 'no link'}",
        )
    for one, label in zip(found, labels, strict=True):
        ends = frozenset(text(one.below(end)) for end in ("n1", "n2"))
        if not ends <= nodes.keys():
            raise one.problem("expected links between nodes of the file, found one to none", "Export the lab again")
        yield _Link(label=label, ends=ends, condition=given.get(label) or _conditioning(one.below("conditioning")))


def _conditioning(place: Place) -> LinkCondition | None:
    if not place.mapping() or place.below("enabled").value is False:
        return None
    return LinkCondition(
        bandwidth_kbps=_figure(place.below("bandwidth"), whole(0, MOST_BANDWIDTH_KBPS, "kbit/s")),
        latency_ms=_figure(place.below("latency"), whole(0, MOST_LATENCY_MS, "ms")),
        jitter_ms=_figure(place.below("jitter"), whole(0, MOST_LATENCY_MS, "ms")),
        loss_percent=_figure(place.below("loss"), number(0, 100, "percent")),
    )


def _figure(place: Place, read: Reader) -> Any:
    return read(place) if place.is_given else 0


def _condition_of(node: Place, node_id: str, nodes: Mapping[str, Place], links: tuple[_Link, ...]) -> _Link | None:
    """Return the link with a condition between a connector and a router; None: none."""
    connectors = {one for one, found in nodes.items() if found.below("node_definition").value == CONNECTOR}
    path = (links[one] for one in links_to_connector(node_id, [link.ends for link in links], connectors))
    found = [link for link in path if link.condition is not None]
    if len(found) > 1:
        raise node.problem(
            f"router {node.below('label').value}: expected one link with a condition on the way to it, found "
            f"{len(found)}: {', '.join(link.label for link in found)}",
            "Leave the condition on one of them, or leave the router out by topology.routers",
        )
    return found[0] if found else None


def links_to_connector(node_id: str, links: Sequence[frozenset[str]], connectors: Collection[str]) -> tuple[int, ...]:
    """Return the links from a node to the nearest connector; without a path to one, all of its own.

    Args:
        node_id: The node.
        links: The node IDs that each link joins.
        connectors: IDs of the external connectors.

    Returns:
        Numbers of links from 0, the node's own first.
    """
    ways: dict[str, tuple[int, ...]] = {node_id: ()}
    waiting = [node_id]
    while waiting:
        here = waiting.pop(0)
        if here in connectors:
            return ways[here]
        for link, ends in enumerate(links):
            for there in ends - {here} if here in ends else ():
                if there not in ways:
                    ways[there] = (*ways[here], link)
                    waiting.append(there)
    return tuple(link for link, ends in enumerate(links) if node_id in ends)


def _condition_name(link: _Link | None) -> str:
    """Return a condition's name, one word: series names contain it."""
    if link is None:
        return UNCONDITIONED
    return re.sub(r"[^A-Za-z0-9.]+", "-", link.label).strip("-.") or "link"


def _own_planned(description: NightDescription, node: Place, link: _Link | None) -> PlannedNode:
    definition, label = str(node.below("node_definition").value), text(node.below("label"))
    address, port = _reached(description, node, label)
    image = node.below("image_definition")
    return PlannedNode(
        label=label,
        node_definition=definition,
        image_definition=text(image) if image.is_given else None,
        condition_name=_condition_name(link),
        address=address,
        ssh_port=port,
        platform=ROUTERS[definition].platform,
        host_name=host_name(_configuration(node)),
    )


def _reached(description: NightDescription, node: Place, label: str) -> tuple[str | None, int]:
    """Return a router's address, None if the backend reports it later, and its SSH port."""
    reach = description.reach
    if reach.by is ReachBy.STATIC:
        if (given := reach.addresses.get(label)) is None:
            raise ConfigInvalid(
                f"{description.file}: key 'reach.addresses': expected an address for {label}, found none",
                hint="Give one for each router of the topology, or leave the router out by topology.routers",
            )
        return str(given.ip), _SSH_PORT
    if reach.by is ReachBy.PATTY:
        return description.controller.host, _patty_port(node, label)
    return None, _SSH_PORT


def _patty_port(node: Place, label: str) -> int:
    """Return the controller's port of a router by its tags."""
    if (found := patty_port(map(str, node.below("tags").value or ()))) is None:
        raise node.below("tags").problem(
            f"router {label}: expected a tag such as pat:tcp:2001:22, found none", "PATty forwards by such tags alone"
        )
    return found


def patty_port(tags: Iterable[str]) -> int | None:
    """Return the controller port that PATty forwards to a node's SSH, by the node's tags; None: none."""
    return next((int(found[1]) for found in map(_PATTY.fullmatch, tags) if found), None)


MOST_ROUTERS = 31
"""Routers on the one switch of a generated lab: ports 0 to 31, one for the connector."""


class LabRouter(Struct, frozen=True, kw_only=True):
    """A router of a generated lab, numbered from 0."""

    number: int
    label: str
    site: Site
    group: NodeGroup


def check_title(title: str) -> None:
    """Refuse a lab's title that the controller would refuse.

    Raises:
        ConfigInvalid: It is empty, or has more than 64 characters.
    """
    if not 1 <= len(title) <= MOST_TITLE:
        raise ConfigInvalid(
            f"title: expected 1 to {MOST_TITLE} characters, found {len(title)}",
            hint="The rest has room in the lab's notes or description",
        )


def routers_of(description: NightDescription) -> tuple[LabRouter, ...]:
    """Return the routers of a generated lab, in the order of the description.

    Raises:
        ConfigInvalid: There are too many, two have one name, or the description names others.
    """
    routers = tuple(_routers(description))
    _check_routers(description, routers)
    return routers


def _routers(description: NightDescription) -> Iterator[LabRouter]:
    """Yield the routers; those of one kind at a site are numbered from 1."""
    number = 0
    counted: dict[tuple[str, str], int] = {}
    for site in description.topology.sites:
        for group in site.nodes:
            for _ in range(group.count):
                key = (site.name, group.node_definition)
                counted[key] = counted.get(key, 0) + 1
                label = f"{site.name}-{group.node_definition}-{counted[key]}".replace("_", "-").replace(".", "-")
                yield LabRouter(number=number, label=label, site=site, group=group)
                number += 1


def _check_routers(description: NightDescription, routers: tuple[LabRouter, ...]) -> None:
    labels = {one.label for one in routers}
    if len(routers) > MOST_ROUTERS:
        raise ConfigInvalid(
            f"{description.file}: expected at most {MOST_ROUTERS} routers in a lab that is made, found {len(routers)}",
            hint="Lower the counts, or give a larger topology of your own by topology.file",
        )
    if len(labels) != len(routers):
        raise ConfigInvalid(
            f"{description.file}: expected sites whose names differ in letters and digits, found two alike",
            hint="Routers are named after their sites, with '-' in place of other characters; rename one site",
        )
    _check_named(description, labels)


def _check_named(description: NightDescription, labels: set[str]) -> None:
    """Refuse names of routers that the lab does not have, and routers without an address."""
    whole, hint = ", ".join(sorted(labels)), "Routers of a lab that is made are named SITE-DEFINITION-NUMBER"
    given, capture = description.reach.addresses, description.work.capture_node
    wrong = sorted(labels ^ given.keys()) if description.reach.by is ReachBy.STATIC else []
    if wrong:
        lacks = "no address for" if wrong[0] in labels else "one for"
        sentence = f"key 'reach.addresses': expected an address for each of {whole}, found {lacks} {wrong[0]}"
        raise ConfigInvalid(f"{description.file}: {sentence}", hint=hint)
    if capture is not None and capture not in labels:
        sentence = f"key 'night.capture_node': expected {of_these(sorted(labels))}, found another"
        raise ConfigInvalid(f"{description.file}: {sentence}", hint=hint)


def given_address(description: NightDescription, router: LabRouter) -> IPv4Interface | None:
    """Return the address that the description gives a router; None: DHCP."""
    reach = description.reach
    if reach.by is ReachBy.STATIC:
        return reach.addresses[router.label]
    return reach.pool[router.number] if reach.pool else None


def link_label(router: LabRouter) -> str:
    """Return the label of a router's own link."""
    return f"wan-{router.label}"


_SWITCH_ID, _CONNECTOR_ID = "n1", "n0"


def made_topology(description: NightDescription, *, title: str, login: NodeLogin) -> Topology:
    """Return the topology of a night's lab.

    Args:
        description: The night's description.
        title: The lab's title, 1 to 64 characters.
        login: The routers' login; it is part of the text, which must not be logged.

    Raises:
        ConfigInvalid: The title is too long, addresses do not fit the routers, or the user's own topology is wrong.
    """
    check_title(title)
    if description.topology.file is not None:
        return own_topology(description, title=title)
    routers = routers_of(description)
    text = topology_text(
        title=title,
        schema=description.topology.schema,
        nodes=[*_middle(description, len(routers)), *(_written(description, one, login, title) for one in routers)],
        links=[WrittenLink(label="mgmt", ends=((_CONNECTOR_ID, 0), (_SWITCH_ID, 0))), *map(_written_link, routers)],
    )
    nodes = tuple(_planned(description, one, title) for one in routers)
    return Topology(title=title, text=text, nodes=nodes, links=tuple(map(_planned_link, routers)))


def _middle(description: NightDescription, count: int) -> tuple[WrittenNode, WrittenNode]:
    """Return the nodes between the routers and the outside: the connector and its switch."""
    connector = WrittenNode(
        node_id=_CONNECTOR_ID,
        label="mgmt",
        definition=CONNECTOR,
        files=(("default", description.reach.connector),),
        interfaces=("port",),
        column=-2,
    )
    ports = tuple(f"port{port}" for port in range(count + 1))
    return connector, WrittenNode(node_id=_SWITCH_ID, label="lan", definition=SWITCH, interfaces=ports, column=-1)


def _written_link(router: LabRouter) -> WrittenLink:
    ends = ((_SWITCH_ID, router.number + 1), (_node_id(router), 0))
    return WrittenLink(label=link_label(router), ends=ends, condition=router.site.condition)


def _planned_link(router: LabRouter) -> PlannedLink:
    site = router.site
    return PlannedLink(
        label=link_label(router), condition_name=site.name, condition=site.condition, nodes=(router.label,)
    )


def _written(description: NightDescription, router: LabRouter, login: NodeLogin, title: str) -> WrittenNode:
    kind = ROUTERS[router.group.node_definition]
    reach = description.reach
    address = given_address(description, router)
    text = day0(kind, name=router.label, login=login, mark=title, address=address, gateway=reach.gateway)
    port = reach.first_port + router.number
    return WrittenNode(
        node_id=_node_id(router),
        label=router.label,
        definition=kind.name,
        image=router.group.image_definition,
        files=((kind.day0_file, text),),
        interfaces=(kind.interface,),
        has_loopback=True,
        tags=(f"pat:tcp:{port}:{_SSH_PORT}",) if reach.by is ReachBy.PATTY else (),
        row=router.number,
    )


def _planned(description: NightDescription, router: LabRouter, title: str) -> PlannedNode:
    reach, address = description.reach, given_address(description, router)
    is_patty = reach.by is ReachBy.PATTY
    host = description.controller.host if is_patty else None
    return PlannedNode(
        label=router.label,
        node_definition=router.group.node_definition,
        image_definition=router.group.image_definition,
        condition_name=router.site.name,
        address=host or (str(address.ip) if address else None),
        ssh_port=reach.first_port + router.number if is_patty else _SSH_PORT,
        platform=ROUTERS[router.group.node_definition].platform,
        host_name=router.label,
        mark=title,
    )


def _node_id(router: LabRouter) -> str:
    return f"n{router.number + 2}"

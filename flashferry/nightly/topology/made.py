"""Make the topology of a night's lab from the sites of its description. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Interface

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.backend import PlannedLink, PlannedNode, Topology
from flashferry.nightly.description.values import MOST_TITLE, NightDescription, NodeGroup, ReachBy, Site
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.definitions import (
    CONNECTOR,
    ROUTERS,
    SWITCH,
    WrittenLink,
    WrittenNode,
    day0,
    topology_text,
)
from flashferry.nightly.topology.own import own_topology

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
            hint="Routers are named after their sites, with '-' in place of other signs; rename one site",
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
        sentence = f"key 'night.capture_node': expected one of {whole}, found another"
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


_SSH_PORT = 22
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

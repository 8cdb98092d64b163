"""The lab of a night: a topology made of the description's sites, or one of the user's own. Pure, but for that file.

How a lab is made
-----------------

The external connector (`mgmt`) has one port, so an unmanaged switch (`lan`) stands behind it, and each router has a
link of its own to the switch, with the condition of its site. So a condition is on what the controller sets conditions
on, a link; a router's rate does not depend on who else copies, and a series of nights stays comparable when a count
changes. The price: a site's routers do not share its bandwidth, which is what the lab of `flashferry lab` is for.
"""

from __future__ import annotations

from flashferry.nightly.backend import PlannedLink, PlannedNode, Topology
from flashferry.nightly.description.values import NightDescription, ReachBy
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.day0 import day0
from flashferry.nightly.topology.definitions import CONNECTOR, ROUTERS, SWITCH
from flashferry.nightly.topology.lab_routers import LabRouter, check_title, given_address, link_label, routers_of
from flashferry.nightly.topology.own import own_topology
from flashferry.nightly.topology.text import WrittenLink, WrittenNode, topology_text

_SSH_PORT = 22
_SWITCH_ID, _CONNECTOR_ID = "n1", "n0"


def made_topology(description: NightDescription, *, title: str, login: NodeLogin) -> Topology:
    """Return the lab of a night.

    Args:
        description: The night's description.
        title: The lab's title, 1 to 64 characters.
        login: The routers' login; it stands in the text, which is therefore no text for a log.

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
    """Return what stands between the routers and the world: the connector and its switch."""
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

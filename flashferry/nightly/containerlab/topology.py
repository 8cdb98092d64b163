"""The lab of a night for containerlab: made of the description's sites, or of a topology of the user's own.

A router's management port is its link: its condition is set there, for each direction that can be had. Each router has
one of its own, as in Cisco Modeling Labs.

Facts
-----
By the source of containerlab 0.79.0; none of it was tried:

* `startup-config` of several lines is a text of its own, kept as `embedded.partial.cfg`: it is added behind the
  configuration that a kind boots with, which has SSH, its key, the management VRF and a user `admin`.
* A topology file is a template: `{{` in it means something else.
* `netem` takes no jitter without a delay, and tells a loss with two decimals.
* Relative paths start at the topology file's folder, and a night writes the file anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.nightly.backend import LinkCondition, PlannedLink, PlannedNode, Topology
from flashferry.nightly.containerlab.answers import PREFIX
from flashferry.nightly.containerlab.kinds import KIND_OF, KINDS, PASSTHROUGH, ContainerKind
from flashferry.nightly.description.values import NightDescription, Reach
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.day0 import check_words
from flashferry.nightly.topology.lab_routers import LabRouter, check_title, given_address, link_label, routers_of
from flashferry.nightly.topology.own import UNCONDITIONED
from flashferry.nightly.topology.text import yaml_text

_FILES = ("startup-config", "license", "binds")
_LEVELS = ("defaults", "kinds", "groups", "nodes")
_LEAST_LOSS_PERCENT = 0.01
_NETWORK = "flashferry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNode:
    """A router of a topology as containerlab takes it.

    Attributes:
        label: Its name.
        kind: Its kind.
        image: The container image; None: none is named.
        environment: Its variables, those of the node before its group's, its kind's and the defaults'.
    """

    label: str
    kind: ContainerKind
    image: str | None
    environment: Mapping[str, str]


def container_topology(description: NightDescription, *, title: str, login: NodeLogin) -> Topology:
    """Return the lab of a night.

    Args:
        description: The night's description.
        title: The lab's name.
        login: The routers' login; it stands in the text, which is therefore no text for a log.

    Raises:
        ConfigInvalid: An image is missing, a condition cannot be set, addresses do not fit, or the user's own topology
            is wrong.
    """
    check_title(title)
    if description.topology.file is not None:
        return _own(description, description.topology.file, title)
    routers = routers_of(description)
    _check_login(login)
    for site in description.topology.sites:
        _check_condition(description, f"site {site.name}", site.condition)
    addresses = {one.label: given_address(description, one) for one in routers}
    content: dict[str, Any] = {"name": title, "prefix": PREFIX}
    content |= _management(description.reach, [one for one in addresses.values() if one is not None])
    content["topology"] = {
        "nodes": {one.label: _written(description, one, login, addresses[one.label]) for one in routers}
    }
    nodes = tuple(_planned(one, addresses[one.label]) for one in routers)
    return Topology(title=title, text=yaml_text(content), nodes=nodes, links=tuple(map(_planned_link, routers)))


def container_nodes(content: Any) -> tuple[ContainerNode, ...]:
    """Return the routers of a topology, of the kinds that nights know, each with what it inherits."""
    top = Node(content).at("topology")
    found = []
    for label, node in top.at("nodes").items():
        levels = [top.at("defaults"), top.at("groups", node.text("group") or ""), node]
        kind = next(filter(None, (level.text("kind") for level in reversed(levels))), "")
        if kind in KINDS:
            levels.insert(1, top.at("kinds", kind))
            environment: dict[str, str] = {}
            for level in levels:
                environment |= {name: str(value.value) for name, value in level.at("env").items()}
            image = next(filter(None, (level.text("image") for level in reversed(levels))), None)
            found.append(ContainerNode(label=label, kind=KINDS[kind], image=image, environment=environment))
    return tuple(found)


def read_topology(text: str) -> Any:
    """Return a topology's content.

    Raises:
        ConfigInvalid: It is none of containerlab's.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content = YAML(typ="safe").load(text)
    except (YAMLError, ValueError, RecursionError):
        content = None
    if not Node(content).at("topology", "nodes"):
        raise ConfigInvalid(
            "topology: expected containerlab's YAML with 'name' and 'topology.nodes', found something else",
            hint="Give a file that 'containerlab deploy -t FILE' takes",
        )
    return content


def check_passed_through(nodes: tuple[ContainerNode, ...], where: str = "topology") -> None:
    """Refuse routers whose TCP would end in QEMU.

    Raises:
        ConfigInvalid: One has such a management port.
    """
    for node in nodes:
        if (why := node.kind.why_not_measured(node.environment)) is not None:
            raise ConfigInvalid(
                f"{where}: router {node.label}: {why}",
                hint=f"Put 'env: {{{PASSTHROUGH}: \"true\"}}' to the node; it needs vrnetlab 0.21.0 or newer",
            )


def _written(
    description: NightDescription, router: LabRouter, login: NodeLogin, address: IPv4Interface | None
) -> dict[str, Any]:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

    check_words(router.label, login)
    kind, image = KIND_OF[router.group.node_definition], router.group.image_definition
    if image is None:
        raise ConfigInvalid(
            f"{description.file}: site {router.site.name}: expected an 'image_definition' beside 'backend: "
            "containerlab', found none",
            hint="Give the container image, such as vrnetlab/cisco_c8000v:17.11.01a; 'docker images' lists them",
        )
    node: dict[str, Any] = {"kind": kind.name, "image": image, "image-pull-policy": "Never"}
    if kind.is_machine:
        node["env"] = {PASSTHROUGH: DoubleQuotedScalarString("true")}
    if address is not None:
        node["mgmt-ipv4"] = str(address.ip)
    lines = [f"username {login.username} privilege 15 secret {login.password}"]
    lines += [f"enable secret {login.secret}"] if login.secret else []
    node["startup-config"] = LiteralScalarString("\n".join((*lines, "ip ssh version 2")) + "\n")
    return node


def _management(reach: Reach, given: list[IPv4Interface]) -> dict[str, Any]:
    """Return the management network where routers have addresses of their own."""
    if not given:
        return {}
    if other := next((one for one in given if one.network != given[0].network), None):
        raise ConfigInvalid(
            f"reach.addresses: expected addresses of one network beside 'backend: containerlab', found {given[0]} and "
            f"{other}",
            hint="All routers are on containerlab's one management network",
        )
    gateway = {"ipv4-gw": str(reach.gateway)} if reach.gateway else {}
    return {"mgmt": {"network": _NETWORK, "ipv4-subnet": str(given[0].network), **gateway}}


def _check_login(login: NodeLogin) -> None:
    if "{{" in f"{login.username}{login.password}{login.secret or ''}":
        raise ConfigInvalid(
            "devices.login: expected user and password without '{{', found it",
            hint="Choose another password: containerlab takes a topology for a template",
        )


def _check_condition(description: NightDescription, whose: str, condition: LinkCondition) -> None:
    if condition.jitter_ms and not condition.latency_ms:
        raise ConfigInvalid(
            f"{description.file}: {whose}: expected a latency beside a jitter, found none",
            hint="Give a latency too: containerlab sets no jitter without a delay",
        )
    if round(condition.loss_percent * 100, 6) % 1:
        raise ConfigInvalid(
            f"{description.file}: {whose}: expected a loss in steps of {_LEAST_LOSS_PERCENT} percent, found "
            f"{condition.loss_percent:g}",
            hint="Give whole steps: containerlab tells no finer one, so that it could not be read back",
        )


def _planned(router: LabRouter, address: IPv4Interface | None) -> PlannedNode:
    kind = KIND_OF[router.group.node_definition]
    return PlannedNode(
        label=router.label,
        node_definition=kind.node_definition,
        image_definition=router.group.image_definition,
        condition_name=router.site.name,
        address=str(address.ip) if address else None,
        platform=kind.platform,
    )


def _planned_link(router: LabRouter) -> PlannedLink:
    site = router.site
    return PlannedLink(
        label=link_label(router), condition_name=site.name, condition=site.condition, nodes=(router.label,)
    )


def _own(description: NightDescription, path: Path, title: str) -> Topology:
    content = read_topology(path.read_text(encoding="utf-8"))
    wanted = _wanted(description, path, content)
    check_passed_through(wanted, str(path))
    _check_paths(content, path)
    conditions = description.topology.conditions
    for name, given in conditions.items():
        _check_condition(description, f"condition of {name}", given)
    # The prefix decides how containers are called, and by that name they are asked for.
    content |= {"name": title, "prefix": PREFIX}
    return Topology(
        title=title,
        text=yaml_text(content),
        nodes=tuple(_planned_own(description, node) for node in wanted),
        links=tuple(
            PlannedLink(label=node.label, condition_name=node.label, condition=condition, nodes=(node.label,))
            for node in wanted
            if (condition := conditions.get(node.label)) is not None
        ),
    )


def _wanted(description: NightDescription, path: Path, content: Any) -> tuple[ContainerNode, ...]:
    """Return the routers that a night is about."""
    nodes = {node.label: node for node in container_nodes(content)}
    plan = description.topology
    if missing := next((name for name in (*plan.routers, *plan.conditions) if name not in nodes), None):
        raise ConfigInvalid(
            f"{description.file}: key 'topology': expected routers of {path}, found {missing}",
            hint=f"It has {', '.join(nodes) or 'none'} of {', '.join(KINDS)}; conditions go by a router's name here",
        )
    wanted = tuple(nodes[name] for name in plan.routers) or tuple(nodes.values())
    if not wanted:
        raise ConfigInvalid(
            f"{path}: expected at least one node of {', '.join(KINDS)}, found none",
            hint="A night stages to such routers only",
        )
    return wanted


def _planned_own(description: NightDescription, node: ContainerNode) -> PlannedNode:
    given = description.reach.addresses.get(node.label)
    return PlannedNode(
        label=node.label,
        node_definition=node.kind.node_definition,
        image_definition=node.image,
        condition_name=node.label if node.label in description.topology.conditions else UNCONDITIONED,
        address=str(given.ip) if given else None,
        platform=node.kind.platform,
    )


def _check_paths(content: Any, path: Path) -> None:
    """Refuse files by relative paths: a night's own copy of the topology is in another folder."""
    for where, key, file in _paths(content):
        if "\n" not in file and "://" not in file and not file.startswith(("/", "~")):
            raise ConfigInvalid(
                f"{path}: {where}: key '{key}': expected a whole path, found a relative one",
                hint="A night deploys a copy of the file from a folder of its own: begin it with '/'",
            )


def _paths(content: Any) -> Iterator[tuple[str, str, str]]:
    top = Node(content).at("topology")
    for level in _LEVELS:
        places = [("defaults", top.at("defaults"))] if level == "defaults" else list(top.at(level).items())
        for name, place in places:
            for key in _FILES:
                for file in (place.text(key), *place.texts(key)):
                    if file is not None:
                        yield name, key, file

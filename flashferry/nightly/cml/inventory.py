"""Offer a running lab of Cisco Modeling Labs as a Nornir inventory: `CMLInventory`, for every command.

The inventory contains the lab's routers with SSH address, platform and link. Nothing is changed on the controller, and
the inventory contains no login.

Facts
-----
* The controller sees addresses only on snooped bridges, and only of booted nodes.
* PATty forwards a port of the controller to a node by the node's tag, `pat:tcp:2001:22`.
* Two labs can have the same title; an ID is unique.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from nornir.core.inventory import Defaults, Group, Groups, Host, Hosts, Inventory, ParentGroups

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.json_access import Node
from flashferry.core.redaction import sanitize
from flashferry.core.value_description import control_character, described, unknown_key
from flashferry.nightly.backend import Deadline, LabNode, LinkCondition, NodeState
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.cml.controller import Controller, connect
from flashferry.nightly.cml.labs import (
    LabLink,
    condition_in_force,
    lab_details,
    lab_ids,
    lab_links,
    lab_parts,
    lab_state,
    nodes_now,
)
from flashferry.nightly.description.logins import controller_access
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.inventory_files import one_word
from flashferry.nightly.topology.definitions import CONNECTOR, ROUTERS
from flashferry.nightly.topology.made import links_to_connector, patty_port
from inventory.host_view import set_fault

STEP = "inventory"
_SSH_PORT = 22
_READ_S = 60.0
_UNSEEN = (403, 404)
_URL, _USER, _PASSWORD, _CA = "VIRL2_URL", "VIRL2_USER", "VIRL2_PASS", "CA_BUNDLE"
_BY_DESCRIPTION = ("url", "username", "ca_file")


class _Found(Struct, frozen=True, kw_only=True):
    """The lab that was found, with its nodes and links."""

    lab_id: str
    title: str
    nodes: tuple[LabNode, ...]
    links: tuple[LabLink, ...]


class CMLInventory:
    """Nornir's inventory of a running lab.

    The password is never an option: it comes from the variable `VIRL2_PASS`, or from the source in a night's
    description.

    Args:
        lab: The lab's title or ID.
        url: The controller, `https://cml.example.net`; default: `VIRL2_URL`.
        username: Its user; default: `VIRL2_USER`.
        ca_file: PEM file of trusted certificates; default: `CA_BUNDLE`, else those of this host.
        verify: Whether its certificate is verified.
        proxy: Whether the environment's proxies apply.
        description: A night's `nightly.yaml` with controller and login, instead of these options.
        nodes: Labels of the routers to include; empty: all of known definitions.
        static: SSH address of routers, by label: an address, or `address:port`. Overrides what the controller sees,
            which this host may not reach.
        platforms: Platforms of more node definitions, which then count as routers: `{isrv: cisco_iosxe}`.

    Raises:
        ConfigInvalid: An option is wrong or missing.
    """

    def __init__(
        self,
        lab: object = "",
        *,
        url: str | None = None,
        username: str | None = None,
        ca_file: str | None = None,
        verify: bool = True,
        proxy: bool = False,
        description: str | None = None,
        nodes: Iterable[str] = (),
        static: Mapping[str, str] | None = None,
        platforms: Mapping[str, str] | None = None,
        **others: object,
    ) -> None:
        if others:
            options = ("lab", *_BY_DESCRIPTION, "verify", "proxy", "description", "nodes", "static", "platforms")
            hint = f"The password comes from the variable {_PASSWORD}" if "password" in others else "Leave it out"
            raise ConfigInvalid(f"options: {unknown_key(next(iter(others)), options)}", hint=hint)
        if not isinstance(lab, str) or not lab.strip():
            raise ConfigInvalid(
                f"option 'lab': expected a lab's title or id, found {described(lab)}", hint="Give one, in quotes"
            )
        given = {"url": url, "username": username, "ca_file": ca_file}
        if description is not None and (both := next((name for name in _BY_DESCRIPTION if given[name]), None)):
            raise ConfigInvalid(
                f"option '{both}': expected none beside 'description', found one",
                hint="The description says who the controller is and where its login comes from",
            )
        self._labels = tuple(_texts(nodes, "nodes"))
        self._static = {label: _endpoint(label, value) for label, value in _mapping(static, "static").items()}
        known = {name: kind.platform for name, kind in ROUTERS.items()}
        self._platforms = known | _mapping(platforms, "platforms")
        self._lab, self._description = lab.strip(), description
        self._url, self._username, self._ca_file = url, username, ca_file
        self._is_verified, self._is_proxy_used = verify, proxy

    def load(self) -> Inventory:
        """Read the lab and return its routers.

        Raises:
            ConfigInvalid: The controller's login, or the extra `cml`, is missing.
            FlashferryError: The controller does not answer, no or several labs match, or the lab is not started.
        """
        try:
            controller = connect(self._access(), step=STEP)
            try:
                lab = self._find(controller)
                return self._inventory(controller, lab)
            finally:
                controller.close()
        except FlashferryError as error:
            if self._description is None and error.hint is not None:
                error.hint = error.hint.replace("nightly.yaml's controller", "the controller").replace(
                    "in nightly.yaml", "among the plugin's options"
                )
            raise

    def _access(self) -> ControllerAccess:
        """Return the controller of the description, or of the options and the environment."""
        if self._description is not None:
            return controller_access(load_description(Path(self._description)).controller)
        url, username = self._url or os.environ.get(_URL), self._username or os.environ.get(_USER)
        password, ca_file = os.environ.get(_PASSWORD), self._ca_file or os.environ.get(_CA)
        if not url or not username:
            option, variable = ("url", _URL) if not url else ("username", _USER)
            raise ConfigInvalid(
                f"option '{option}': expected one, or the variable {variable}, found neither",
                hint="Give the controller's address and user; 'description: nightly.yaml' takes those of a night",
            )
        if not password:
            raise ConfigInvalid(
                f"expected the controller's password in the variable {_PASSWORD}, found none",
                hint="Set it where this is started from; 'description: nightly.yaml' takes the login of a night",
            )
        return ControllerAccess(
            url=url,
            username=username,
            password=password,
            ca_file=Path(ca_file) if ca_file else None,
            is_verified=self._is_verified,
            is_proxy_used=self._is_proxy_used,
        )

    def _find(self, controller: Controller) -> _Found:
        """Return the lab, by ID or else by title."""
        deadline = Deadline.after(_READ_S, controller.clock)
        ids = lab_ids(controller, step=STEP, deadline=deadline)
        titles = {
            lab_id: Node(lab_details(controller, lab_id, step=STEP, allows=_UNSEEN).value).text("lab_title") or ""
            for lab_id in ([self._lab] if self._lab in ids else ids)
        }
        found = [lab_id for lab_id, title in titles.items() if self._lab in (lab_id, title)]
        if len(found) != 1:
            raise _not_one(self._lab, found, titles.values())
        lab_id = found[0]
        state = lab_state(controller, lab_id, step=STEP, deadline=deadline)
        if state != "STARTED":
            raise ConfigInvalid(
                f"lab {sanitize(titles[lab_id])!r}: expected it started, found {state or 'it gone'}",
                hint="Start it on the controller; its routers have addresses only then",
            )
        nodes = nodes_now(controller, lab_id, lab_parts(controller, lab_id, step=STEP))
        links = lab_links(controller, lab_id, step=STEP)
        return _Found(lab_id=lab_id, title=titles[lab_id], nodes=nodes, links=links)

    def _inventory(self, controller: Controller, lab: _Found) -> Inventory:
        routers = self._routers(lab)
        reached = {node.label: self._reached(node, controller.access.host) for node in routers}
        groups, hosts = Groups(), Hosts()
        conditions: dict[str, LinkCondition | None] = {}
        for node in routers:
            site = self._site(controller, lab, node, conditions)
            hosts[node.label] = self._host(lab, node, reached[node.label], _joined(groups, node, site))
        return Inventory(hosts=hosts, groups=groups, defaults=Defaults())

    def _host(self, lab: _Found, node: LabNode, endpoint: tuple[str, int] | None, groups: list[Group]) -> Host:
        address, port = endpoint or (None, None)
        host = Host(
            name=node.label,
            hostname=address,
            port=port,
            platform=self._platforms[node.node_definition],
            groups=ParentGroups(groups),
            data={
                "cml": {
                    "lab_id": lab.lab_id,
                    "node_id": node.node_id,
                    "definition": node.node_definition,
                    "image": node.image_definition,
                }
            },
        )
        if endpoint is None:
            # A node that is stopped refuses itself alone.
            set_fault(host, _no_address(node))
        return host

    def _routers(self, lab: _Found) -> tuple[LabNode, ...]:
        """Return the chosen routers, each with a name that is valid in an inventory."""
        known = [node for node in lab.nodes if node.node_definition in self._platforms]
        routers = {node.label: node for node in known}
        if twice := sorted(label for label, count in Counter(node.label for node in known).items() if count > 1):
            raise ConfigInvalid(
                f"lab {sanitize(lab.title)!r}: expected each label once, found more routers called {_some(twice)}",
                hint="Give each node of the lab a label of its own",
            )
        asked = (*self._labels, *self._static)
        if unknown := next((label for label in asked if label not in routers), None):
            raise ConfigInvalid(
                f"lab {sanitize(lab.title)!r}: expected a router {sanitize(unknown)!r}, "
                f"found {_some(routers) or 'none'}",
                hint=f"Routers are nodes of {', '.join(self._platforms)}; 'platforms' adds other definitions",
            )
        if not routers:
            definitions = sorted({node.node_definition for node in lab.nodes})
            raise ConfigInvalid(
                f"lab {sanitize(lab.title)!r}: expected nodes of {', '.join(self._platforms)}, found "
                f"{_some(definitions) or 'none'}",
                hint="'platforms: {DEFINITION: cisco_iosxe}' has nodes of another definition count as routers",
            )
        for label in routers:
            _check_label(lab, label)
        return tuple(node for label, node in routers.items() if not self._labels or label in self._labels)

    def _reached(self, node: LabNode, controller: str) -> tuple[str, int] | None:
        """Return a router's SSH address: as given, as the controller sees it, or by PATty."""
        if (given := self._static.get(node.label)) is not None:
            return given
        if node.addresses:
            return node.addresses[0], _SSH_PORT
        port = patty_port(node.tags)
        return None if port is None else (controller, port)

    def _site(
        self, controller: Controller, lab: _Found, node: LabNode, known: dict[str, LinkCondition | None]
    ) -> tuple[str, LinkCondition] | None:
        """Return name and condition of the nearest link with a condition, from a router towards a connector."""
        connectors = {one.node_id for one in lab.nodes if one.node_definition == CONNECTOR}
        for number in links_to_connector(node.node_id, [link.ends for link in lab.links], connectors):
            link = lab.links[number]
            if link.link_id not in known:
                known[link.link_id] = condition_in_force(controller, lab.lab_id, link, step=STEP)
            if (condition := known[link.link_id]) is not None:
                return one_word(link.label) or "link", condition
        return None


def _check_label(lab: _Found, label: str) -> None:
    if not label.strip() or label != label.strip() or control_character(label) is not None:
        raise ConfigInvalid(
            f"lab {sanitize(lab.title)!r}: expected routers with names that can be typed, found {sanitize(label)!r}",
            hint="Rename the node on the controller: no blank at either end, no control character",
        )


def _joined(groups: Groups, node: LabNode, site: tuple[str, LinkCondition] | None) -> list[Group]:
    """Return the groups of a router: its tags and its site."""
    names = [one_word(tag) for tag in node.tags if patty_port([tag]) is None]
    if site is not None:
        name, condition = site
        names.append(name)
        data: dict[str, Any] = {"site": name}
        if condition.bandwidth_kbps:
            data["link_rate_bps"] = condition.bandwidth_kbps * 1000
        groups.setdefault(name, Group(name=name)).data.update(data)
    return [groups.setdefault(name, Group(name=name)) for name in dict.fromkeys(filter(None, names))]


def _not_one(lab: str, found: list[str], titles: Iterable[str]) -> ConfigInvalid:
    if found:
        return ConfigInvalid(
            f"expected one lab with the title {sanitize(lab)!r}, found {len(found)}: {', '.join(map(sanitize, found))}",
            hint="Give the id of the one you mean",
        )
    return ConfigInvalid(
        f"expected a lab with the title or id {sanitize(lab)!r}, "
        f"found {_some(filter(None, titles)) or 'no lab at all'}",
        hint="Labs of others are seen by an administrator, or where they are shared with the user",
    )


def _no_address(node: LabNode) -> ConfigInvalid:
    state = f" (the node is {node.state})" if node.state is not NodeState.BOOTED else ""
    return ConfigInvalid(
        f"expected an address of the router, found none{state}",
        hint="The controller sees addresses on snooped bridges, of nodes that have booted; else tag the node "
        "pat:tcp:PORT:22, give 'static: {NAME: ADDRESS}', or leave the router out by --host or by 'nodes'",
    )


def _some(names: Iterable[str], most: int = 8) -> str:
    listed = [sanitize(name) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def _texts(value: object, option: str) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ConfigInvalid(
        f"option '{option}': expected a list of names, found {described(value)}", hint="Write it as [xe1, xe2]"
    )


def _mapping(value: object, option: str) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(one, str) and one for pair in value.items() for one in pair):
        return dict(value)
    raise ConfigInvalid(
        f"option '{option}': expected texts by name, found {described(value)}", hint="Write it as {xe1: '192.0.2.1'}"
    )


def _endpoint(label: str, value: str) -> tuple[str, int]:
    """Parse `192.0.2.1`, `192.0.2.1:2022`, `[2001:db8::1]:2022` or `2001:db8::1`."""
    address, colon, port = value.rpartition(":")
    if not colon or (":" in address and not address.endswith("]")):
        address, port = value, str(_SSH_PORT)
    address = address.removeprefix("[").removesuffix("]")
    if not address or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535:
        raise ConfigInvalid(
            f"option 'static': {sanitize(label)}: expected an address, or address:port, found {described(value)}",
            hint="Write it as {xe1: '192.0.2.1:2022'}",
        )
    return address, int(port)

"""Labs and their elements as they are shown: as JSON, as YAML to download, as a testbed of pyATS, as addresses."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML

from flashferry.lab.cml.elements import Interface, Lab, Link, Node
from flashferry.lab.cml.life import Life
from flashferry.lab.cml.runtime import NodeState

_SERIAL_PORTS = 2
_WITHOUT_ADDRESSES = frozenset({"external_connector", "unmanaged_switch"})


class Shapes:
    """Shows labs.

    `compute_id`: The id of the only compute host.
    """

    def __init__(self, life: Life, compute_id: str) -> None:
        self._life = life
        self._compute_id = compute_id

    def lab(self, lab: Lab) -> dict[str, Any]:
        """Return what ``labs/{id}`` says of a lab, and a new lab's answer."""
        return {
            "id": lab.lab_id,
            "state": self._life.lab_state(lab),
            "created": lab.created,
            "modified": lab.modified,
            "lab_title": lab.title,
            "lab_description": lab.description,
            "lab_notes": lab.notes,
            "owner": lab.owner_id,
            "owner_username": lab.owner,
            "owner_fullname": "",
            "node_count": len(lab.nodes),
            "link_count": len(lab.links),
            "groups": [],
            "effective_permissions": ["lab_admin", "lab_edit", "lab_exec", "lab_view"],
            **lab.extras,
        }

    def topology(self, lab: Lab, *, schema: str, configurations: str) -> dict[str, Any]:
        """Return a lab's topology.

        `configurations`: ``all`` day-0 files as a list, ``main`` only the main one as text, or ``none``.
        """
        return {
            "lab": {
                "title": lab.title,
                "description": lab.description,
                "notes": lab.notes,
                "owner": lab.owner_id,
                "version": schema,
                **lab.extras,
            },
            "nodes": [self.node(lab, node, configurations=configurations) for node in lab.nodes.values()],
            "links": [self.link_ends(link) for link in lab.links.values()],
            "annotations": [{"id": key, **each} for key, each in lab.annotations.items()],
            "smart_annotations": [{"id": key, **each} for key, each in lab.smart_annotations.items()],
        }

    def node(
        self, lab: Lab, node: Node, *, configurations: str = "none", is_operational: bool = False
    ) -> dict[str, Any]:
        """Return a node with its interfaces; ``operational`` where it is asked for."""
        state = self._life.state(lab, node)
        shown: dict[str, Any] = {
            "id": node.node_id,
            "lab_id": lab.lab_id,
            "label": node.label,
            "node_definition": node.node_definition,
            "image_definition": node.image_definition,
            "x": node.x,
            "y": node.y,
            "tags": list(node.tags),
            "state": state,
            "boot_progress": "Booted" if state is NodeState.BOOTED else "Not running",
            **{key: node.settings.get(key) for key in ("ram", "cpus", "cpu_limit", "data_volume", "boot_disk_size")},
            "hide_links": bool(node.settings.get("hide_links")),
            "parameters": node.settings.get("parameters") or {},
            "interfaces": [self.interface(lab, each) for each in node.interfaces],
        }
        if configurations == "all":
            shown["configuration"] = [{"name": name, "content": content} for name, content in node.configuration]
        elif configurations == "main":
            shown["configuration"] = node.day0
        if is_operational:
            shown["operational"] = self._operational(node, state)
        return shown

    def interface(self, lab: Lab, interface: Interface) -> dict[str, Any]:
        """Return an interface."""
        state = self._life.interface_state(lab, interface.node_id)
        return {
            "id": interface.interface_id,
            "lab_id": lab.lab_id,
            "node": interface.node_id,
            "label": interface.label,
            "slot": interface.slot,
            "type": interface.kind,
            "mac_address": interface.mac_address or None,
            "is_connected": lab.link_at(interface) is not None,
            "state": state,
            "operational": {"mac_address": interface.mac_address or None, "device_name": None},
        }

    def link(self, lab: Lab, link: Link) -> dict[str, Any]:
        """Return a link with its state."""
        key = link.capture.key if link.capture is not None else ""
        return {
            **self.link_ends(link),
            "lab_id": lab.lab_id,
            "state": self._life.link_state(lab, link),
            "link_capture_key": key,
        }

    def link_ends(self, link: Link) -> dict[str, Any]:
        """Return a link as topologies have it."""
        return {
            "id": link.link_id,
            "label": link.label,
            "interface_a": link.one.interface_id,
            "interface_b": link.two.interface_id,
            "node_a": link.one.node_id,
            "node_b": link.two.node_id,
        }

    def states(self, lab: Lab) -> dict[str, dict[str, str]]:
        """Return ``lab_element_state``."""
        return {
            "nodes": {key: self._life.state(lab, node) for key, node in lab.nodes.items()},
            "links": {key: self._life.link_state(lab, link) for key, link in lab.links.items()},
            "interfaces": {
                each.interface_id: self._life.interface_state(lab, each.node_id) for each in lab.interfaces()
            },
        }

    def addresses(self, lab: Lab, node: Node, *, hidden: bool) -> dict[str, Any]:
        """Return one node of ``layer3_addresses``: the interfaces of a running node, most without any address.

        Addresses are seen on bridges that are looked into, and of no other network.
        """
        view = self._life.view(lab, node)
        seen = {} if hidden else view.addresses
        is_up = view.state in {NodeState.STARTED, NodeState.BOOTED}
        return {
            "name": node.label,
            "interfaces": {
                each.mac_address: {
                    "id": each.interface_id,
                    "label": each.label,
                    "ip4": list(seen.get(each.label, ())) if _is_bridged(lab, each) else [],
                    "ip6": [],
                }
                for each in node.interfaces
                if is_up and each.mac_address and node.node_definition not in _WITHOUT_ADDRESSES
            },
        }

    def download(self, lab: Lab, *, schema: str) -> str:
        """Return a lab as a file that can be imported again."""
        node_keys = {node_id: f"n{index}" for index, node_id in enumerate(lab.nodes)}
        port_keys = {
            each.interface_id: f"i{index}" for node in lab.nodes.values() for index, each in enumerate(node.interfaces)
        }
        whole = {
            "annotations": list(lab.annotations.values()),
            "smart_annotations": list(lab.smart_annotations.values()),
            "nodes": [_node_to_download(node, node_keys, port_keys, schema) for node in lab.nodes.values()],
            "links": [
                {
                    "id": f"l{index}",
                    "n1": node_keys[link.one.node_id],
                    "n2": node_keys[link.two.node_id],
                    "i1": port_keys[link.one.interface_id],
                    "i2": port_keys[link.two.interface_id],
                    "conditioning": dict(link.condition or {}),
                    "label": link.label,
                }
                for index, link in enumerate(lab.links.values())
            ],
            "lab": {
                "description": lab.description,
                "notes": lab.notes,
                "title": lab.title,
                "version": schema,
                **lab.extras,
            },
        }
        return _yaml(whole)

    def testbed(self, lab: Lab, *, host: str) -> str:
        """Return a testbed of pyATS: every device by telnet through the terminal server, ``open /LAB/NODE/0``."""
        address, _, port = host.partition(":")
        server = {
            "os": "linux",
            "type": "linux",
            "credentials": {"default": {"username": "change_me", "password": "change_me"}},
            "connections": {"cli": {"protocol": "ssh", "ip": address, "port": int(port or 22)}},
        }
        devices = {
            node.label: {
                "os": "iosxe" if node.node_definition != "iosv" else "ios",
                "type": "router",
                "platform": node.node_definition,
                "credentials": {"default": {"username": "cisco", "password": "cisco"}},
                "connections": {
                    "defaults": {"class": "unicon.Unicon"},
                    "a": {
                        "protocol": "telnet",
                        "proxy": "terminal_server",
                        "command": f"open /{lab.lab_id}/{node.node_id}/0",
                    },
                },
                "interfaces": {each.label: {"type": _kind(each)} for each in node.interfaces},
            }
            for node in lab.nodes.values()
            if node.node_definition not in _WITHOUT_ADDRESSES
        }
        topology = {
            node.label: {
                "interfaces": {
                    each.label: {"type": _kind(each), **({"link": link.label} if (link := lab.link_at(each)) else {})}
                    for each in node.interfaces
                }
            }
            for node in lab.nodes.values()
            if node.label in devices
        }
        return _yaml(
            {"testbed": {"name": lab.title}, "devices": {"terminal_server": server, **devices}, "topology": topology}
        )

    def _operational(self, node: Node, state: NodeState) -> dict[str, Any]:
        return {
            "compute_id": self._compute_id if state.is_running else None,
            "image_definition": node.image_definition if state.is_running else None,
            "resource_pool": None,
            "vnc_key": "",
            "serial_consoles": [
                {"console_key": console_key(node, line), "device_number": line, "label": f"serial{line}"}
                for line in range(_SERIAL_PORTS)
            ],
        }


def console_key(node: Node, line: int) -> str:
    """Return the key of a console: the node's id with the line in its last digits."""
    return f"{node.node_id[:-4]}{line:04x}"


def _kind(interface: Interface) -> str:
    return "loopback" if interface.kind == "loopback" else "ethernet"


def _is_bridged(lab: Lab, start: Interface) -> bool:
    """Whether an interface hangs on a bridge that is looked into, straight or through unmanaged switches."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        link = lab.link_at(waiting.pop())
        if link is None or link.link_id in seen:
            continue
        seen.add(link.link_id)
        for end in (link.one, link.two):
            node = lab.nodes[end.node_id]
            if node.node_definition == "external_connector" and lab.mappings.get(node.day0 or "NAT"):
                return True
            if node.node_definition == "unmanaged_switch":
                waiting.extend(node.interfaces)
    return False


def _node_to_download(node: Node, nodes: dict[str, str], ports: dict[str, str], schema: str) -> dict[str, Any]:
    files = [{"name": name, "content": content} for name, content in node.configuration]
    return {
        "id": nodes[node.node_id],
        "label": node.label,
        "node_definition": node.node_definition,
        "image_definition": node.image_definition,
        "x": node.x,
        "y": node.y,
        "tags": list(node.tags),
        "configuration": files if schema >= "0.3" else node.day0,
        **node.settings,
        "interfaces": [
            {
                "id": ports[each.interface_id],
                "label": each.label,
                **({} if each.slot is None else {"slot": each.slot}),
                "type": each.kind,
            }
            for each in node.interfaces
        ],
    }


def _yaml(value: object) -> str:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.width = 4096
    with io.StringIO() as held:
        writer.dump(value, held)
        return held.getvalue()

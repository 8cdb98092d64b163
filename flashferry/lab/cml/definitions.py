"""What the stand-in says when it refuses: every status and sentence of it, and whether a real controller was seen so.

The shape is documented for all: ``{"code": int, "description": str}``. Of most sentences only the situation is known;
those are our own words and marked so. Base no decision on them: the status and the lab's state decide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    """One refusal: the code of the answer and the description, with fields to fill in.

    `source` is where both are known from, empty for words of our own; `is_status_known` whether at least the code is.
    """

    status: HTTPStatus
    words: str
    source: str = ""
    is_status_known: bool = True


class Refused(Exception):
    """A call was refused, with a status and a description."""

    def __init__(self, text: Text, **fields: object) -> None:
        self.status = text.status
        self.description = text.words.format(**fields)
        super().__init__(self.description)


_API = "description of the interface, 2.9"
_CLIENT = "virl2-client 2.10.1"

_NOT_FOUND, _FORBIDDEN, _BAD, _UNAUTHORIZED = (
    HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED,
)  # fmt: skip

TEXTS = {
    "lab_not_found": Text(_NOT_FOUND, "Lab not found: {lab_id}", _CLIENT),
    "node_not_found": Text(_NOT_FOUND, "Node not found: {node_id}"),
    "link_not_found": Text(_NOT_FOUND, "Link not found: {link_id}"),
    "interface_not_found": Text(_NOT_FOUND, "Interface not found: {interface_id}"),
    "annotation_not_found": Text(_NOT_FOUND, "Annotation not found: {annotation_id}"),
    "definition_not_found": Text(_NOT_FOUND, "Definition not found: {definition_id}"),
    "not_found": Text(_NOT_FOUND, "Not found: {what}"),
    "no_route": Text(_NOT_FOUND, "The stand-in has no {method} {path} in {version}"),
    "wrong_login": Text(_FORBIDDEN, "Authentication failed!"),
    "no_token": Text(_UNAUTHORIZED, "No authorization token provided."),
    "bad_token": Text(_UNAUTHORIZED, "Invalid or expired token."),
    "not_permitted": Text(_FORBIDDEN, "User {user} may not do that."),
    "bad_request": Text(_BAD, "Bad Request: {why}"),
    "bad_topology": Text(_BAD, "Bad Request: topology: {why}"),
    "missing_node_definition": Text(_BAD, "Node definition not found: {definition} (node {label})"),
    "missing_image_definition": Text(_BAD, "Image definition not found: {definition} (node {label})"),
    "bad_condition": Text(_BAD, "Bad Request: link condition: {why}"),
    "no_condition": Text(_BAD, "No link condition exists", _API),
    "cannot_start": Text(_BAD, "Cannot start lab.{why}", _API),
    "wipe_while_running": Text(
        _FORBIDDEN, "The lab must be stopped before it can be wiped", _API, is_status_known=False
    ),
    "delete_while_running": Text(
        _FORBIDDEN, "The lab must be stopped and wiped first: {lab_id}", is_status_known=False
    ),
    "change_while_running": Text(_FORBIDDEN, "{what} can only be changed while it is wiped", is_status_known=False),
    "refused_by_switch": Text(_FORBIDDEN, "A switch of the stand-in refuses to {verb} labs", is_status_known=False),
    "no_capture": Text(_NOT_FOUND, "No capture on link {link_id}", is_status_known=False),
    "capture_not_running": Text(_BAD, "Link {link_id} is not started", is_status_known=False),
    "no_file_name": Text(_BAD, "X-Original-File-Name header is missing"),
    "bad_file_name": Text(_BAD, "Unsupported file name: {name}"),
    "bad_definition": Text(_BAD, "Bad Request: definition: {why}"),
    "in_use": Text(_FORBIDDEN, "{what} is in use", is_status_known=False),
}
"""Every refusal, by a name of ours."""


def text_table() -> str:
    """Return the table of refusals as docs/lab.md has it."""
    rows = [
        f"| {each.status.value}{'' if each.is_status_known else ' (unknown)'} | {each.words} |"
        f" {each.source or 'words unknown, ours'} |"
        for each in TEXTS.values()
    ]
    return "\n".join(["| status | description | known from |", "|---|---|---|", *rows, ""])


def refused(name: str, /, **fields: object) -> Refused:
    """Return the refusal of that name, with its fields filled in."""
    return Refused(TEXTS[name], **fields)


_IMAGE_FILES = (".qcow", ".qcow2", ".iol", ".tar", ".tar.gz")
_LONGEST_LABEL = 64

_IMAGE_KEYS = frozenset({
    "id", "node_definition_id", "label", "disk_image", "description", "ram", "cpus", "cpu_limit", "data_volume",
    "boot_disk_size", "configuration", "pyats", "sha256", "read_only", "schema_version", "disk_subfolder",
    "disk_image_2", "disk_image_3", "efi_boot", "efi_code", "efi_vars", "docker_tag",
})  # fmt: skip

_IMAGE_REQUIRED = ("id", "node_definition_id", "label", "disk_image")


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A kind of node.

    `day0`: The name of its main day-0 file. `port`: Its physical interfaces by slot, with `{n}` for the slot, `{m}` for
    the slot plus one, `{b}` and `{u}` for board and unit of four. `has_loopback`: Whether `Loopback0` comes with it.
    """

    definition_id: str
    label: str
    day0: str
    port: str
    has_loopback: bool
    memory_mib: int

    @property
    def is_counted(self) -> bool:
        """Whether it counts against the licence's nodes; of the unmanaged switch it is not confirmed."""
        return self.definition_id not in _NOT_COUNTED

    def interface_label(self, slot: int) -> str:
        """Return the name of the physical interface in a slot."""
        return self.port.format(n=slot, m=slot + 1, b=slot // 4, u=slot % 4)

    def as_json(self) -> dict[str, Any]:
        """Return it as the interface does, with what clients read of it."""
        physical = [self.interface_label(slot) for slot in range(8)]
        boots = ["Press RETURN to get started!", "%CVAC-4-CONFIG_DONE:"] if self.has_loopback else []
        return {
            "id": self.definition_id,
            "general": {"nature": "router", "description": self.label, "read_only": True},
            "configuration": {"generator": {"driver": None}, "provisioning": {"files": [{"name": self.day0}]}},
            "device": {"interfaces": {"physical": physical, "has_loopback_zero": self.has_loopback}},
            "sim": {"linux_native": {"ram": self.memory_mib, "cpus": 1, "driver": self.definition_id}},
            "boot": {"timeout": 250, "completed": boots},
            "pyats": {"os": "iosxe" if self.day0 == "iosxe_config.txt" else "ios", "use_in_testbed": self.has_loopback},
            "ui": {"label": self.label, "label_prefix": f"{self.definition_id}-", "icon": "router", "visible": True},
            "schema_version": "0.0.1",
        }


_NODES = (
    # id, label, day-0 file, port, Loopback0, memory in MiB
    ("iosv", "IOSv", "ios_config.txt", "GigabitEthernet0/{n}", True, 768),
    ("csr1000v", "CSR 1000v", "iosxe_config.txt", "GigabitEthernet{m}", True, 4096),
    ("cat8000v", "CAT8000V", "iosxe_config.txt", "GigabitEthernet{m}", True, 4096),
    ("iol-xe", "IOL-XE", "ios_config.txt", "Ethernet{b}/{u}", True, 1024),
    ("ioll2-xe", "IOL-L2-XE", "ios_config.txt", "Ethernet{b}/{u}", True, 512),
    ("iosvl2", "IOSvL2", "ios_config.txt", "GigabitEthernet{b}/{u}", True, 512),
    ("cat9000v-q200", "CAT9000V Q200", "iosxe_config.txt", "GigabitEthernet1/0/{m}", True, 18432),
    ("cat9000v-uadp", "CAT9000V UADP", "iosxe_config.txt", "GigabitEthernet1/0/{m}", True, 18432),
    ("nxosv9000", "NX-OS 9000", "nxos_config.txt", "Ethernet1/{m}", False, 512),
    ("iosxrv", "IOS XRv", "iosxr_config.txt", "GigabitEthernet0/0/0/{n}", False, 512),
    ("asav", "ASAv", "day0-config", "GigabitEthernet0/{n}", False, 512),
    ("external_connector", "External Connector", "default", "port", False, 0),
    ("unmanaged_switch", "Unmanaged Switch", "node.cfg", "port{n}", False, 0),
    ("server", "Server", "iosxe_config.txt", "eth{n}", False, 512),
    ("desktop", "Desktop", "node.cfg", "eth{n}", False, 512),
    ("alpine", "Alpine", "node.cfg", "eth{n}", False, 512),
    ("ubuntu", "Ubuntu", "user-data", "ens{m}", False, 2048),
    ("nginx", "nginx", "boot.sh", "eth{n}", False, 512),
    ("dnsmasq", "dnsmasq", "dnsmasq.conf", "eth{n}", False, 512),
)

_NOT_COUNTED = frozenset({"external_connector", "unmanaged_switch"})

_IMAGES = {
    "iosv": ("iosv-158-3", "iosv-159-3-m9"),
    "csr1000v": ("csr1000v-161101b", "csr1000v-17-03-08a"),
    "cat8000v": ("cat8000v-17-16-01a", "catalyst8000v-17.04.01a"),
    "cat9000v-q200": ("cat9000v-q200-17-15-01",),
    "cat9000v-uadp": ("cat9000v-uadp-17-15-01",),
    "iol-xe": ("iol-xe-17-15-01",),
    "ioll2-xe": ("ioll2-xe-17-15-01",),
    "iosvl2": ("iosvl2-2019", "iosvl2-2020"),
    "nxosv9000": ("nxosv9000-9-2-3",),
    "iosxrv": ("iosxrv-6-3-1",),
    "asav": ("asav-9-12-2",),
    "server": ("server-tcl-11-1", "server-tcl-15-0"),
    "desktop": ("desktop", "alpine-desktop-3-19-1", "alpine-desktop-3-20-3"),
    "alpine": ("alpine-3-12-base", "alpine-base-3-19-1"),
    "ubuntu": ("ubuntu-18-04", "ubuntu-22-04-20240126"),
}


class Definitions:
    """What there is, and what was added.

    `folder`: Where uploaded image files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.nodes = {each[0]: NodeDefinition(*each) for each in _NODES}
        self.images: dict[str, dict[str, Any]] = {
            image: _image(image, node) for node, images in _IMAGES.items() for image in images
        }

    @property
    def files(self) -> list[str]:
        """The names of the image files in the drop folder."""
        return sorted(path.name for path in self._folder.iterdir() if path.name.endswith(_IMAGE_FILES))

    def nodes_as_json(self) -> list[dict[str, Any]]:
        """Return all node definitions as the interface does."""
        return [each.as_json() for each in self.nodes.values()]

    def add_image(self, given: object) -> None:
        """Add an image definition.

        Raises Refused: a key is missing, unknown or of a wrong form; its file or node definition is not there.
        """
        if (why := self._objection(given)) is not None or not isinstance(given, dict):
            raise refused("bad_definition", why=why)
        self.images[given["id"]] = {**_image(given["id"], given["node_definition_id"]), "read_only": False, **given}

    def remove_image(self, definition_id: str) -> None:
        """Remove an image definition. Raises Refused: there is none."""
        if self.images.pop(definition_id, None) is None:
            raise refused("definition_not_found", definition_id=definition_id)

    def path_for(self, name: str | None) -> Path:
        """Return where an uploaded file goes. Raises Refused: there is no name, or it is none of an image."""
        if not name:
            raise refused("no_file_name")
        if Path(name).name != name or not name.endswith(_IMAGE_FILES):
            raise refused("bad_file_name", name=name)
        return self._folder / name

    def remove_file(self, name: str) -> None:
        """Remove a file from the drop folder. Raises Refused: it is not there."""
        path = self._folder / Path(name).name
        if not path.is_file():
            raise refused("not_found", what=name)
        path.unlink()

    def _objection(self, given: object) -> str | None:
        if not isinstance(given, dict):
            return f"expected an object, found {type(given).__name__}"
        if missing := [key for key in _IMAGE_REQUIRED if not isinstance(given.get(key), str)]:
            return f"{missing[0]!r} is a required property"
        if unknown := sorted(set(given) - _IMAGE_KEYS):
            return f"additional properties are not allowed ({unknown[0]!r} was unexpected)"
        if len(given["label"]) > _LONGEST_LABEL:
            return f"label: at most {_LONGEST_LABEL} characters"
        if given["node_definition_id"] not in self.nodes:
            return f"there is no node definition {given['node_definition_id']}"
        sha256 = given.get("sha256")
        if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", str(sha256)):
            return "sha256: expected 64 hexadecimal digits"
        if given["id"] in self.images:
            return f"{given['id']} exists already"
        known = {each["disk_image"] for each in self.images.values()} | set(self.files)
        return None if given["disk_image"] in known else f"there is no file {given['disk_image']}"


def _image(image: str, node: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("id", "label", "description"), image),
        "node_definition_id": node,
        "disk_image": f"{image}.qcow2",
        **dict.fromkeys(("ram", "cpus", "cpu_limit", "data_volume", "boot_disk_size")),
        "read_only": True,
        "schema_version": "0.0.1",
    }

"""What the stand-in says when it refuses: every status and sentence of it, and whether a real controller was seen so.

The shape is documented for all: ``{"code": int, "description": str}``. Of most sentences only the situation is known;
those are our own words and marked so. Base no decision on them: the status and the lab's state decide.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec


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


def read_data(name: str, kind: Any) -> Any:
    """Return what a data file beside this module holds, as a type."""
    return msgspec.convert(tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")), kind)


TEXTS: Mapping[str, Text] = read_data("refusals", dict[str, Text])
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

    The fields are those of `nodes.toml`, which says what they mean.
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


_NOT_COUNTED = frozenset({"external_connector", "unmanaged_switch"})


class Definitions:
    """What there is, and what was added.

    `folder`: Where uploaded image files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        tables = read_data("nodes", dict[str, dict[str, Any]])
        self.nodes = {key: NodeDefinition(definition_id=key, **table) for key, table in tables["nodes"].items()}
        self.images = {image: _image(image, node) for node, own in tables["images"].items() for image in own}

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

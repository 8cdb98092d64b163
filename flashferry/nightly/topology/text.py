"""The text of a topology, as Cisco Modeling Labs imports it, in its schemas 0.2.1, 0.2.2 and 0.3.0. Pure.

Facts
-----

- Cisco's own topologies (CiscoDevNet/cml-community): up to 0.2.1 a node's `configuration` is one text, from 0.2.2 on a
  list of named files (53 files of 0.2.2 and 7 of 0.3.0, without exception). `annotations` from 0.2.1 on,
  `smart_annotations` in 0.3.0. Links have `conditioning` from 0.2.1 on; theirs are all empty.
- `conditioning` takes the keys of the API's condition; `enabled` is always sent, for its default differs between the
  descriptions of the API. What the import does with it is not confirmed: the night sets each condition again and reads
  it back.
- A router's first interface there is `Loopback0`, without a slot (404 nodes, all); its ports follow from slot 0 on.
- A connector's configuration is the label of the bridge, `System Bridge` or `NAT`, in a file named `default`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashferry.nightly.backend import LinkCondition

_STEP = 120
_WITH_FILES = ("0.2.2", "0.3.0")
_WITH_SMART = ("0.3.0",)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNode:
    """A node as it is written.

    Attributes:
        node_id: Its id in the file.
        label: Its name.
        definition: Its node definition.
        image: Its image definition, or None.
        files: Names and contents of its configuration.
        interfaces: Its ports, from slot 0 on.
        has_loopback: Whether `Loopback0` stands before them.
        tags: Its tags.
        column: Where it is drawn.
        row: Where it is drawn.
    """

    node_id: str
    label: str
    definition: str
    image: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    interfaces: tuple[str, ...]
    has_loopback: bool = False
    tags: tuple[str, ...] = ()
    column: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLink:
    """A link as it is written.

    Attributes:
        label: Its name.
        ends: Its two ends: a node's id and the slot there.
        condition: What it does to packets, or None.
    """

    label: str
    ends: tuple[tuple[str, int], tuple[str, int]]
    condition: LinkCondition | None = None


def topology_text(*, title: str, schema: str, nodes: Sequence[WrittenNode], links: Sequence[WrittenLink]) -> str:
    """Return a topology's text.

    Args:
        title: The lab's title.
        schema: `0.2.1`, `0.2.2` or `0.3.0`.
        nodes: The nodes.
        links: The links.
    """
    content: dict[str, Any] = {"lab": {"title": title, "description": "", "notes": "", "version": schema}}
    content["annotations"] = []
    if schema in _WITH_SMART:
        content["smart_annotations"] = []
    content["nodes"] = [_node(node, has_files=schema in _WITH_FILES) for node in nodes]
    shift = {node.node_id: int(node.has_loopback) for node in nodes}
    content["links"] = [_link(number, link, shift) for number, link in enumerate(links)]
    return yaml_text(content)


def yaml_text(content: Mapping[str, object]) -> str:
    """Return a document as YAML: in blocks, and no line is folded."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    written = io.StringIO()
    yaml.dump(content, written)
    return written.getvalue()


def conditioning(condition: LinkCondition) -> dict[str, object]:
    """Return a condition by the keys of the controller."""
    return {
        "bandwidth": condition.bandwidth_kbps,
        "latency": condition.latency_ms,
        "jitter": condition.jitter_ms,
        "loss": condition.loss_percent,
        "enabled": True,
    }


def _node(node: WrittenNode, *, has_files: bool) -> dict[str, object]:
    from ruamel.yaml.scalarstring import LiteralScalarString

    files = [{"name": name, "content": _text(content)} for name, content in node.files]
    alone = files[0]["content"] if files else LiteralScalarString("")
    return {
        "id": node.node_id,
        "label": node.label,
        "node_definition": node.definition,
        "image_definition": node.image,
        "x": node.column * _STEP * 2,
        "y": node.row * _STEP,
        "tags": list(node.tags),
        "configuration": files if has_files else alone,
        "interfaces": _interfaces(node),
    }


def _interfaces(node: WrittenNode) -> list[dict[str, object]]:
    first: list[dict[str, object]] = []
    if node.has_loopback:
        first.append({"id": "i0", "label": "Loopback0", "type": "loopback"})
    ports = ({"label": label, "slot": slot, "type": "physical"} for slot, label in enumerate(node.interfaces))
    return first + [{"id": f"i{number}", **port} for number, port in enumerate(ports, start=len(first))]


def _link(number: int, link: WrittenLink, shift: Mapping[str, int]) -> dict[str, object]:
    (first, first_slot), (second, second_slot) = link.ends
    return {
        "id": f"l{number}",
        "label": link.label,
        "n1": first,
        "i1": f"i{first_slot + shift[first]}",
        "n2": second,
        "i2": f"i{second_slot + shift[second]}",
        "conditioning": conditioning(link.condition) if link.condition else {},
    }


def _text(content: str) -> str:
    from ruamel.yaml.scalarstring import LiteralScalarString

    return LiteralScalarString(content) if "\n" in content else content

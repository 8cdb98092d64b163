"""What a topology asks of a controller, and the same topology with a night's notes in it. Pure.

The notes go into the topology itself and not onto the lab afterwards: a run that is killed in between would leave a lab
that is not known to be ours.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node

LONGEST_TITLE = 64
"""Characters of a lab's title (CML 2.9's description of its interface)."""

_UNCOUNTED = frozenset({"external_connector", "unmanaged_switch"})
"""Definitions whose nodes the licence does not count."""
_ENDLESS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a topology asks for.

    Attributes:
        node_definitions: How many nodes there are of each definition.
        image_definitions: How many nodes ask for each image, by node definition and image.
        connectors: What external connectors are to be connected to: `System Bridge`, `NAT`, `bridge0`.
    """

    node_definitions: Counter[str]
    image_definitions: Counter[tuple[str, str]]
    connectors: tuple[str, ...]

    @property
    def counted_nodes(self) -> int:
        """Nodes that the licence counts."""
        return sum(count for name, count in self.node_definitions.items() if name not in _UNCOUNTED)


def wanted(text: str) -> Wanted:
    """Return what a topology asks for.

    Raises:
        ConfigInvalid: It is no topology.
    """
    nodes = Node(_parsed(text)).list("nodes")
    images = ((node.text("node_definition") or "", node.text("image_definition")) for node in nodes)
    return Wanted(
        node_definitions=Counter(node.text("node_definition") or "" for node in nodes),
        image_definitions=Counter((definition, image) for definition, image in images if image is not None),
        connectors=tuple(dict.fromkeys(_connectors(nodes))),
    )


def with_notes(text: str, *, title: str, notes: str) -> str:
    """Return a topology with another title and other notes; all else is as it was written.

    Raises:
        ConfigInvalid: It is no topology, or the title is too long.
    """
    if not 0 < len(title) <= LONGEST_TITLE:
        raise ConfigInvalid(
            f"topology: expected a title of 1 to {LONGEST_TITLE} characters, found {len(title)}",
            hint="Leave the title to the night",
        )
    content = _parsed(text)
    content["lab"]["title"], content["lab"]["notes"] = title, notes
    return _written(content)


def with_image(text: str, node_definition: str, image: str | None) -> str:
    """Return a topology whose nodes of a definition boot an image; all else is as it was written.

    Args:
        text: The topology.
        node_definition: Which nodes.
        image: The image definition; None: what the controller has for them.

    Raises:
        ConfigInvalid: It is no topology.
    """
    content = _parsed(text)
    for node in content.get("nodes") or ():
        if isinstance(node, dict) and node.get("node_definition") == node_definition:
            node["image_definition"] = image
    return _written(content)


def _written(content: Any) -> str:
    out = io.StringIO()
    _yaml().dump(content, out)
    return out.getvalue()


def _connectors(nodes: tuple[Node, ...]) -> Iterator[str]:
    for node in nodes:
        if node.text("node_definition") == "external_connector":
            # 0.2.x has a text there, 0.3.x a list of files.
            for said in (node.text("configuration"), *(one.text("content") for one in node.list("configuration"))):
                if said is not None and said.strip():
                    yield said.strip()


def _parsed(text: str) -> Any:
    try:
        content = _yaml().load(text)
    except (YAMLError, UnicodeError, RecursionError, ValueError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("lab"), dict):
        raise ConfigInvalid(
            "topology: expected YAML with 'lab', 'nodes' and 'links', found something else",
            hint="Take the file as the controller's 'Download lab' gives it",
        )
    return content


def _yaml() -> YAML:
    """Return a parser that writes back what it read: quotes, texts of several lines, order."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _ENDLESS
    return yaml

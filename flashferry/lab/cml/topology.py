"""Conditions of links as the interface has them: keys, bounds, and what is refused.

Bounds are those of the description of CML 2.9: bandwidth 0 to 10,000,000 kbit/s with 0 for none; latency, jitter,
limit and gap 0 to 10,000, whole; everything in percent 0 to 100, with fractions. Any other key is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flashferry.lab.cml.definitions import Definitions, refused
from flashferry.lab.cml.runtime import Condition

WHOLE = {"bandwidth": 10_000_000, "latency": 10_000, "jitter": 10_000, "limit": 10_000, "gap": 10_000}
"""Whole numbers and the most that each may be."""

PERCENT = frozenset(
    {
        "loss",
        "delay_corr",
        "loss_corr",
        "duplicate",
        "duplicate_corr",
        "reorder_prob",
        "reorder_corr",
        "corrupt_prob",
        "corrupt_corr",
    }
)
"""Shares, 0 to 100."""

_NAMED = frozenset({"bandwidth", "latency", "jitter", "loss", "enabled"})


def checked(requested: object) -> dict[str, Any]:
    """Return a condition as it was sent, if it is one.

    Raises Refused: it has an unknown key, or a value of a wrong type or out of its bounds.
    """
    if not isinstance(requested, dict):
        raise refused("bad_condition", why=f"expected an object, found {type(requested).__name__}")
    for key, value in requested.items():
        if (why := _objection(str(key), value)) is not None:
            raise refused("bad_condition", why=why)
    return dict(requested)


def merged(held: Mapping[str, Any] | None, change: Mapping[str, Any], *, is_enabled_by_default: bool) -> dict[str, Any]:
    """Return a condition after a PATCH: what is not named stays, what is null goes back to nothing."""
    before = {"bandwidth": 0, "latency": 0, "jitter": 0, "loss": 0.0, "enabled": is_enabled_by_default}
    both = {**before, **(held or {}), **change}
    return {key: before.get(key) if value is None else value for key, value in both.items() if _is_shown(key, value)}


def as_condition(held: Mapping[str, Any]) -> Condition:
    """Return it as a runtime takes it."""
    return Condition(
        bandwidth_kbps=held.get("bandwidth") or 0,
        latency_ms=held.get("latency") or 0,
        jitter_ms=held.get("jitter") or 0,
        loss_percent=float(held.get("loss") or 0),
        is_enabled=bool(held.get("enabled", True)),
        others={key: value for key, value in held.items() if key not in _NAMED},
    )


def as_json(condition: Condition | None) -> dict[str, Any] | None:
    """Return what the interface says of a condition in force."""
    if condition is None:
        return None
    return {
        "bandwidth": condition.bandwidth_kbps,
        "latency": condition.latency_ms,
        "jitter": condition.jitter_ms,
        "loss": condition.loss_percent,
        "enabled": condition.is_enabled,
        **condition.others,
    }


def _is_shown(key: str, value: object) -> bool:
    return key in _NAMED or value is not None


def _objection(key: str, value: object) -> str | None:
    if key == "enabled":
        return None if isinstance(value, bool) else f"enabled: expected true or false, found {value!r}"
    if key not in WHOLE and key not in PERCENT:
        return f"additional properties are not allowed ({key!r} was unexpected)"
    if value is None:
        return None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if key in WHOLE:
        most = WHOLE[key]
        return None if is_whole and 0 <= value <= most else f"{key}: expected a whole number 0..{most}, found {value!r}"  # type: ignore[operator]
    if (is_whole or isinstance(value, float)) and 0 <= value <= 100:  # type: ignore[operator]
        return None
    return f"{key}: expected 0..100, found {value!r}"


SCHEMAS = ("0.1.0", "0.2.0", "0.2.1", "0.2.2", "0.3.0")
"""Versions of topologies that are taken."""

LONGEST_TITLE = 64
"""Characters of a lab's title; it must have one."""

LONGEST_DESCRIPTION = 4096
"""Characters of a lab's description."""

LONGEST_NOTES = 32_768
"""Characters of a lab's notes."""

NODE_SETTINGS = frozenset(
    [
        "ram",
        "cpus",
        "cpu_limit",
        "data_volume",
        "boot_disk_size",
        "hide_links",
        "parameters",
        "priority",
        "pinned_compute_id",
        "pyats",
        "resource_pool",
        "compute_id",
    ]
)
"""What a node may carry that the stand-in only keeps."""

_LAB_KEYS = frozenset({"title", "description", "notes", "version", "timestamp", "owner"})
_LAB_KEYS_2_10 = frozenset({"autostart", "node_staging"})
_TOP_KEYS = frozenset({"lab", "nodes", "links", "annotations", "smart_annotations"})

_NODE_KEYS = NODE_SETTINGS | {
    "id", "label", "node_definition", "image_definition", "x", "y", "tags", "configuration", "interfaces",
}  # fmt: skip

_INTERFACE_KEYS = frozenset({"id", "label", "slot", "type", "mac_address"})
_LINK_KEYS = frozenset({"id", "n1", "n2", "i1", "i2", "label", "conditioning"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenInterface:
    """An interface of a topology."""

    key: str
    label: str
    slot: int | None
    kind: str
    mac_address: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNode:
    """A node of a topology; `settings` are keys that are only kept."""

    key: str
    label: str
    node_definition: str
    image_definition: str | None
    x: int
    y: int
    tags: tuple[str, ...]
    configuration: tuple[tuple[str, str], ...]
    interfaces: tuple[GivenInterface, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenLink:
    """A link of a topology, between two interfaces by (node, interface)."""

    label: str
    ends: tuple[tuple[str, str], tuple[str, str]]
    conditioning: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTopology:
    """A topology that was taken."""

    title: str
    description: str
    notes: str
    nodes: tuple[GivenNode, ...]
    links: tuple[GivenLink, ...]
    annotations: tuple[dict[str, Any], ...]
    smart_annotations: tuple[dict[str, Any], ...]
    extras: Mapping[str, Any]


def parse(
    text: str, *, title: str | None, definitions: Definitions, version: tuple[int, ...], is_partial: bool = False
) -> GivenTopology:
    """Return a topology that may be imported.

    Args:
        text: YAML, or JSON, which is YAML, too.
        title: Goes before the topology's own.
        definitions: What it may name.
        version: The controller's, for keys that came later.
        is_partial: Whether title and schema may be missing.

    Raises Refused: 400, with the first objection.
    """
    whole = _loaded(text)
    _keys("the topology", whole, _TOP_KEYS)
    lab = _object("lab", whole.get("lab"))
    _keys("lab", lab, _LAB_KEYS | (_LAB_KEYS_2_10 if version >= (2, 10) else frozenset()))
    if not is_partial and str(lab.get("version")) not in SCHEMAS:
        raise refused("bad_topology", why=f"lab.version: expected one of {', '.join(SCHEMAS)}")
    nodes = tuple(_node(each, definitions) for each in _list("nodes", whole.get("nodes")))
    _check_unique("node", [node.key for node in nodes])
    ports = {(node.key, interface.key) for node in nodes for interface in node.interfaces}
    return GivenTopology(
        title=checked_title(title if title is not None else lab.get("title")),
        description=_text("description", lab.get("description"), LONGEST_DESCRIPTION),
        notes=_text("notes", lab.get("notes"), LONGEST_NOTES),
        nodes=nodes,
        links=tuple(_link(each, ports) for each in _list("links", whole.get("links"))),
        annotations=tuple(_object("annotation", each) for each in _list("annotations", whole.get("annotations"))),
        smart_annotations=tuple(
            _object("smart annotation", each) for each in _list("smart_annotations", whole.get("smart_annotations"))
        ),
        extras={key: lab[key] for key in _LAB_KEYS_2_10 if key in lab},
    )


def checked_title(title: object) -> str:
    """Return a title, if it is one. Raises Refused: it is no text of 1 to 64 characters."""
    if not isinstance(title, str) or not 1 <= len(title) <= LONGEST_TITLE:
        raise refused("bad_topology", why=f"lab.title: expected 1 to {LONGEST_TITLE} characters")
    return title


def files_of(configuration: object, day0: str) -> tuple[tuple[str, str], ...]:
    """Return day-0 files by name from what a topology or a call holds: a text, or a list of named files.

    Raises Refused: it is neither.
    """
    if configuration is None:
        return ()
    if isinstance(configuration, str):
        return ((day0, configuration),)
    files = _list("configuration", configuration)
    for each in files:
        _keys("configuration", _object("configuration", each), frozenset({"name", "content"}))
    return tuple((str(each.get("name")).replace("Main", day0), str(each.get("content") or "")) for each in files)


def check_definitions(node_definition: object, image: object, label: object, definitions: Definitions) -> None:
    """Check that what a node names is there.

    Raises Refused: its definition or its image is missing, or the image is another definition's.
    """
    if definitions.node(str(node_definition)) is None:
        raise refused("missing_node_definition", definition=node_definition, label=label)
    if not image:
        return
    held = definitions.images.get(str(image))
    if held is None or held["node_definition_id"] != node_definition:
        raise refused("missing_image_definition", definition=image, label=label)


def check_node(given: Mapping[str, Any]) -> None:
    """Check what a topology or a call says of a node: a label if any, whole coordinates, tags of text.

    Raises Refused: 400.
    """
    label = given.get("label", "node")
    if not isinstance(label, str) or not label:
        raise refused("bad_topology", why="every node wants a label")
    for axis in ("x", "y"):
        if not isinstance(given.get(axis, 0), int):
            raise refused("bad_topology", why=f"node {label}: {axis}: expected a whole number")
    tags = given.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise refused("bad_topology", why=f"node {label}: tags: expected a list of texts")


def _loaded(text: str) -> dict[str, Any]:
    try:
        return _object("the topology", YAML(typ="safe", pure=True).load(text))
    except YAMLError as error:
        raise refused("bad_topology", why=f"no YAML: {str(error).splitlines()[0]}") from error


def _node(given: object, definitions: Definitions) -> GivenNode:
    node = _object("node", given)
    label = node.get("label")
    check_node(node)
    _keys(f"node {label}", node, _NODE_KEYS)
    for requested in ("id", "label", "node_definition", "x", "y"):
        if requested not in node:
            raise refused("bad_topology", why=f"node {label}: {requested!r} is a required property")
    check_definitions(node["node_definition"], node.get("image_definition"), label, definitions)
    definition = definitions.nodes[node["node_definition"]]
    interfaces = tuple(_interface(str(label), each) for each in _list("interfaces", node.get("interfaces")))
    _check_unique(f"interface of {label}", [interface.key for interface in interfaces])
    return GivenNode(
        key=str(node["id"]),
        label=str(label),
        node_definition=node["node_definition"],
        image_definition=node.get("image_definition") or None,
        x=node["x"],
        y=node["y"],
        tags=tuple(node.get("tags") or ()),
        configuration=files_of(node.get("configuration"), definition.day0),
        interfaces=interfaces,
        settings={key: node[key] for key in NODE_SETTINGS if key in node},
    )


def _interface(node: str, given: object) -> GivenInterface:
    interface = _object("interface", given)
    _keys(f"interface of {node}", interface, _INTERFACE_KEYS)
    kind = interface.get("type", "physical")
    if kind not in {"physical", "loopback"} or "id" not in interface or "label" not in interface:
        raise refused("bad_topology", why=f"interface of {node}: expected id, label and a type")
    return GivenInterface(
        key=str(interface["id"]),
        label=str(interface["label"]),
        slot=interface.get("slot"),
        kind=kind,
        mac_address=interface.get("mac_address"),
    )


def _link(given: object, ports: Collection[tuple[str, str]]) -> GivenLink:
    link = _object("link", given)
    _keys("link", link, _LINK_KEYS)
    one, two = ((str(link.get(f"n{end}")), str(link.get(f"i{end}"))) for end in (1, 2))
    for port in (one, two):
        if port not in ports:
            raise refused("bad_topology", why=f"link {link.get('id')}: there is no interface {port[1]} of {port[0]}")
    conditioning = link.get("conditioning")
    return GivenLink(
        label=str(link.get("label") or ""),
        ends=(one, two),
        conditioning=checked(conditioning) if conditioning else None,
    )


def _keys(what: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    if unknown := sorted(str(key) for key in given if key not in known):
        why = f"{what}: additional properties are not allowed ({unknown[0]!r} was unexpected)"
        raise refused("bad_topology", why=why)


def _object(what: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise refused("bad_topology", why=f"{what}: expected an object, found {type(given).__name__}")
    return given


def _list(what: str, given: object) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise refused("bad_topology", why=f"{what}: expected a list, found {type(given).__name__}")
    return given


def _text(what: str, given: object, longest: int) -> str:
    text = "" if given is None else str(given)
    if len(text) > longest:
        raise refused("bad_topology", why=f"lab.{what}: at most {longest} characters")
    return text


def _check_unique(what: str, keys: list[str]) -> None:
    if len(set(keys)) != len(keys):
        raise refused("bad_topology", why=f"two {what}s with one id")

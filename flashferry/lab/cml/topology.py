"""Topologies and conditions of links as the interface has them: keys, bounds, and what is refused.

Bounds are those of the description of CML 2.9: bandwidth 0 to 10,000,000 kbit/s with 0 for none; latency, jitter,
limit and gap 0 to 10,000, whole; everything in percent 0 to 100, with fractions. Any other key is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flashferry.lab.cml.definitions import Definitions, refused
from flashferry.lab.cml.runtime import Condition

_WHOLE = {"bandwidth": 10_000_000, "latency": 10_000, "jitter": 10_000, "limit": 10_000, "gap": 10_000}
"""Whole numbers and the most that each may be."""

_PERCENT = frozenset({
    "loss", "delay_corr", "loss_corr", "duplicate", "duplicate_corr", "reorder_prob", "reorder_corr", "corrupt_prob",
    "corrupt_corr",
})  # fmt: skip
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
    return {
        key: before.get(key) if value is None else value
        for key, value in both.items()
        if key in _NAMED or value is not None
    }


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


def _objection(key: str, value: object) -> str | None:
    if key == "enabled":
        return None if isinstance(value, bool) else f"enabled: expected true or false, found {value!r}"
    if key not in _WHOLE and key not in _PERCENT:
        return f"additional properties are not allowed ({key!r} was unexpected)"
    most, kinds, what = (_WHOLE[key], int, "a whole number ") if key in _WHOLE else (100, int | float, "")
    if value is None or (isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value <= most):
        return None
    return f"{key}: expected {what}0..{most}, found {value!r}"


_SCHEMAS = ("0.1.0", "0.2.0", "0.2.1", "0.2.2", "0.3.0")
"""Versions of topologies that are taken."""

_LONGEST_TITLE = 64
_LAB_KEYS_2_10 = ("autostart", "node_staging")

NODE_SETTINGS = frozenset({
    "ram", "cpus", "cpu_limit", "data_volume", "boot_disk_size", "hide_links", "parameters", "priority",
    "pinned_compute_id", "pyats", "resource_pool", "compute_id",
})  # fmt: skip
"""What a node may carry that the stand-in only keeps."""

_Key = str | int
_Description = Annotated[str, msgspec.Meta(max_length=4096)]
_Notes = Annotated[str, msgspec.Meta(max_length=32_768)]


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """An object of a topology: the fields are the keys that it may have."""


class GivenFile(_Given):
    """A day-0 file."""

    name: str | None = None
    content: str | None = None


class GivenInterface(_Given):
    """An interface of a topology."""

    id: _Key
    label: str
    slot: int | None = None
    type: Literal["physical", "loopback"] = "physical"
    mac_address: str | None = None


class GivenNode(_Given, kw_only=True):
    """A node of a topology without the keys that are only kept, which are `settings`."""

    id: _Key
    label: Annotated[str, msgspec.Meta(min_length=1)]
    node_definition: str
    image_definition: str | None = None
    x: int
    y: int
    tags: list[str] | None = None
    configuration: str | list[GivenFile] | None = None
    interfaces: list[GivenInterface] | None = None
    settings: dict[str, Any] = {}


class GivenLink(_Given, kw_only=True):
    """A link of a topology, between two interfaces by node and interface."""

    id: Any = None
    n1: _Key
    i1: _Key
    n2: _Key
    i2: _Key
    label: str | None = None
    conditioning: dict[str, Any] | None = None

    @property
    def ends(self) -> tuple[tuple[_Key, _Key], tuple[_Key, _Key]]:
        """Both interfaces."""
        return (self.n1, self.i1), (self.n2, self.i2)


class GivenLab(_Given):
    """What a topology says of the lab itself."""

    title: Any = None
    description: _Description | None = None
    notes: _Notes | None = None
    version: Any = None
    timestamp: Any = None
    owner: Any = None
    autostart: Any = msgspec.UNSET
    node_staging: Any = msgspec.UNSET

    @property
    def extras(self) -> dict[str, Any]:
        """What came with 2.10."""
        return {key: getattr(self, key) for key in _LAB_KEYS_2_10 if getattr(self, key) is not msgspec.UNSET}


class GivenTopology(_Given):
    """A topology that was taken."""

    lab: GivenLab
    nodes: list[GivenNode] | None = None
    links: list[GivenLink] | None = None
    annotations: list[dict[str, Any]] | None = None
    smart_annotations: list[dict[str, Any]] | None = None


def parse(text: str, *, title: str | None, definitions: Definitions, version: tuple[int, ...]) -> GivenTopology:
    """Return a topology that may be imported; `text` is YAML, or JSON, and `title` replaces the topology's own.

    `definitions` is what it may name, `version` the controller's, for keys that came later. Raises Refused: 400, with
    the first objection.
    """
    given: GivenTopology = _converted(_with_settings_apart(_loaded(text)), GivenTopology)
    if given.lab.extras and version < (2, 10):
        raise refused("bad_topology", why=_unexpected(next(iter(given.lab.extras))))
    if str(given.lab.version) not in _SCHEMAS:
        raise refused("bad_topology", why=f"lab.version: expected one of {', '.join(_SCHEMAS)}")
    given.lab.title = checked_title(title if title is not None else given.lab.title)
    nodes = given.nodes or []
    for node in nodes:
        check_definitions(node.node_definition, node.image_definition, node.label, definitions)
        _check_unique(f"interface of {node.label}", [each.id for each in node.interfaces or ()])
    _check_unique("node", [node.id for node in nodes])
    _check_links(given.links or (), {(node.id, each.id) for node in nodes for each in node.interfaces or ()})
    return given


def checked_title(title: object) -> str:
    """Return a title, if it is one. Raises Refused: it is no text of 1 to 64 characters."""
    if not isinstance(title, str) or not 1 <= len(title) <= _LONGEST_TITLE:
        raise refused("bad_topology", why=f"lab.title: expected 1 to {_LONGEST_TITLE} characters")
    return title


def files_of(configuration: object, day0: str) -> list[tuple[str, str]]:
    """Return day-0 files by name from what a topology or a call holds: a text, or a list of named files.

    Raises Refused: it is neither.
    """
    held = _converted(configuration, str | list[GivenFile] | None)
    if held is None:
        return []
    if isinstance(held, str):
        return [(day0, held)]
    return [(str(each.name).replace("Main", day0), each.content or "") for each in held]


def check_definitions(node_definition: object, image: object, label: object, definitions: Definitions) -> None:
    """Check that what a node names is there.

    Raises Refused: its definition or its image is missing, or the image is another definition's.
    """
    if definitions.nodes.get(str(node_definition)) is None:
        raise refused("missing_node_definition", definition=node_definition, label=label)
    held = definitions.images.get(str(image)) if image else {"node_definition_id": node_definition}
    if held is None or held["node_definition_id"] != node_definition:
        raise refused("missing_image_definition", definition=image, label=label)


def check_node(given: Mapping[str, Any]) -> None:
    """Check what a call says of a node: a label if any, whole coordinates, tags of text. Raises Refused: 400."""
    stand_ins = {"id": "", "label": "node", "node_definition": "", "x": 0, "y": 0}
    kept = {key: value for key, value in given.items() if key not in NODE_SETTINGS | {"node_definition"}}
    _converted({**stand_ins, **kept}, GivenNode)


def _loaded(text: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise refused("bad_topology", why=f"no YAML: {str(error).splitlines()[0]}") from error


def _with_settings_apart(whole: Any) -> Any:
    """Put what is only kept of a node below one key, where the rest is what it should be."""
    for node in _nodes_of(whole):
        if "settings" not in node:
            node["settings"] = {key: node.pop(key) for key in NODE_SETTINGS & set(node)}
    return whole


def _nodes_of(whole: Any) -> Iterable[dict[Any, Any]]:
    nodes = whole.get("nodes") if isinstance(whole, dict) else None
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []


def _converted(given: object, kind: Any) -> Any:
    """Return what was given as its type. Raises Refused: a key is unknown, missing or of another type."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        unknown = re.match(r"Object contains unknown field `([^`]*)`", str(error))
        raise refused("bad_topology", why=_unexpected(unknown[1]) if unknown else str(error)) from error


def _unexpected(key: str) -> str:
    return f"additional properties are not allowed ({key!r} was unexpected)"


def _check_links(links: Iterable[GivenLink], ports: Collection[tuple[_Key, _Key]]) -> None:
    for link in links:
        for port in link.ends:
            if port not in ports:
                raise refused("bad_topology", why=f"link {link.id}: there is no interface {port[1]} of {port[0]}")
        checked(link.conditioning or {})


def _check_unique(what: str, keys: list[_Key]) -> None:
    if len(set(keys)) != len(keys):
        raise refused("bad_topology", why=f"two {what}s with one id")

"""Check whether a controller can run a lab: ready, licensed, enough nodes and memory, all definitions there.

Facts
-----
* `system_information.ready`: at least one compute can start nodes. `system_health.is_licensed`.
* `diagnostics/licensing` is `{quota, started, user_quota, user_started}`, readable by some users only; the licence does
  not count external connectors (seen on a lab of the free edition) and unmanaged switches [unknown].
* `system_stats` has memory per compute and in `all`, in bytes; `node_definitions` have theirs in MiB below
  `sim.linux_native.ram`, image definitions may have another.
"""

from __future__ import annotations

from collections.abc import Iterable

from flashferry.core.json_access import Node
from flashferry.core.redaction import sanitize
from flashferry.nightly.backend import Preflight, Topology
from flashferry.nightly.cml.controller import Controller
from flashferry.nightly.cml.images import TopologyNeeds, topology_needs
from flashferry.nightly.night import Fault, NightFault, NoCapacity

STEP = "preflight"
_NOT_OURS = (403, 404)
"""Answers to what the user cannot read, or what some versions lack."""
_MIB = 1 << 20
_MOST_NAMED = 8


def preflight(controller: Controller, topology: Topology) -> Preflight:
    """Check whether a lab can run; changes nothing.

    Raises:
        ConfigInvalid: The text is no topology.
        NoCapacity: Other labs fill the controller.
        NightFault: `LAB`: it cannot run, with the first reason found.
    """
    needs = topology_needs(topology.text)
    notes = list(controller.notes)
    _ready(controller)
    notes += _licensed(controller)
    _definitions(controller, needs)
    connector_notes = _connectors(controller, needs)
    nodes_free = _enough_nodes(controller, needs)
    if nodes_free is None:
        notes.append("how many nodes the licence allows is not shown to this user")
    memory = _enough_memory(controller, needs)
    return Preflight(
        controller=controller.access.url,
        version=controller.version.text,
        notes=(*notes, *connector_notes),
        nodes_free=nodes_free,
        memory_free_bytes=memory,
    )


def _ready(controller: Controller) -> None:
    found = _get(controller, "system_information", "read what it says of itself")
    if found.flag("ready") is not True:
        raise _refused(
            "the controller is not ready: no compute of it can start nodes",
            "Wait until it has started; its page 'System health' shows what is missing",
        )


def _licensed(controller: Controller) -> tuple[str, ...]:
    health = _get(controller, "system_health", "read its health", allows=_NOT_OURS)
    if health.flag("is_licensed") is False:
        raise _refused("the controller has no licence", "Register it: its page 'Licensing'")
    found = health.flag("valid") is False, health.flag("is_licensed") is None
    words = ("the controller's own health check is not content", "whether it is licensed is not shown to this user")
    return tuple(word for word, is_so in zip(words, found, strict=True) if is_so)


def _definitions(controller: Controller, needs: TopologyNeeds) -> None:
    definitions = _get(controller, "node_definitions", "read its node definitions").list()
    known = {one.text("id") or "" for one in definitions} - {""}
    for name in needs.node_definitions:
        if name not in known:
            raise _refused(
                f"expected the node definition {sanitize(name)!r}, found {_named(known)}",
                "Name one of these in nightly.yaml, or add the definition to the controller",
            )
    if not needs.image_definitions:
        return
    images = _get(controller, "image_definitions", "read its image definitions").list()
    for definition, image in needs.image_definitions:
        fitting = {one.text("id") or "" for one in images if one.text("node_definition_id") == definition}
        if image not in fitting:
            raise _refused(
                f"expected the image definition {sanitize(image)!r} for {sanitize(definition)}, "
                f"found {_named(fitting)}",
                "Name one of these in nightly.yaml, or add the image to the controller",
            )


def _connectors(controller: Controller, needs: TopologyNeeds) -> tuple[str, ...]:
    answer = _get(controller, "system/external_connectors", "read its external connectors", allows=_NOT_OURS)
    found = answer.list()
    if not found or not needs.connectors:
        return ()
    known = {name for one in found for name in (one.text("label"), one.text("device_name")) if name}
    for name in needs.connectors:
        if name not in known:
            raise _refused(
                f"expected the external connector {sanitize(name)!r}, found {_named(known)}",
                "Name one of these in nightly.yaml: nodes are reached through it",
            )
    used = [one for one in found if {one.text("label"), one.text("device_name")} & set(needs.connectors)]
    unseen = [one.text("label") or "" for one in used if one.flag("snooped") is False]
    return tuple(f"{sanitize(name)}: addresses are not snooped, so none are found behind it" for name in unseen)


def _enough_nodes(controller: Controller, needs: TopologyNeeds) -> int | None:
    """Return how many more nodes can start; None: unknown."""
    free = _nodes_free(controller)
    if free is not None and free < needs.counted_nodes:
        raise NoCapacity(
            f"expected room for {needs.counted_nodes} nodes, found {free} of the licence's left",
            step=STEP,
            hint="Stop other labs, or give the night fewer nodes; 'flashferry nightly reap' removes what nights left",
        )
    return free


def _enough_memory(controller: Controller, needs: TopologyNeeds) -> int | None:
    """Return the free memory in bytes; None: unknown."""
    free, needed = _memory_free(controller), _memory_needed(controller, needs)
    if free is not None and needed is not None and free < needed:
        raise NoCapacity(
            f"expected {needed // _MIB:,} MiB of free memory, found {free // _MIB:,} MiB",
            step=STEP,
            hint="Stop other labs, or give the night fewer nodes",
        )
    return free


def _nodes_free(controller: Controller) -> int | None:
    found = _get(controller, "diagnostics/licensing", "read how many nodes it may start", allows=_NOT_OURS)
    pairs = (("quota", "started"), ("user_quota", "user_started"))
    counts = [(found.whole(quota), found.whole(started)) for quota, started in pairs]
    free = [quota - started for quota, started in counts if quota is not None and started is not None]
    return max(0, min(free)) if free else None


def _memory_free(controller: Controller) -> int | None:
    stats = _get(controller, "system_stats", "read its load", allows=_NOT_OURS)
    whole = stats.whole("all", "memory", "free")
    if whole is not None:
        return whole
    each = [one.whole("stats", "memory", "free") for _, one in stats.at("computes").items()]
    found = [one for one in each if one is not None]
    return sum(found) if found else None


def _memory_needed(controller: Controller, needs: TopologyNeeds) -> int | None:
    """Return the memory of all nodes in bytes; None: unknown."""
    found = _get(controller, "node_definitions", "read its node definitions").list()
    ram = {one.text("id"): one.number("sim", "linux_native", "ram") for one in found}
    each = [(ram.get(name), count) for name, count in needs.node_definitions.items()]
    sized = [(mib, count) for mib, count in each if mib is not None]
    return int(sum(mib * count for mib, count in sized)) * _MIB if sized else None


def _get(controller: Controller, path: str, what: str, *, allows: tuple[int, ...] = ()) -> Node:
    return Node(controller.get(path, what, step=STEP, allows=allows).value)


def _named(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return (", ".join(map(sanitize, known[:_MOST_NAMED])) + more) if known else "none"


def _refused(message: str, hint: str) -> NightFault:
    return NightFault(message, fault=Fault.LAB, step=STEP, hint=hint)

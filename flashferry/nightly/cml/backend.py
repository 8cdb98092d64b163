"""Run the labs of nights on Cisco Modeling Labs.

Facts
-----
* Cisco's client asks for `/api/v0//api/v0/pcap/<id>`, which no controller has (measured), so its methods are not used.
* Up to CML 2.9 a capture is kept under a key, `GET links/{id}/capture/key`; from 2.10 on under the link's ID. The other
  one is tried if the first is missing.
* `capture/start` needs `maxpackets` (1 to 1,000,000) or `maxtime` (1 to 86,400 s).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from flashferry.core.json_access import Node
from flashferry.core.redaction import masked, sanitize
from flashferry.nightly.backend import (
    Clock,
    Deadline,
    DiskFile,
    LabNode,
    Leftover,
    LinkCondition,
    PlannedLink,
    Preflight,
    Progress,
    RunningLab,
    Topology,
    UploadedImage,
)
from flashferry.nightly.cml import images
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.cml.controller import CONNECT_S, Call, Controller, below, connect
from flashferry.nightly.cml.images import TopologyNeeds, topology_needs
from flashferry.nightly.cml.labs import (
    ARTEFACTS,
    CONDITION,
    IMPORT,
    REAP,
    START,
    STEP,
    LabParts,
    console_log,
    download,
    events,
    import_lab,
    lab_parts,
    left,
    leftovers,
    nodes_now,
    set_condition,
    start_lab,
    take_down,
)
from flashferry.nightly.cml.labs import link_id as id_of_link
from flashferry.nightly.lab_notes import nobodys
from flashferry.nightly.night import Fault, NightFault, NoCapacity
from flashferry.nightly.topology.definitions import without_secrets

_CAPTURE_STEP = "artefacts"

MOST_PACKETS = 1_000_000
_ABSENT = (400, 404)
_DOWNLOAD_S = 300.0


def start_capture(
    controller: Controller, lab_id: str, link_id: str, *, most_packets: int = 100_000, most_s: int = 900
) -> None:
    """Start to capture a link's packets.

    Args:
        controller: The controller.
        lab_id: The lab.
        link_id: The link.
        most_packets: Packets after which it ends, 1 to 1,000,000.
        most_s: Seconds after which it ends, 1 to 86,400.

    Raises:
        NightFault: The controller refuses.
    """
    body = {"encap": "ethernet", "maxpackets": min(most_packets, MOST_PACKETS), "maxtime": most_s}
    path = below("labs", lab_id, "links", link_id, "capture", "start")
    what = "start a packet capture"
    call = Call(
        method="PUT", path=path, what=what, step=_CAPTURE_STEP, expects="nothing", json=body, is_repeatable=False
    )
    controller.ask(call, done=partial(_is_capturing, controller, lab_id, link_id))


def stop_capture(controller: Controller, lab_id: str, link_id: str) -> bytes:
    """Stop a capture and return its pcap file.

    Raises:
        NightFault: The controller has none.
    """
    path = below("labs", lab_id, "links", link_id, "capture", "stop")
    call = Call(
        method="PUT", path=path, what="end a packet capture", step=_CAPTURE_STEP, expects="nothing", allows=_ABSENT
    )
    key = _key(controller, lab_id, link_id)
    controller.ask(call)
    for name in dict.fromkeys((key, link_id)):
        path, what = below("pcap", name), "download a packet capture"
        answer = controller.get(path, what, step=_CAPTURE_STEP, expects="bytes", allows=(404,), timeout_s=_DOWNLOAD_S)
        if not answer.is_gone:
            return bytes(answer.value)
    raise NightFault(
        f"the packet capture of link {sanitize(link_id)} is not to be found",
        fault=Fault.LAB,
        step=_CAPTURE_STEP,
        hint="'flashferry nightly record' shows where this controller keeps it",
    )


def _is_capturing(controller: Controller, lab_id: str, link_id: str) -> bool | None:
    """Return True if a capture runs or ran; None if not."""
    path = below("labs", lab_id, "links", link_id, "capture", "status")
    answer = controller.get(path, "read a capture's state", step=_CAPTURE_STEP, allows=_ABSENT)
    return True if Node(answer.value).at("config") else None


def _key(controller: Controller, lab_id: str, link_id: str) -> str:
    """Return the key under which a link's capture is kept."""
    if controller.version.has_capture_keys:
        path = below("labs", lab_id, "links", link_id, "capture", "key")
        found = controller.get(path, "read a capture's key", step=_CAPTURE_STEP, allows=_ABSENT).value
        if isinstance(found, str) and found:
            return found
    return link_id


_PREFLIGHT = "preflight"

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
            step=_PREFLIGHT,
            hint="Stop other labs, or give the night fewer nodes; 'flashferry nightly reap' removes what nights left",
        )
    return free


def _enough_memory(controller: Controller, needs: TopologyNeeds) -> int | None:
    """Return the free memory in bytes; None: unknown."""
    free, needed = _memory_free(controller), _memory_needed(controller, needs)
    if free is not None and needed is not None and free < needed:
        raise NoCapacity(
            f"expected {needed // _MIB:,} MiB of free memory, found {free // _MIB:,} MiB",
            step=_PREFLIGHT,
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
    return Node(controller.get(path, what, step=_PREFLIGHT, allows=allows).value)


def _named(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    return (", ".join(map(sanitize, known[:_MOST_NAMED])) + more) if known else "none"


def _refused(message: str, hint: str) -> NightFault:
    return NightFault(message, fault=Fault.LAB, step=_PREFLIGHT, hint=hint)


_UNDONE_S = 120.0
"""Time limit for removing a lab that was imported but did not start."""


class CmlBackend:
    """Start and remove labs on a controller. Logs in with the first request; close it in the end.

    Nothing waits, except for the end of a lab: nights poll. Every method raises `NightFault` with `Fault.LAB` if the
    controller refuses or does not answer; single transport errors, such as a 502 page, are retried.

    Args:
        access: The controller and its login.
        clock: Waits between retries.
        poll_s: Interval between polls of a lab that is being removed.
    """

    name = "cml"

    def __init__(self, access: ControllerAccess, *, clock: Clock | None = None, poll_s: float = 1.0) -> None:
        self.access = access
        self._clock, self._poll_s = clock, poll_s
        self._controller: Controller | None = None
        self._parts: dict[str, LabParts] = {}

    def __enter__(self) -> CmlBackend:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Log out of the controller."""
        self.close()

    def preflight(self, topology: Topology) -> Preflight:
        """Check whether the lab can start; changes nothing.

        Raises:
            ConfigInvalid: The topology is invalid, or the extra `cml` is missing.
            NoCapacity: Other labs fill the controller.
        """
        return preflight(self.controller("preflight"), topology)

    def up(self, topology: Topology, *, notes: str, deadline: Deadline) -> RunningLab:
        """Import and start a lab; returns before its nodes have booted.

        The notes are on the lab before its first node starts, because no night removes a lab without notes. If the
        start fails, the lab is removed, or else found by title later.

        Raises:
            ConfigInvalid: The topology is invalid.
        """
        controller = self.controller(IMPORT)
        lab_id = import_lab(controller, topology, notes=notes, deadline=deadline)
        lab = RunningLab(lab_id=lab_id, title=topology.title)
        try:
            self._parts[lab_id] = lab_parts(controller, lab_id, step=IMPORT)
            start_lab(controller, lab_id, deadline=deadline)
        except NightFault:
            with suppress(NightFault):
                self.down(lab, deadline=Deadline.after(_UNDONE_S, deadline.clock))
            raise
        return lab

    def nodes(self, lab: RunningLab) -> tuple[LabNode, ...]:
        """Return the lab's nodes in their current state."""
        controller = self.controller(START)
        return nodes_now(controller, lab.lab_id, self._known(controller, lab))

    def condition(self, lab: RunningLab, link: PlannedLink) -> LinkCondition:
        """Set a link's condition and return the one in force, at most ten seconds later."""
        controller = self.controller(CONDITION)
        return set_condition(controller, lab.lab_id, self._known(controller, lab), link)

    def console_log(self, lab: RunningLab, node: LabNode) -> str:
        """Return a node's console output, secrets masked; empty if none is kept."""
        return without_secrets(console_log(self.controller(ARTEFACTS), lab.lab_id, node.node_id))

    def artefacts(self, lab: RunningLab) -> Mapping[str, bytes]:
        """Return topology, events and request trace by file name; `missing.txt` lists what failed."""
        controller = self.controller(ARTEFACTS)
        makers: dict[str, Callable[[], str]] = {
            "lab.yaml": lambda: nobodys(without_secrets(download(controller, lab.lab_id))),
            "lab-events.json": lambda: masked(json.dumps(events(controller, lab.lab_id), indent=1)) + "\n",
            "controller-trace.jsonl": controller.trace.text,
        }
        found, missing = {}, []
        for name, make in makers.items():
            try:
                found[name] = make().encode("utf-8", "replace")
            except NightFault as error:
                missing.append(f"{name}: {error}\n")
        return found | ({"missing.txt": "".join(missing).encode("utf-8", "replace")} if missing else {})

    def down(self, lab: RunningLab, *, deadline: Deadline) -> None:
        """Stop, wipe and remove a lab, and return once it is gone; a missing lab is no error.

        Raises:
            NightFault: `CLEANUP`: it still exists, or the controller does not answer.
        """
        try:
            controller = self.controller(STEP, connect_s=deadline.left_s)
        except NightFault as error:
            raise left(f"whether lab {lab.title} is still there cannot be asked", said=error.message) from None
        take_down(controller, lab, deadline=deadline, poll_s=self._poll_s)
        self._parts.pop(lab.lab_id, None)

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return the labs whose title has our prefix, of any state and owner."""
        return leftovers(self.controller(REAP))

    def capture_begin(self, lab: RunningLab, link: PlannedLink) -> None:
        """Start to capture a link's packets, at most 15 minutes and 100,000 packets."""
        controller = self.controller(_CAPTURE_STEP)
        link_id = id_of_link(self._known(controller, lab), link, step=_CAPTURE_STEP)
        start_capture(controller, lab.lab_id, link_id)

    def capture_end(self, lab: RunningLab, link: PlannedLink) -> bytes:
        """Stop a capture and return its pcap file."""
        controller = self.controller(_CAPTURE_STEP)
        link_id = id_of_link(self._known(controller, lab), link, step=_CAPTURE_STEP)
        return stop_capture(controller, lab.lab_id, link_id)

    def has_image(self, image: UploadedImage) -> bool:
        """Return whether an image definition exists."""
        return images.has_image(self.controller(images.STEP), image)

    def put_image(self, disk: DiskFile, node_definition: str, *, on_progress: Progress) -> None:
        """Upload a disk image and define it.

        Raises:
            ConfigInvalid: The file cannot be read.
        """
        images.put_image(self.controller(images.STEP), disk, node_definition, on_progress=on_progress)

    def remove_image(self, image: UploadedImage) -> None:
        """Remove an image and its definition; missing ones are no error."""
        images.remove_image(self.controller(STEP), image)

    def controller(self, step: str, *, connect_s: float | None = None) -> Controller:
        """Return the controller, logged in.

        Args:
            step: The step of the night, for errors.
            connect_s: Time limit; None: the default.

        Raises:
            ConfigInvalid: The extra `cml` is missing, or the certificate file is invalid.
        """
        if self._controller is None:
            seconds = CONNECT_S if connect_s is None else connect_s
            self._controller = connect(self.access, step=step, clock=self._clock, connect_s=seconds)
        return self._controller

    def close(self) -> None:
        """Log out of the controller. Idempotent."""
        if self._controller is not None:
            self._controller.close()
            self._controller = None

    def _known(self, controller: Controller, lab: RunningLab) -> LabParts:
        if lab.lab_id not in self._parts:
            self._parts[lab.lab_id] = lab_parts(controller, lab.lab_id, step=START)
        return self._parts[lab.lab_id]

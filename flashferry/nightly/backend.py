"""Define the values exchanged with a lab backend: planned and running nodes, links, images, leftover labs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from flashferry.nightly.deadline import Deadline


class NodeState(StrEnum):
    """The state of a node, in Cisco Modeling Labs' words."""

    DEFINED_ON_CORE = "DEFINED_ON_CORE"
    QUEUED = "QUEUED"
    STARTED = "STARTED"
    BOOTED = "BOOTED"
    DISCONNECTED = "DISCONNECTED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCondition:
    """The condition of a link.

    Attributes:
        bandwidth_kbps: 0 to 10,000,000 kbit/s; 0: unlimited.
        latency_ms: 0 to 10,000.
        jitter_ms: 0 to 10,000.
        loss_percent: 0 to 100.
    """

    bandwidth_kbps: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    loss_percent: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A router of a planned lab.

    Attributes:
        label: Its name in the lab and in the inventory.
        image_definition: The image it boots; None: the node definition's default.
        condition_name: The condition of its link, which is its site.
        address: Its SSH address; None: reported by the backend once it is up.
        platform: In the inventory: `cisco_iosxe`, `cisco_ios`.
        host_name: In its first configuration; None: not given.
        mark: A text that only this lab's first configurations contain; empty for none.
    """

    label: str
    node_definition: str
    image_definition: str | None = None
    condition_name: str
    address: str | None = None
    ssh_port: int = 22
    platform: str
    host_name: str | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLink:
    """A link with a condition, and the labels of the routers reached through it."""

    label: str
    condition_name: str
    condition: LinkCondition
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A planned lab.

    Attributes:
        title: At most 64 characters; the night's ID.
        text: The YAML to import.
        links: The links that have conditions.
    """

    title: str
    # It holds the routers' logins.
    text: str = field(repr=False)
    nodes: tuple[PlannedNode, ...]
    links: tuple[PlannedLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNode:
    """A node of a running lab, as the backend reports it.

    Attributes:
        image_definition: The image it booted; None: not reported.
        addresses: Its IP addresses, best first; empty: unknown.
    """

    node_id: str
    label: str
    node_definition: str
    image_definition: str | None = None
    state: NodeState
    addresses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLab:
    """A lab on the backend."""

    lab_id: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The result of a successful preflight check.

    Attributes:
        controller: Its address, without a login.
        notes: Remarks for the operator.
        nodes_free: How many more nodes can start; None: unknown.
        memory_free_bytes: Free memory; None: unknown.
    """

    controller: str
    version: str
    notes: tuple[str, ...] = ()
    nodes_free: int | None = None
    memory_free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A lab whose title has our prefix.

    Attributes:
        notes: Its notes; the lab is ours only if `flashferry.nightly.lab_notes` can read them.
        state: The lab's state in the backend's word.
    """

    lab_id: str
    title: str
    notes: str
    state: str


Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in total, many times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFile:
    """A disk image on this host, with its SHA-256 in hexadecimal."""

    path: Path
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedImage:
    """An image on the controller: the ID that topologies use, and the name of its file."""

    definition_id: str
    file_name: str


class LabBackend(Protocol):
    """What takes labs up and down. Every method may raise `NightFault`, none anything else that is expected.

    Attributes:
        name: `cml`.
    """

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    def preflight(self, topology: Topology) -> Preflight:
        """Check whether the lab can be taken up, changing nothing; `NoCapacity`: others fill the backend."""
        ...

    def up(self, topology: Topology, *, notes: str, deadline: Deadline) -> RunningLab:
        """Import and start a lab; returns before its nodes have booted.

        The notes are on it before its first node starts: a lab without them is removed by no night. Where it could be
        imported but not started, it is removed again, or else found by `leftovers` under its title.
        """
        ...

    def nodes(self, lab: RunningLab) -> tuple[LabNode, ...]:
        """Return the lab's nodes as they stand now."""
        ...

    def condition(self, lab: RunningLab, link: PlannedLink) -> LinkCondition:
        """Set a link's condition and return it as read back."""
        ...

    def console_log(self, lab: RunningLab, node: LabNode) -> str:
        """Return what a node has said on its console so far; empty where the backend keeps none."""
        ...

    def artefacts(self, lab: RunningLab) -> Mapping[str, bytes]:
        """Return files about the lab that are worth keeping, by name: topology as downloaded, events, trace."""
        ...

    def down(self, lab: RunningLab, *, deadline: Deadline) -> None:
        """Stop, wipe and remove a lab, and return once it is gone; one that is gone already is no error.

        Raises:
            NightFault: With `Fault.CLEANUP`: it is still there.
        """
        ...

    def leftovers(self) -> tuple[Leftover, ...]:
        """Return the labs whose title has our prefix, of whatever state and owner."""
        ...

    def capture_begin(self, lab: RunningLab, link: PlannedLink) -> None:
        """Begin to capture what goes over a link."""
        ...

    def capture_end(self, lab: RunningLab, link: PlannedLink) -> bytes:
        """End a capture and return it: a pcap file."""
        ...

    def image_of(self, disk: DiskFile, node_definition: str) -> UploadedImage:
        """Return what a disk image will be called there; no request is sent."""
        ...

    def has_image(self, image: UploadedImage) -> bool:
        """Return whether nodes can boot it already."""
        ...

    def put_image(self, disk: DiskFile, node_definition: str, *, on_progress: Progress) -> None:
        """Have nodes of a definition boot a disk image."""
        ...

    def remove_image(self, image: UploadedImage) -> None:
        """Take an image away; one that is gone already, or half there, is no error."""
        ...

    def with_image(self, text: str, node_definition: str, image: str | None) -> str:
        """Return a topology whose nodes of a definition boot an image; None: that definition's own."""
        ...

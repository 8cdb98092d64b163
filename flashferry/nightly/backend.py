"""What takes labs up and down, as a night sees it: a protocol of a few methods, and its values.

Cisco Modeling Labs has it in `flashferry.nightly.cml`, tests have one in memory. A backend waits for nothing but the
end of a lab: the flow of the night polls, within its deadlines. What a backend cannot do is the lab's fault, raised as
`NightFault`; a single error of transport, such as a page of 502, it tries again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from flashferry.nightly.deadline import Deadline


class NodeState(StrEnum):
    """Where a node stands, in Cisco Modeling Labs' words."""

    DEFINED_ON_CORE = "DEFINED_ON_CORE"
    QUEUED = "QUEUED"
    STARTED = "STARTED"
    BOOTED = "BOOTED"
    DISCONNECTED = "DISCONNECTED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCondition:
    """What a link does to packets, as it is set on it.

    Attributes:
        bandwidth_kbps: Rate in kbit/s, 0 to 10,000,000; 0: as fast as it goes.
        latency_ms: Delay in whole milliseconds, 0 to 10,000.
        jitter_ms: Variation of the delay in whole milliseconds, 0 to 10,000.
        loss_percent: Share of packets lost, 0 to 100.
    """

    bandwidth_kbps: int = 0
    latency_ms: int = 0
    jitter_ms: int = 0
    loss_percent: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A router that a night wants.

    Attributes:
        label: Its name in the lab and in the inventory.
        node_definition: `cat8000v`, `iosv`, ...
        image_definition: The image it boots; None: the node definition's own.
        condition_name: The condition of the link behind which it is: its site.
        address: Where SSH reaches it; None: the backend knows it once it is up.
        ssh_port: Its port of SSH there.
        platform: As the inventory names it: `cisco_iosxe`, `cisco_ios`.
        host_name: What it calls itself by its first configuration; None: that does not say.
        mark: What stands in its first configuration and in no other lab's; empty for none.
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
    """A link whose condition a night sets.

    Attributes:
        label: Its name in the lab.
        condition_name: The name of its condition.
        condition: What it is to do to packets.
        nodes: Labels of the routers behind it.
    """

    label: str
    condition_name: str
    condition: LinkCondition
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A lab as it is to be taken up.

    Attributes:
        title: At most 64 characters: the night's id.
        text: What the backend imports: YAML.
        nodes: The routers.
        links: The links that have conditions.
    """

    title: str
    # It holds the routers' logins.
    text: str = field(repr=False)
    nodes: tuple[PlannedNode, ...]
    links: tuple[PlannedLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNode:
    """A node of a lab that runs, as the backend reports it.

    Attributes:
        node_id: The backend's name for it.
        label: Its own name.
        node_definition: What it is.
        image_definition: What it booted; None where the backend does not report it.
        state: Where it stands.
        addresses: Its IP addresses, best first; none where the backend sees none.
        tags: Its tags.
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
    """A lab that was taken up: its id and its title."""

    lab_id: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What a look at the backend found, all of it good enough.

    Attributes:
        controller: Its address, without a login.
        version: Its version.
        notes: What a person may want to know.
        nodes_free: How many more nodes may be started; None: not known.
        memory_free_bytes: Memory that no node has; None: not known.
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
        lab_id: The backend's name for it.
        title: Its title.
        notes: Its notes, as they are: ours only if `flashferry.nightly.lab_notes` can read them.
        state: The lab's state in the backend's own word.
    """

    lab_id: str
    title: str
    notes: str
    state: str


Progress = Callable[[int, int], None]
"""Takes bytes done and bytes in all, many times a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFile:
    """A disk image on this host.

    Attributes:
        path: Where it is.
        size_bytes: Its size.
        sha256: Its digest, 64 hexadecimal digits.
    """

    path: Path
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedImage:
    """An image that nodes can boot, or will.

    Attributes:
        definition_id: What topologies name it by.
        file_name: The file on the controller.
    """

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

"""Values exchanged with a lab backend, and the time limits of a night's steps: no wait is without a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

_POLL_S = 0.2


class NightStopped(Exception):
    """The operator stopped the night by SIGINT, SIGTERM or SIGHUP; the clean-up follows."""


class Clock(Protocol):
    """The source of time: the system's, or a test's."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds since some moment; never decreases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that long; a negative time is zero."""
        ...


class SystemClock:
    """The system's clock."""

    def now(self) -> datetime:
        """Return the current time, UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return the seconds of the kernel's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; a negative time is zero."""
        time.sleep(max(0.0, seconds))


class StoppableClock:
    """A clock whose waits end when the operator stops the night, until the clean-up starts."""

    def __init__(self, clock: Clock, is_stopped: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_stopped = is_stopped
        self._is_cleaning = False

    def now(self) -> datetime:
        """Return the current time."""
        return self._clock.now()

    def monotonic_s(self) -> float:
        """Return the seconds of the monotonic clock."""
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            NightStopped: The operator stopped the night.
        """
        ends_at_s = self.monotonic_s() + seconds
        self.check()
        while (left_s := ends_at_s - self.monotonic_s()) > 0:
            self._clock.sleep(min(left_s, _POLL_S))
            self.check()

    def check(self) -> None:
        """Check whether the night was stopped.

        Raises:
            NightStopped: It was.
        """
        if not self._is_cleaning and self._is_stopped():
            raise NightStopped

    def begin_cleaning(self) -> None:
        """Ignore stop requests from now on."""
        self._is_cleaning = True


class Deadline(Struct, frozen=True, kw_only=True):
    """A moment on a clock's monotonic count by which something must end."""

    ends_at_s: float
    clock: Clock = msgspec.field(default_factory=SystemClock)

    @classmethod
    def after(cls, seconds: float, clock: Clock | None = None) -> Deadline:
        """Return the deadline a number of seconds from now."""
        of = clock if clock is not None else SystemClock()
        return cls(ends_at_s=of.monotonic_s() + seconds, clock=of)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.ends_at_s - self.clock.monotonic_s())

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left_s <= 0

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and one a number of seconds from now."""
        return Deadline(ends_at_s=min(self.ends_at_s, self.clock.monotonic_s() + seconds), clock=self.clock)

    def pause(self, seconds: float) -> bool:
        """Wait, but not beyond the deadline; return whether time is left."""
        self.clock.sleep(min(seconds, self.left_s))
        return not self.is_over


class NodeState(StrEnum):
    """The state of a node, in Cisco Modeling Labs' words."""

    DEFINED_ON_CORE = "DEFINED_ON_CORE"
    QUEUED = "QUEUED"
    STARTED = "STARTED"
    BOOTED = "BOOTED"
    DISCONNECTED = "DISCONNECTED"
    STOPPED = "STOPPED"


class LinkCondition(Struct, frozen=True, kw_only=True):
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


class PlannedNode(Struct, frozen=True, kw_only=True):
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


class PlannedLink(Struct, frozen=True, kw_only=True):
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


class LabNode(Struct, frozen=True, kw_only=True):
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


class RunningLab(Struct, frozen=True, kw_only=True):
    """A lab on the backend."""

    lab_id: str
    title: str


class Preflight(Struct, frozen=True, kw_only=True):
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


class Leftover(Struct, frozen=True, kw_only=True):
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


class DiskFile(Struct, frozen=True, kw_only=True):
    """A disk image on this host, with its SHA-256 in hexadecimal."""

    path: Path
    size_bytes: int
    sha256: str


class UploadedImage(Struct, frozen=True, kw_only=True):
    """An image on the controller: the ID that topologies use, and the name of its file."""

    definition_id: str
    file_name: str

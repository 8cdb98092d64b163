"""One node's life: QUEUED, STARTED, BOOTED, then STOPPED again, in a thread of its own."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.lab.capability_levels import Rung
from flashferry.lab.cml.clock_runtime import BootTimes
from flashferry.lab.cml.routers.day0 import DHCP, Day0, configuration_lines, first_lines, last_lines, read_day0
from flashferry.lab.cml.routers.kinds import CONNECTOR, SWITCH, Kind, kind_of
from flashferry.lab.cml.runtime import NodePlan, NodeState, NodeView
from flashferry.lab.control import ask
from flashferry.lab.errors import LabError
from flashferry.lab.world_spec import Addressing, DeviceAccess, DeviceSpec, Site, SiteSpec, WorldSpec
from flashferry.lab.world_start import WorldBase, control_socket, start_helpers

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.lab.link import LinkProfile

_SITE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResources:
    """What the routers of one controller share.

    Attributes:
        directory: Private; each that runs has a folder below it.
        core_pid: A process in the core namespace.
        times: How long booting takes.
        take_address: Claims an address, or hands out a free one for `DHCP`; raises LabError where it is taken.
        free_address: Gives one back.
        seed: Seeds the links' losses.
    """

    directory: Path
    core_pid: int
    times: BootTimes
    take_address: Callable[[str], str]
    free_address: Callable[[str], None]
    seed: int


class Node:
    """A node of a lab that was started at least once.

    Args:
        plan: What it is.
        resources: What it shares with the others.
        place: Its number within the lab; the later, the longer it is queued.
        number: That of its link's interface in the core, unique there.
        profile_by: Returns what its link does, for an interface of it; None where no way leads outside.
    """

    def __init__(
        self,
        plan: NodePlan,
        resources: HostResources,
        *,
        place: int,
        number: int,
        profile_by: Callable[[str], LinkProfile | None],
    ) -> None:
        self.plan = plan
        self._resources = resources
        self._place = place
        self._number = number
        self._profile_by = profile_by
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = NodeState.DEFINED_ON_CORE
        self._console: list[str] = []
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._interface = ""
        self._link_control: Path | None = None
        self._profile: LinkProfile | None = None
        self._last_lines: list[str] = []

    @property
    def is_running(self) -> bool:
        """Whether it is started, booted or not yet ended."""
        with self._lock:
            return self._state.is_running

    @property
    def core_interface(self) -> str | None:
        """Its link's end in the core while the link is up."""
        return f"wan{self._number}" if self._link_control is not None else None

    def view(self) -> NodeView:
        """Return what is to be seen of it."""
        with self._lock:
            addresses = dict(self._addresses) if self._state is NodeState.BOOTED else {}
            console = "".join(f"{line}\n" for line in self._console)
            return NodeView(state=self._state, addresses=addresses, console=console)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.is_running:
            return
        self.join()
        self._over = threading.Event()
        self._become(NodeState.QUEUED)
        with self._lock:
            self._console.clear()
        self._thread = threading.Thread(target=self._live, name=f"node-{self.plan.label}")
        self._thread.start()

    def stop(self) -> None:
        """Order it to end; it is STOPPED when its processes are gone."""
        self._over.set()

    def join(self) -> None:
        """Wait until it has ended, after `stop`."""
        if self._thread is not None:
            self._thread.join()

    def wipe(self) -> None:
        """Forget that it ever ran."""
        if not self.is_running:
            self._become(NodeState.DEFINED_ON_CORE)

    def follow_link(self) -> None:
        """Have its link do what it is to do by now. Raises LabError: the link does not take it."""
        with self._lock:
            if self._link_control is None or (requested := self._profile_by(self._interface)) in {None, self._profile}:
                return
            assert requested is not None
            direction = requested.to_site
            changes = {name: getattr(direction, name) for name in ("rate_bps", "delay_s", "jitter_s", "loss_ratio")}
            ask(self._link_control, {"do": "set", "changes": changes | {"queue_packets": direction.queue_packets}})
            self._profile = requested

    def _become(self, state: NodeState) -> None:
        with self._lock:
            self._state = state

    def _say(self, lines: list[str]) -> None:
        with self._lock:
            self._console += lines

    def _live(self) -> None:
        """Boot, stay up, end."""
        try:
            with contextlib.ExitStack() as stack:
                try:
                    self._boot(stack)
                except (LabError, OSError) as error:
                    self._say([f"stand-in: {self.plan.label} does not run: {error}"])
                    self._become(NodeState.DISCONNECTED)
                self._over.wait()
                with self._lock:
                    self._addresses, self._link_control, self._profile = {}, None, None
        finally:
            self._become(NodeState.STOPPED)

    def _boot(self, stack: contextlib.ExitStack) -> None:
        times, kind = self._resources.times, kind_of(self.plan.node_definition)
        if self.plan.node_definition in {CONNECTOR, SWITCH}:
            self._become(NodeState.BOOTED)
            return
        if self._over.wait(times.queued_s + self._place * times.stagger_s):
            return
        ready_at = time.monotonic() + times.started_s
        self._become(NodeState.STARTED)
        if kind is None:
            self._say([f"stand-in: nothing here plays {self.plan.node_definition}; it is but a clock"])
        else:
            self._come_up(stack, kind)
        if not self._over.wait(max(0.0, ready_at - time.monotonic())):
            if kind is not None:
                self._say(self._last_lines)
            self._become(NodeState.BOOTED)

    def _come_up(self, stack: contextlib.ExitStack, kind: Kind) -> None:
        self._say(first_lines(self.plan.node_definition, self.plan.image_definition, kind))
        day0 = read_day0(self.plan.day0, kind)
        self._last_lines = [*configuration_lines(day0, kind), *last_lines(day0)]
        found = next(((name, at) for name, at in day0.addresses.items() if self._profile_by(name) is not None), None)
        if found is None:
            self._last_lines.append("stand-in: no interface with an address has a way outside; nothing reaches it")
            return
        interface, requested = found
        address = self._resources.take_address(requested)
        stack.callback(self._resources.free_address, address)
        if not day0.why_no_ssh:
            self._run(stack, kind, day0, interface, address)
        if requested == DHCP:
            self._say([f"stand-in: DHCP gave {interface} {address}"])
        with self._lock:
            self._addresses = {interface: (address,)}

    def _run(self, stack: contextlib.ExitStack, kind: Kind, day0: Day0, interface: str, address: str) -> None:
        """Start its stand-in and its link."""
        profile = self._profile_by(interface)
        assert profile is not None
        directory = Path(tempfile.mkdtemp(prefix="node-", dir=self._resources.directory))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        device = DeviceSpec(
            name=day0.hostname, platform=kind.platform, address=address, username="", password="", enable_secret="",
            config_lines=day0.configuration(interface, address),
        )  # fmt: skip
        access = DeviceAccess(
            name=device.name, address=address, username="", password="", enable_secret="", platform=kind.platform
        )
        site = Site(name=_SITE, network=f"{address}/32", profile=profile, devices=(access,))
        base = WorldBase(
            spec=WorldSpec(
                sites=(SiteSpec(name=_SITE, profile=profile, devices=(device,)),),
                seed=self._resources.seed + self._number,
            ),
            sites=(site,),
            rung=Rung.FULL,
            addressing=Addressing(),
            directory=directory,
            core_pid=self._resources.core_pid,
            first_interface=self._number,
        )
        start_helpers(stack, base)
        with self._lock:
            self._interface, self._profile = interface, profile
            self._link_control = control_socket(directory, "link", 0)
        self.follow_link()  # it may have been changed while it booted

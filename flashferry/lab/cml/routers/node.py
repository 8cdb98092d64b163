"""Which stand-in plays which node: node definitions and images of a controller, and platforms of the lab.

Short, for it is one table, all of a router is in it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

from flashferry.lab.capability_levels import Rung
from flashferry.lab.cml.runtime import BootTimes, Condition, LabPlan, NodePlan, NodeState, NodeView
from flashferry.lab.errors import LabError
from flashferry.lab.link import DirectionProfile, LinkProfile
from flashferry.lab.standin.config_session import ConfigSession
from flashferry.lab.standin.configuration import interface_lines
from flashferry.lab.standin.device import Device, DeviceSettings
from flashferry.lab.standin.hardware import software_lines
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.state import ask
from flashferry.lab.world_spec import Addressing, DeviceAccess, DeviceSpec, Site, SiteSpec, WorldSpec
from flashferry.lab.world_start import WorldBase, control_socket, start_helpers

_XE_FILE, _IOS_FILE = "bootflash:/iosxe_config.txt", "ios_config.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What plays a node definition.

    Attributes:
        platform: Name of the platform's data file.
        day0_file: As the console names the first configuration.
        has_cvac: The first configuration is applied by CVAC, which prints on the console what it could not apply; else
            by the parser, as a startup configuration. CVAC on iosv: third-party notes of labs on a real controller.
        makes_key: It makes its RSA key itself; else `crypto key generate rsa` in the first configuration does.
            Assumed: public labs of iosv and IOL carry that line, those of C8000V run with and without it.
        asks_first: It offers the initial configuration dialogue before it has read any configuration.
    """

    platform: str
    day0_file: str
    has_cvac: bool
    makes_key: bool
    asks_first: bool = False


_KINDS = {
    "cat8000v": Kind(platform="c8000v-17.15", day0_file=_XE_FILE, has_cvac=True, makes_key=True, asks_first=True),
    "csr1000v": Kind(platform="csr1000v-16.11", day0_file=_XE_FILE, has_cvac=True, makes_key=True),
    "iosv": Kind(platform="iosv-15.8", day0_file=_IOS_FILE, has_cvac=True, makes_key=False),
    "iol-xe": Kind(platform="iol-17.15", day0_file=_IOS_FILE, has_cvac=False, makes_key=False),
}

_IMAGES = {"csr1000v-161101b": "csr1000v-16.11", "iosv-158-3": "iosv-15.8", "iol-xe-17-15-01": "iol-17.15"}
"""Image definitions whose release a platform of the lab has."""

CONNECTOR, SWITCH = "external_connector", "unmanaged_switch"
"""Nodes that boot nothing."""


def kind_of(node_definition: str) -> Kind | None:
    """Return what plays a node definition; None where the lab has nothing that could."""
    return _KINDS.get(node_definition)


def is_release_of(kind: Kind, image_definition: str | None) -> bool:
    """Whether the stand-in is of the release that an image definition names; the definition's own image: yes."""
    return image_definition is None or _IMAGES.get(image_definition) == kind.platform


DHCP = "dhcp"
"""In place of an address."""

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 -- stands where the platform's own configuration wants an address
_NOT_TYPED = ("Building configuration", "Current configuration", "Last configuration change")
_KEY = "crypto key generate rsa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day0:
    """What a first configuration comes to.

    Attributes:
        hostname: The name that it gives; `Router` without one.
        lines: Those that the device took, sections indented; addresses by DHCP are not among them.
        refused: Those that it did not, as they were written.
        addresses: By interface that is not shut: its address, or `DHCP`.
        unaddressed: An interface that has an address in the platform's own configuration and got none by this one.
        why_no_ssh: What SSH lacks; empty where it lets in.
    """

    hostname: str
    lines: tuple[str, ...]
    refused: tuple[str, ...]
    addresses: dict[str, str]
    unaddressed: str | None
    why_no_ssh: str

    def configuration(self, interface: str, address: str) -> tuple[str, ...]:
        """Return all lines of a device that is reached by an interface with an address."""
        lines = self.lines
        if self.unaddressed is not None and self.unaddressed != interface:
            lines = (f"interface {self.unaddressed}", " no ip address", *lines)
        if self.addresses.get(interface) == DHCP:
            lines = (*lines, f"interface {interface}", f" ip address {address} 255.255.255.0")
        return lines


def read_day0(text: str, kind: Kind) -> Day0:
    """Return what a first configuration comes to on the stand-in that plays a node."""
    with TemporaryDirectory(prefix="cml-standin-day0-") as folder:
        settings = DeviceSettings(name="Router", address=_NO_ADDRESS, username="", password="", enable_secret="")
        device = Device(load_platform(kind.platform), settings, Path(folder, "flash"))
        return _Reader(device, kind).read(text)


class _Reader:
    """Types a text into a fresh device, line by line."""

    def __init__(self, device: Device, kind: Kind) -> None:
        self._device = device
        self._session = ConfigSession(device)
        self._lines: list[str] = []
        self._refused: list[str] = []
        self._by_dhcp: list[str] = []
        self._has_key = kind.makes_key

    def read(self, text: str) -> Day0:
        for row in text.replace("\r", "").split("\n"):
            line = row.strip()
            if line == "end" and not self._session.in_banner:
                break
            if self._session.in_banner or (line and not line.startswith(("!", *_NOT_TYPED))):
                self._take(line)
        sections = interface_lines(self._device.running)
        addresses = {
            each.interface: each.address or ""
            for each in sections
            if not each.is_shut and each.address not in {None, _NO_ADDRESS}
        }
        without = [each.interface for each in sections if each.address == _NO_ADDRESS]
        return Day0(
            hostname=self._device.hostname,
            lines=tuple(self._lines),
            refused=tuple(self._refused),
            addresses=addresses | dict.fromkeys(self._by_dhcp, DHCP),
            unaddressed=without[0] if without else None,
            why_no_ssh=self._why_no_ssh(),
        )

    def _take(self, line: str) -> None:
        session, section, mode = self._session, self._session.section, self._session.mode
        if line == "exit":
            session.leave_section()
        elif line.startswith(_KEY):
            self._has_key = True
        elif mode == "config-if" and line == "ip address dhcp":
            self._by_dhcp.append(section.removeprefix("interface "))
        elif not isinstance(session.take(line), str):
            self._refused.append(line)
        else:
            self._lines.append(" " * session.depth_of_last + line)

    def _why_no_ssh(self) -> str:
        if not any(line.startswith("username ") for line in self._lines):
            return "no line 'username'"
        if not any(line.startswith("ip domain name ") for line in self._lines):
            return "no line 'ip domain name'"
        inputs = [line.split()[2:] for line in self._lines if line.startswith(" transport input ")]
        if inputs and not any({"ssh", "all"} & set(words) for words in inputs):
            return "'transport input' without ssh"
        return "" if self._has_key else f"no line '{_KEY}'"


def first_lines(node_definition: str, image_definition: str | None, kind: Kind) -> list[str]:
    """Return what is said before any configuration is read."""
    lines = [f"stand-in: {node_definition} is played by {kind.platform}"]
    if not is_release_of(kind, image_definition):
        lines.append(f"stand-in: there is no release {image_definition} here")
    lines += software_lines(load_platform(kind.platform).texts["version"]).splitlines()
    if kind.asks_first:
        lines.append("Would you like to enter the initial configuration dialog? [yes/no]: ")
    return lines


def configuration_lines(day0: Day0, kind: Kind) -> list[str]:
    """Return what is said about the first configuration."""
    lines: list[str] = []
    for refused in day0.refused:
        if kind.has_cvac:
            lines.append(f"%CVAC-4-CLI_FAILURE: Configuration command failure: '{refused}' was rejected")
        else:
            lines += [refused, " ^", "% Invalid input detected at '^' marker.", ""]
    if not kind.has_cvac:
        return lines
    if day0.refused:
        count = len(day0.refused)
        why = f"{count} error(s) while applying configs generated from file {kind.day0_file}"
        return [*lines, f"%CVAC-3-CONFIG_ERROR: {why}"]
    applied = "was applied and saved to NVRAM. See bootflash:/cvac.log for more details."
    return [f"%CVAC-4-CONFIG_DONE: Configuration generated from file {kind.day0_file} {applied}"]


def last_lines(day0: Day0) -> list[str]:
    """Return what is said when the router is up."""
    enabled = ["%SSH-5-ENABLED: SSH 2.0 has been enabled"]
    refused = [f"stand-in: SSH refuses every login: {day0.why_no_ssh}"]
    return ["", "Press RETURN to get started!", "", *(refused if day0.why_no_ssh else enabled)]


_BRIDGE = "bridge0"
_UNLIMITED_BPS = 1e9
"""Of a link without a bandwidth: more than a stand-in's TCP makes use of."""

_QUEUE_PACKETS = 1000
"""The default limit of netem (tc-netem(8)), which the controller is taken to use."""


class LatencyCounts(StrEnum):
    """How a link's latency counts; no document of the controller says which it is.

    ONCE: it is the round trip's. EACH_DIRECTION: a packet has it in each direction.
    """

    ONCE = "once"
    EACH_DIRECTION = "each-way"


def path_out(lab: LabPlan, node: NodePlan, interface: str) -> tuple[str, ...] | None:
    """Return the ids of the links from a node's interface to an external connector that is bridged to the outside.

    It leads over links and unmanaged switches: a router does not forward for another here. None: there is no way; NAT
    refuses every login.
    """
    owners = {each.interface_id: one for one in lab.nodes for each in one.interfaces}
    ends = {end: link for link in lab.links for end in link.interface_ids}
    begin = next((each.interface_id for each in node.interfaces if each.label == interface), "")
    paths: list[tuple[str, tuple[str, ...]]] = [(begin, ())]
    seen = {node.node_id}
    while paths:
        end, path = paths.pop(0)
        if (link := ends.get(end)) is None:
            continue
        other = next(each for each in link.interface_ids if each != end)
        there, path = owners[other], (*path, link.link_id)
        if there.node_definition == CONNECTOR and there.bridge == _BRIDGE:
            return path
        if there.node_definition == SWITCH and there.node_id not in seen:
            seen.add(there.node_id)
            paths += [(each.interface_id, path) for each in there.interfaces if each.interface_id != other]
    return None


def profile_of(conditions: Iterable[Condition | None], counts: LatencyCounts) -> LinkProfile:
    """Return what links one behind the other do to packets.

    Bandwidth, jitter and loss are those of each direction. What else a condition may hold (duplicates, reordering,
    ...) is not emulated, but for ``limit``, the packets of a queue.
    """
    held = [each for each in conditions if each is not None and each.is_enabled]
    share = 1e-3 if counts is LatencyCounts.EACH_DIRECTION else 0.5e-3
    delay_s = sum(each.latency_ms for each in held) * share
    queues = [int(each.others["limit"]) for each in held if each.others.get("limit")]
    path = DirectionProfile(
        rate_bps=min((each.bandwidth_kbps * 1e3 for each in held if each.bandwidth_kbps), default=_UNLIMITED_BPS),
        delay_s=delay_s,
        # No packet arrives before it was sent.
        jitter_s=min(delay_s, sum(each.jitter_ms for each in held) * share),
        loss_ratio=round(1 - prod(1 - each.loss_percent / 100 for each in held), 12),
        queue_packets=min(queues, default=_QUEUE_PACKETS),
    )
    return LinkProfile(name="condition", source="a link of a lab on the controller", to_site=path, to_core=path)


_SITE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResources:
    """What the routers of one controller share.

    `directory`: Private; each that runs has a folder below it. `core_pid`: A process in the core namespace.
    `take_address`: Claims an address, or hands out a free one for `DHCP`; raises LabError where it is taken.
    """

    directory: Path
    core_pid: int
    times: BootTimes
    take_address: Callable[[str], str]
    free_address: Callable[[str], None]
    seed: int


class Node:
    """A node of a lab that was started at least once.

    `resources`: What it shares with the others. `place`: Its number within the lab; the later, the longer it is queued.
    `number`: That of its link's interface in the core, unique there. `profile_by`: Returns what its link does, for an
    interface of it; None where no way leads outside.
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

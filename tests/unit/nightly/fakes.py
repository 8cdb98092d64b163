"""A backend, routers and a product in memory, and a clock that is wound by waiting: nights without a lab."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceUnreachable
from flashferry.nightly.backend import (
    LabNode,
    Leftover,
    LinkCondition,
    NodeState,
    PlannedLink,
    PlannedNode,
    Preflight,
    RunningLab,
    Topology,
)
from flashferry.nightly.night import Fault, Night, NightFault, NightLimits, NightSettings, NodeLogin, StepOutcome
from flashferry.nightly.product import ProductRun
from flashferry.nightly.routers import Configurations, Pings, RouterState
from flashferry.nightly.steps import NightParts

WAN = LinkCondition(bandwidth_kbps=50_000, latency_ms=50, loss_percent=0.01)
VERSION = "Cisco IOS XE Software, Version 17.09.04a\nCisco IOS Software, Version 17.9.4a, RELEASE SOFTWARE (fc3)\n"
CONFIGURATION = "version 17.9\nhostname {}\n!\ninterface GigabitEthernet1\n ip address dhcp\n!\nend"
BOOTED_AFTER_S = 60.0


class WoundClock:
    """Time passes by sleeping alone, from 01:00 on."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.slept: list[float] = []
        self.at_second: dict[float, Callable[[], None]] = {}

    def now(self) -> datetime:
        return datetime(2026, 11, 22, 1, 0, tzinfo=UTC) + timedelta(seconds=self.at_s)

    def monotonic_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at_s += max(seconds, 0.001)
        for due in [one for one in self.at_second if one <= self.at_s]:
            self.at_second.pop(due)()


def failed(night: Night) -> list[tuple[str, Fault | None]]:
    """Return the steps of a night that failed, each with whose fault it was."""
    return [(step.name.value, step.fault) for step in night.steps if step.outcome is StepOutcome.FAILED]


def lab_fault(message: str = "502 Bad Gateway", fault: Fault = Fault.LAB) -> NightFault:
    return NightFault(message, fault=fault, step="", hint="Look at the controller")


def two_nodes(title: str) -> Topology:
    """Return a lab of two routers, each behind a link of its own."""
    nodes = tuple(
        PlannedNode(label=name, node_definition="cat8000v", condition_name="wan50", platform="cisco_iosxe")
        for name in ("xe1", "xe2")
    )
    links = tuple(
        PlannedLink(label=f"wan-{node.label}", condition_name="wan50", condition=WAN, nodes=(node.label,))
        for node in nodes
    )
    return Topology(title=title, text="lab: {}", nodes=nodes, links=links)


@dataclass
class FakeBackend:
    """Labs in memory. `fails` has what each method raises, once or always; `states` what a node's state is instead."""

    clock: WoundClock
    fails: dict[str, list[BaseException]] = field(default_factory=dict)
    states: dict[str, NodeState] = field(default_factory=dict)
    labs: dict[str, Leftover] = field(default_factory=dict)
    applied: LinkCondition | None = None
    has_addresses: bool = True
    console: str = "Press RETURN to get started!\n"
    answers_up: bool = True
    calls: list[str] = field(default_factory=list)
    name: str = "cml"
    topology: Topology | None = None
    started_s: float = 0.0

    def _called(self, method: str) -> None:
        self.calls.append(method)
        waiting = self.fails.get(method)
        if waiting:
            raise waiting[0] if len(waiting) == 1 else waiting.pop(0)

    def fail(self, method: str, *errors: BaseException, for_ever: bool = True) -> None:
        """Have a method raise these in turn, the last one for ever; or each once."""
        self.fails[method] = list(errors)
        if not for_ever:
            owner, left = self, list(errors)
            del self.fails[method]
            plain = getattr(self, method)

            def once(*given: object, **named: object) -> object:
                if left:
                    owner.calls.append(method)
                    raise left.pop(0)
                return plain(*given, **named)

            setattr(self, method, once)

    def preflight(self, topology: Topology) -> Preflight:
        self._called("preflight")
        return Preflight(controller="cml.example", version="2.9.0")

    def up(self, topology, *, notes, deadline):
        self._called("up")
        self.topology, self.started_s = topology, self.clock.at_s
        self.labs["lab-1"] = Leftover(lab_id="lab-1", title=topology.title, notes=notes, state="STARTED")
        if not self.answers_up:
            raise lab_fault("the controller did not answer")
        return RunningLab(lab_id="lab-1", title=topology.title)

    def nodes(self, lab):
        self._called("nodes")
        age_s = self.clock.at_s - self.started_s
        usual = NodeState.BOOTED if age_s >= BOOTED_AFTER_S else NodeState.STARTED if age_s > 5 else NodeState.QUEUED
        return tuple(
            LabNode(
                node_id=f"id-{node.label}",
                label=node.label,
                node_definition=node.node_definition,
                state=self.states.get(node.label, usual),
                addresses=(f"198.18.0.{number}",) if self.has_addresses else (),
            )
            for number, node in enumerate(self.topology.nodes, start=11)
        )

    def condition(self, lab, link):
        self._called("condition")
        return self.applied or link.condition

    def console_log(self, lab, node):
        self._called("console_log")
        return self.console

    def artefacts(self, lab):
        self._called("artefacts")
        return {"lab.yaml": b"lab: {}"}

    def down(self, lab, *, deadline):
        self._called("down")
        self.labs.pop(lab.lab_id, None)

    def leftovers(self):
        self._called("leftovers")
        return tuple(self.labs.values())


@dataclass
class FakeRouters:
    """Routers in memory. `fails` has what a method raises by router, for so many calls."""

    silent: dict[str, int] = field(default_factory=dict)
    version: str = VERSION
    throughput_bps: float | None = None
    rtt_ms: float = 100.3
    lost: int = 0
    changed: dict[str, str] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read_state(self, node, address):
        with self._lock:
            if self.silent.get(node.label, 0) > 0:
                self.silent[node.label] -= 1
                raise DeviceUnreachable("no SSH session: connection refused", host=node.label, hint="Look")
        return RouterState(version=self.version, throughput_bps=self.throughput_bps)

    def configurations(self, node, address):
        if node.label in self.unreadable:
            raise DeviceUnreachable("no SSH session: connection refused", host=node.label, hint="Look")
        text = CONFIGURATION.format(node.label).replace(
            " ip address", f" description {node.mark or 'WAN'}\n ip address"
        )
        return Configurations(running=self.changed.get(node.label, text), startup=text)

    def ping(self, node, address, planned):
        return Pings(answers_s=(self.rtt_ms / 1e3,) * (20 - self.lost), sent=20)


def arm(rate: float) -> dict[str, object]:
    return {"steady_bytes_per_s": rate, "duration_s": 5.0, "too_short": "", "verdict": {"kind": "window"}}


def done_device(host: str) -> dict[str, object]:
    seconds = {"seconds_by_step": {"connect": 1.5}}
    return {"host": host, "outcome": "done", "restored": "restored", "transport": "ftp"} | seconds


def probe_device(host: str, untuned: float = 8e3, tuned: float = 80e3) -> dict[str, object]:
    probe = {"as_is": arm(untuned), "tuned": arm(tuned), "worth": {"gain": tuned / untuned}}
    return done_device(host) | {"probe": probe}


def stage_device(host: str) -> dict[str, object]:
    transfer = {"rate_bytes_per_s": 83e3, "duration_s": 3.0, "verdict": {"kind": "cap"}}
    return done_device(host) | {"tune": {"is_marked": True}, "transfer": transfer}


def failed_device(host: str, **changes: object) -> dict[str, object]:
    failure = {"step": "pull", "kind": "CopyFailed", "reason": "the copy broke off", "hint": "Look at the path"}
    return {"host": host, "outcome": "failed", "restored": "restored", "failure": failure} | changes


@dataclass
class FakeProduct:
    """Commands in memory. `answers` has what a command of a name returns instead, `acts` what happens with it."""

    answers: dict[str, ProductRun] = field(default_factory=dict)
    acts: dict[str, Callable[[], None]] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    hosts: tuple[str, ...] = ("xe1", "xe2")
    tuned: float = 80e3

    def run(self, name, verb, options, *, deadline):
        self.commands.append((name, verb, *options))
        self.acts.get(name, lambda: None)()
        deadline.pause(5.0)
        made = [probe_device(one, tuned=self.tuned) if verb == "probe" else stage_device(one) for one in self.hosts]
        document = {"run": {"devices": made}}
        return self.answers.get(name, ProductRun(verb=verb, exit_code=0, document=document))

    def killed(self, name, verb, options, *, deadline):
        self.commands.append((name, verb, *options))
        self.acts.get(name, lambda: None)()
        deadline.pause(2.0)
        return self.answers.get(name, ProductRun(verb=verb, exit_code=-9, run_id=f"run-{name}"))

    def files(self):
        return {"product/stage.json": b"{}"}


@dataclass
class Rig:
    """A night in memory."""

    folder: Path
    clock: WoundClock = field(default_factory=WoundClock)
    routers: FakeRouters = field(default_factory=FakeRouters)
    product: FakeProduct = field(default_factory=FakeProduct)
    written: list = field(default_factory=list)
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.backend = FakeBackend(self.clock)
        image = self.folder / "image.bin"
        image.write_bytes(b"image")
        self.settings = NightSettings(image=image, login=NodeLogin(username="lab", password="secret-of-the-lab"))

    def limit(self, **limits: float) -> None:
        self.settings = replace(self.settings, limits=NightLimits(**limits))

    @property
    def parts(self) -> NightParts:
        return NightParts(
            backend=self.backend,
            topology=two_nodes,
            settings=self.settings,
            folder=self.folder / "nightly",
            write=lambda night, files: self.written.append((night, dict(files))),
            is_stopped=lambda: self.is_stopped,
            clock=self.clock,
            routers=self.routers,
            product=lambda folder, inventory: self.product,
        )

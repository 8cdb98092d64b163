"""A controller by a clock that the tests turn by hand, and topologies for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.cml.access import User
from flashferry.lab.cml.clock_runtime import BootTimes, ClockRuntime
from flashferry.lab.cml.controller import Controller
from flashferry.lab.cml.elements import Lab

TOPOLOGY = """
lab: {title: two routers, description: "", notes: "", version: 0.3.0}
annotations: []
smart_annotations: []
nodes:
- {id: n0, label: mgmt, node_definition: external_connector, x: -400, y: 0,
   configuration: [{name: default, content: System Bridge}],
   interfaces: [{id: i0, label: port, slot: 0, type: physical}]}
- {id: n1, label: lan, node_definition: unmanaged_switch, x: -200, y: 0, interfaces: [
   {id: i0, label: port0, slot: 0, type: physical}, {id: i1, label: port1, slot: 1, type: physical},
   {id: i2, label: port2, slot: 2, type: physical}]}
- {id: n2, label: xe1, node_definition: cat8000v, image_definition: cat8000v-17-16-01a, x: 0, y: 0, tags: [site-a],
   configuration: [{name: iosxe_config.txt, content: "hostname xe1"}, {name: more.txt, content: "more"}],
   interfaces: [{id: i0, label: Loopback0, type: loopback},
                {id: i1, label: GigabitEthernet1, slot: 0, type: physical}]}
- {id: n3, label: xe2, node_definition: csr1000v, image_definition: null, x: 0, y: 99, tags: [],
   configuration: "hostname xe2", interfaces: [{id: i1, label: GigabitEthernet1, slot: 0, type: physical}]}
links:
- {id: l0, n1: n0, i1: i0, n2: n1, i2: i0, label: out}
- {id: l1, n1: n1, i1: i1, n2: n2, i2: i1, label: wan1, conditioning: {bandwidth: 50000, latency: 50, loss: 0.01}}
- {id: l2, n1: n1, i1: i2, n2: n3, i2: i1, label: wan2, conditioning: {}}
"""

ADMIN = User(username="admin", password="standin")
STRANGER = User(username="stranger", password="other", is_admin=False)


@dataclass(slots=True)
class HandClock:
    """Seconds, as the test says."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Desk:
    """A controller, its clock, and a few words for both."""

    controller: Controller
    clock: HandClock
    admin: User = field(default=ADMIN)
    stranger: User = field(default=STRANGER)

    def take(self, text: str = TOPOLOGY, *, user: User = ADMIN, title: str | None = None) -> Lab:
        return self.controller.take(text, user, title=title)

    def start(self, lab: Lab) -> None:
        self.controller.life.start(lab, running=self.controller.counted())

    def states(self, lab: Lab) -> dict[str, str]:
        return {node.label: self.controller.life.state(lab, node).value for node in lab.nodes.values()}

    def set(self, **switches: Any) -> None:
        self.controller.switches.set(**switches)


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still."""
    return HandClock()


@pytest.fixture
def desk(clock: HandClock, tmp_path: Path) -> Desk:
    """A controller whose nodes are queued for a second and boot for ten."""
    runtime = ClockRuntime(BootTimes(queued_s=1, started_s=10, stagger_s=0), clock=clock)
    began = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
    controller = Controller(tmp_path, users=[ADMIN, STRANGER], runtime=runtime, clock=clock, began=began)
    return Desk(controller, clock)

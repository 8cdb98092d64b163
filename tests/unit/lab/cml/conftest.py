"""A controller by a clock that the tests turn by hand, and topologies for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.cml.controller import Controller, User
from flashferry.lab.cml.elements import Lab
from flashferry.lab.cml.runtime import BootTimes, ClockRuntime
from tests.unit.lab.cml.topologies import TWO_ROUTERS

ADMIN = User(username="admin", password="standin")
STRANGER = User(username="stranger", password="other", is_admin=False)


@dataclass(slots=True)
class HandClock:
    """Seconds, as the test says."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Rig:
    """A controller, its clock, and a few words for both."""

    controller: Controller
    clock: HandClock
    admin: User = field(default=ADMIN)
    stranger: User = field(default=STRANGER)

    def take(self, text: str = TWO_ROUTERS, *, user: User = ADMIN, title: str | None = None) -> Lab:
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
def rig(clock: HandClock, tmp_path: Path) -> Rig:
    """A controller whose nodes are queued for a second and boot for ten."""
    runtime = ClockRuntime(BootTimes(queued_s=1, started_s=10, stagger_s=0), clock=clock)
    began = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
    controller = Controller(tmp_path, users=[ADMIN, STRANGER], runtime=runtime, clock=clock, began=began)
    return Rig(controller, clock)

"""A clock on which waiting is free, and labs on a stand-in controller: ours, somebody's, and a stranger's."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gethostname
from typing import Any

import httpx

from flashferry.lab.cml.standin import PASSWORD, STRANGER, RunningController
from flashferry.nightly.backend import Deadline, LinkCondition, PlannedLink, RunningLab, Topology
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.lab_notes import LabNotes, new_title
from tests.patience import PATIENCE_S

WAN = LinkCondition(bandwidth_kbps=50_000, latency_ms=50, loss_percent=0.01)
LINK = PlannedLink(label="wan", condition_name="wan50", condition=WAN, nodes=("xe1",))
DAY0_SECRET = "of-the-nodes-themselves"
TEXT = f"""\
lab: {{title: x, description: "", notes: "", version: 0.2.2}}
annotations: []
nodes:
- {{id: n0, label: mgmt, node_definition: external_connector, x: -400, y: 0, configuration: System Bridge,
   interfaces: [{{id: i0, label: port, slot: 0, type: physical}}]}}
- id: n1
  label: xe1
  node_definition: cat8000v
  x: 0
  y: 0
  tags: [berlin]
  configuration: |-
    hostname xe1
    username u privilege 15 secret {DAY0_SECRET}
  interfaces:
  - {{id: i1, label: GigabitEthernet1, slot: 0, type: physical}}
links:
- {{id: l0, n1: n0, i1: i0, n2: n1, i2: i1, label: wan}}
"""
LONG_S = 20 * PATIENCE_S
"""On a clock where waiting is free, a limit for what must come."""

NEVER_S = 86_400.0
"""How late is later than anybody waits for."""


class FleetingClock:
    """Waiting is free: time passes by what is waited for, and as it does for all else."""

    def __init__(self) -> None:
        self._slept_s, self._since_s, self._speed = 0.0, time.monotonic(), 1.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return (time.monotonic() - self._since_s) * self._speed + self._slept_s

    def hurry(self, speed: float) -> None:
        """Go so many times as fast from now on."""
        self._slept_s = self.monotonic_s()
        self._since_s, self._speed = time.monotonic(), speed

    def sleep(self, seconds: float) -> None:
        self._slept_s += max(seconds, 0.001)


CLOCK = FleetingClock()
"""Of the stand-in controller and of its clients."""


def within(seconds: float = LONG_S) -> Deadline:
    return Deadline.after(seconds, CLOCK)


def topology(title: str | None = None) -> Topology:
    return Topology(title=title or new_title(datetime.now(UTC)), text=TEXT, nodes=(), links=(LINK,))


def notes(title: str, *, pid: int | None = None, host: str | None = None, hours: float = 2) -> str:
    """Return what a night writes on its lab; without a process, one that lives."""
    expires = (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
    return LabNotes(run=title, host=host or gethostname(), pid=pid or os.getpid(), expires=expires).text()


def access(standin: RunningController, **more: Any) -> ControllerAccess:
    """Return a login that is out of patience soon."""
    given: dict[str, Any] = {
        "url": standin.url,
        "username": standin.username,
        "password": standin.password,
        "ca_file": standin.ca_file,
        "timeout_s": PATIENCE_S,
        "retry_s": 6.0,
    }
    return ControllerAccess(**given | more)


def write_night(
    folder: Path, standin: RunningController, *, node: dict[str, Any] | None = None, **changes: dict[str, Any]
) -> Path:
    """Write the description of a night with one router on a stand-in controller, and its image beside it.

    Args:
        folder: Where.
        standin: The controller.
        node: What else is said of the router; a csr1000v without.
        changes: Further keys by section.
    """
    content: dict[str, dict[str, Any]] = {
        "controller": {"url": standin.url, "ca_file": str(standin.ca_file)},
        "topology": {
            "sites": [
                {
                    "name": "branch",
                    "condition": {"latency_ms": 50},
                    "nodes": [{"node_definition": "csr1000v"} | (node or {})],
                }
            ]
        },
        "night": {"image": "image.bin"},
        "artefacts": {"folder": "nights"},
    }
    for section, keys in changes.items():
        content[section] = content.get(section, {}) | keys
    (folder / "image.bin").write_bytes(b"image")
    path = folder / "nightly.yaml"
    path.write_text(json.dumps(content))
    return path


def up(backend: CmlBackend, **more: Any) -> RunningLab:
    """Take up a lab of a night that runs, or of another one."""
    made = topology()
    return backend.up(made, notes=notes(made.title, **more), deadline=within())


def as_stranger(standin: RunningController, title: str = "a stranger's own") -> str:
    """Have somebody else import and start a lab; return its id."""
    with httpx.Client(
        base_url=f"{standin.url}/api/v0/", verify=access(standin).trust(), trust_env=False, timeout=PATIENCE_S
    ) as client:
        token = client.post("authenticate", json={"username": STRANGER, "password": PASSWORD}).json()
        client.headers["Authorization"] = f"Bearer {token}"
        lab_id: str = client.post("import", params={"title": title}, content=TEXT).json()["id"]
        client.put(f"labs/{lab_id}/start").raise_for_status()
    return lab_id


def state(standin: RunningController, lab_id: str) -> str | None:
    """Return a lab's state as the controller has it, or None where it has none."""
    with standin.controller.lock:
        for lab in standin.controller.labs():
            if lab.lab_id == lab_id:
                return str(standin.controller.life.lab_state(lab))
    return None

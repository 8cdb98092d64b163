"""A centre as a command, agents of a play, and a real Redis between them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sites_agents import Conduct, SimulatedAgent
from benchmarks.sites_broker import RedisServer, redis_server
from flashferry.lab.broker import missing_broker
from flashferry.model.fleet_plan import PlannedDevice
from flashferry.model.plan_file import save_plan
from flashferry.model.waves import WavePolicy
from flashferry.sites.broker_settings import BrokerSettings
from flashferry.sites.centre.overview import RunOverview, run_overview
from flashferry.sites.centre.plans import run_in
from flashferry.sites.keys import PrivateKey
from flashferry.store.sites.database import SitesDatabase
from tests.needs import lacking
from tests.patience import PATIENCE_S, until
from tests.unit.sites.centre.plans import plan


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    if reason := missing_broker():
        lacking(reason)
    folder = tmp_path / "redis"
    folder.mkdir()
    with redis_server(folder) as server:
        yield server


@dataclass
class Centre:
    """A centre's folder: settings, plans, agents, and commands typed there."""

    folder: Path
    redis: RedisServer
    keys: dict[str, PrivateKey] = field(default_factory=dict)
    agents: list[SimulatedAgent] = field(default_factory=list)
    commands: list[subprocess.Popen[str]] = field(default_factory=list)
    centre_key: PrivateKey = field(default_factory=PrivateKey.make)
    answer_s: float = 15.0

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def agent(self, name: str, *sites: str, conduct: Conduct | None = None) -> SimulatedAgent:
        """Start an agent of some sites."""
        key = self.keys.setdefault(sites[0], PrivateKey.make())
        self.keys.update(dict.fromkeys(sites, key))
        broker = BrokerSettings(url=self.redis.url)
        made = SimulatedAgent(name, sites, key, self.centre_key.public, broker, conduct)
        made.start()
        self.agents.append(made)
        return made

    def settings(self, *more: str) -> Path:
        """Write the settings for the sites of all agents and some more; return their file."""
        (self.folder / "plans").mkdir(exist_ok=True)
        if not (self.folder / "centre.key").exists():
            self.centre_key.save(self.folder / "centre.key")
        for name in more:
            self.keys.setdefault(name, PrivateKey.make())
        lines = [f'[centre]\nkey = "centre.key"\nplans_folder = "plans"\nanswer_s = {self.answer_s}']
        lines += [f'[broker]\nurl = "{self.redis.url}"']
        lines += [f'[sites.{name}]\nagent_key = "{key.public.line}"' for name, key in self.keys.items()]
        path = self.folder / "sites.toml"
        path.write_text("\n".join(lines))
        return path

    def plan(self, *devices: PlannedDevice, policy: WavePolicy | None = None) -> Path:
        """Write a plan; return its file."""
        path = self.folder / "plan.json"
        save_plan(plan(devices, policy), path)
        return path

    def stage(self, *more: str) -> subprocess.Popen[str]:
        """Type `stage` for the plan."""
        return self.typed("stage", "--plan", str(self.folder / "plan.json"), "--sites", str(self.settings()), *more)

    def typed(self, *words: str) -> subprocess.Popen[str]:
        """Type a command."""
        command = [sys.executable, "-m", "flashferry", *words, "--state-dir", str(self.state), "--json"]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.commands.append(started)
        return started

    def overview(self) -> RunOverview:
        """Return where the latest run stands."""
        ledger = SitesDatabase(self.state)
        return run_overview(ledger, run_in(ledger, "latest"))

    def wait_for_devices(self, outcome: str, least: int) -> None:
        """Wait until so many devices of the latest run came to something."""
        until(
            lambda: sum(part.devices.get(outcome, 0) for part in self._parts()) >= least, f"{least} devices {outcome}"
        )

    def wait_for_parts(self, *states: str) -> None:
        """Wait until all parts of the latest run are in one of some states."""
        until(
            lambda: (parts := self._parts()) and all(part.state in states for part in parts),
            f"all parts {' or '.join(states)}",
        )

    def _parts(self):  # type: ignore[no-untyped-def]
        """Return the parts of the latest run; none before the run is entered."""
        try:
            return self.overview().parts
        except Exception:  # noqa: BLE001 -- the run is not entered yet
            return ()

    def close(self) -> None:
        for command in self.commands:
            if command.poll() is None:
                command.kill()
            command.communicate()
        for agent in self.agents:
            agent.stop()


@pytest.fixture
def centre(tmp_path: Path, redis: RedisServer) -> Iterator[Centre]:
    made = Centre(tmp_path, redis)
    yield made
    made.close()


def ended(command: subprocess.Popen[str], within_s: float = PATIENCE_S) -> tuple[int, Mapping[str, Any], str]:
    """Return a command's exit code, its result, and what it said."""
    out, said = command.communicate(timeout=within_s)
    return command.returncode, json.loads(out) if out.strip() else {}, said


def outcomes(result: Mapping[str, Any]) -> dict[str, str]:
    """Return what became of each device, in the result of a run; a device twice fails."""
    devices = result["run"]["devices"]
    found = {one["host"]: one["outcome"] for one in devices}
    assert len(found) == len(devices)
    return found


def interrupt(command: subprocess.Popen[str]) -> None:
    """Type Ctrl-C."""
    command.send_signal(signal.SIGINT)

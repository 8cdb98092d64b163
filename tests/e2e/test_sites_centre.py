"""A plan given to a site as it is typed: the centre's commands, a real agent and Redis, stand-in routers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry.lab.world import DeviceSpec, Rung, World, WorldSpec, start_world
from flashferry.model.exit_codes import ExitCode
from flashferry.model.plan_file import read_plan
from flashferry.store.status import read_status
from tests.patience import PATIENCE_S, until
from tests.sites_ground import Agents, Centre, redis_in

pytestmark = pytest.mark.soak

DEVICES = ("xe1", "xe2")
IMAGE = "image.bin"


class Ground:
    """Two routers, their site's inventory and agent, and a centre's folder with plan and settings."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.redis = stack.enter_context(redis_in(folder / "redis"))
        specs = tuple(DeviceSpec(name=name) for name in DEVICES)
        self.world: World = stack.enter_context(start_world(WorldSpec(devices=specs), rung=Rung.LOOPBACK))
        self.inventory = folder / "inventory"
        self.inventory.mkdir()
        self._write_inventory()
        # Only the keys of the test's own centre are used: the product's takes its place.
        centre = Centre(self.redis.settings)
        self.agents = Agents(folder / "agent", self.redis, centre, self.inventory)
        self.state = folder / "centre"
        (folder / "centre.key").parent.mkdir(exist_ok=True)
        centre.key.save(folder / "centre.key")
        (folder / "sites.toml").write_text(
            f'[centre]\nkey = "centre.key"\nplans_folder = "agent/catalogue"\n'
            f'[broker]\nurl = "{self.redis.settings.url}"\n[sites.ams]\nagent_key = "{centre.known[0].line}"\n'
        )

    def plan(self, size_bytes: int) -> Path:
        """Put an image into the depot's folder, and return a plan for it."""
        image, made = self.folder / IMAGE, self.folder / "plan.json"
        image.write_bytes(os.urandom(size_bytes))
        (self.agents.catalogue / IMAGE).write_bytes(image.read_bytes())
        words = ("plan", "-i", str(self.inventory), "--image", str(image), "--output", str(made), "--uncapped")
        code, _, said = ended(self.typed(*words))
        assert code == 0, said
        return made

    def typed(self, *words: str) -> subprocess.Popen[str]:
        """Type a command of the centre; it is ended with the test."""
        command = [sys.executable, "-P", "-m", "flashferry", *words, "--state-dir", str(self.state), "--json"]
        process = self._stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        self._stack.callback(process.kill)
        return process

    def stage(self, plan: Path) -> subprocess.Popen[str]:
        """Type `stage`."""
        return self.typed("stage", "--plan", str(plan), "--sites", str(self.folder / "sites.toml"))

    def _write_inventory(self) -> None:
        hosts = {
            one.name: {
                "hostname": one.address,
                "port": one.port,
                "platform": "ios",
                "username": one.username,
                "password": one.password,
                "data": {
                    "enable_secret": one.enable_secret,
                    "site": "ams",
                    "server_address": self.world.server_address,
                },
            }
            for one in self.world.devices
        }
        YAML().dump(hosts, self.inventory / "hosts.yaml")
        self.before = {name: self.configuration(name) for name in DEVICES}

    def configuration(self, name: str) -> str:
        """Return a router's running configuration without its stamps."""
        stamps = ("! Last configuration change at", "! NVRAM config last updated", "Current configuration :")
        lines = self.world.running_config(name).splitlines()
        return "\n".join(line for line in lines if not line.startswith(stamps))

    def has_held_copy(self) -> bool:
        """Return whether a router's copy is held."""
        return any(one.startswith("held: copy") for name in DEVICES for one in self.world.happened(name))

    def check(self, result: dict[str, Any]) -> None:
        """Hold a run against what must have come of it: every device once, done and restored, by one run."""
        found = [(one["host"], one["outcome"], one["restored"]) for one in result["run"]["devices"]]
        assert found == [(name, "done", "restored") for name in DEVICES]
        assert {name: self.configuration(name) for name in DEVICES} == self.before
        size = (self.folder / IMAGE).stat().st_size
        for name in DEVICES:
            assert [one.size_bytes for one in self.world.files(name) if one.name == IMAGE] == [size]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(tmp_path, stack)


def ended(command: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, said = command.communicate(timeout=PATIENCE_S)
    return command.returncode, json.loads(out) if out.strip() else {}, said


def test_a_plan_given_to_a_site_is_staged_there_and_reported_here(ground: Ground) -> None:
    """One canary first, then the other router, by the site's own agent; table, report and overview agree."""
    plan = ground.plan(400_000)
    with ground.agents.started():
        code, result, said = ended(ground.stage(plan))
        assert code == ExitCode.OK, said
        assert "the first devices (canaries) are good: all sites go on" in said
        ground.check(result)
        code, listed, _ = ended(ground.typed("sites", "list", "--sites", str(ground.folder / "sites.toml")))
    (site,) = listed["sites"]
    assert (site["trouble"], site["images"]) == ("", [IMAGE])
    assert len(read_status(ground.agents.state, 9).runs) == 2, "the canary, then the other"
    code, report, _ = ended(ground.typed("sites", "report", "latest"))
    assert [one["outcome"] for one in report["devices"]] == ["done", "done"]
    assert all(one["transfers"] for one in report["devices"])
    code, shown, _ = ended(ground.typed("sites", "show", "latest"))
    assert [(one["state"], one["is_whole"]) for one in shown["run"]["parts"]] == [("ended", True)] * 2
    assert read_plan(plan).digest == shown["run"]["plan_digest"]


def test_centre_and_agent_killed_in_mid_copy_leave_a_whole_run(ground: Ground) -> None:
    """Both killed -9 while a router copies; started again, the run ends whole, each router staged once and restored."""
    plan = ground.plan(400_000)
    for name in DEVICES:
        ground.world.fault(name, hold_copy_at_bytes=100_000)
    with ground.agents.started() as agent:
        centre = ground.stage(plan)
        until(ground.has_held_copy, "a copy that is held")
        centre.kill()
        centre.communicate()
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait()
    for name in DEVICES:
        ground.world.fault(name, hold_copy_at_bytes=None)
    with ground.agents.started():
        code, result, said = ended(
            ground.typed("sites", "follow", "latest", "--sites", str(ground.folder / "sites.toml"))
        )
        assert code == ExitCode.OK, said
        ground.check(result)

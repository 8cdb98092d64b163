"""A run that is killed goes on with `stage --resume`, and nothing that is proven is done twice.

The large version, 40 devices and 50 kills, is `python -m benchmarks.fleet --only kills`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.lab.world import DeviceSpec, SiteSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.store.stored_run import StoredRun, read_run
from tests.e2e.conftest import LARGE_IMAGE_BYTES, Rig
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

SOUTH = ("south-1", "south-2")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Rig]:
    """Four routers at two sites."""
    sites = tuple(
        SiteSpec(
            name=name,
            profile="lan",
            devices=tuple(DeviceSpec(name=f"{name}-{number}") for number in range(1, 3)),
        )
        for name in ("north", "south")
    )
    with start_world(WorldSpec(sites=sites)) as world:
        rig = Rig(world, tmp_path)
        rig.inventory = write_inventory(world, tmp_path / "lab-inventory")
        yield rig


def test_a_run_survives_the_death_of_its_controller_and_of_its_server(fleet: Rig) -> None:
    """Killed with its controller, then with its server, the run ends with all staged once and all as before."""
    image = fleet.image(LARGE_IMAGE_BYTES)
    before = _configurations(fleet.world)
    options = ("--no-canary", "--wave-by", "all", "--site-copies", "1", "--retries", "0", "--remove-partial")
    fleet.hold_copies(*SOUTH)
    with fleet.started("stage", "--inventory", fleet.inventory, "--image", image, *options) as controller:
        assert fleet.until(lambda: _count(fleet, "done") == 2), "the devices of north were not done"
        assert fleet.until(lambda: _holds(fleet) == 1), "no device of south is in its copy"
        controller.kill()
        controller.wait()
    run = read_run(fleet.state, "latest")
    proven = {device.host: device.attempt for device in run.devices if device.record.get("outcome") == "done"}
    resume = ("stage", "--inventory", fleet.inventory, "--resume", run.run_id, "--json")
    with fleet.started(*resume) as controller:
        assert fleet.until(lambda: _holds(fleet) == 2), "no copy began"
        os.kill(_server_of(controller), signal.SIGKILL)
        fleet.release(*SOUTH)
        controller.communicate(timeout=PATIENCE_S)
        assert controller.returncode != 0, "a run that lost its server has failed"
    done = fleet.run(*resume)
    assert done.code == 0, done.err
    run = read_run(fleet.state, run.run_id)
    assert {device.record["outcome"] for device in run.devices} <= {"done", "already there"}
    assert not any(device.is_held for device in run.devices)
    assert {host: attempt for host, attempt in _attempts(run).items() if host in proven} == proven, "done once is done"
    assert _configurations(fleet.world) == before
    wanted = hashlib.sha512(image.read_bytes()).hexdigest()
    assert {_digest(fleet.world, device.name, image.name) for device in fleet.world.devices} == {wanted}


@pytest.mark.soak
def test_a_run_that_nobody_knows_cannot_be_resumed(fleet: Rig) -> None:
    """The sentence names the run that was asked for; nothing is touched."""
    done = fleet.run("stage", "--inventory", fleet.inventory, "--resume", "no-such-run")
    assert done.code == 2
    assert "no-such-run" in done.err


def _configurations(world: World) -> dict[str, tuple[str, ...]]:
    stamps = ("! Last configuration change at", "! NVRAM config last updated")
    return {
        device.name: tuple(
            line
            for text in (world.running_config(device.name), world.startup_config(device.name))
            for line in text.splitlines()
            if not line.startswith(stamps)
        )
        for device in world.devices
    }


def _holds(rig: Rig) -> int:
    """Return how many copies of the south have been held."""
    return sum(len(rig.held(name)) for name in SOUTH)


def _count(rig: Rig, state: str) -> int:
    """Return how many devices of the latest run are in a state."""
    with contextlib.suppress(Exception):
        return sum(device.state == state for device in read_run(rig.state, "latest").devices)
    return 0


def _attempts(run: StoredRun) -> dict[str, int]:
    return {device.host: device.attempt for device in run.devices}


def _server_of(controller: subprocess.Popen[str]) -> int:
    """Return the process id of a controller's FTP server; 0 before there is one: recovery comes first."""
    for path in Path(f"/proc/{controller.pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for word in path.read_text().split():
                if b"flashferry.fileserver.process" in Path(f"/proc/{word}/cmdline").read_bytes():
                    return int(word)
    return 0


def _digest(world: World, device: str, name: str) -> str | None:
    for file in world.files(device):
        if file.name == name:
            return hashlib.sha512(file.path.read_bytes()).hexdigest()
    return None

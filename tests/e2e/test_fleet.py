"""A run over six routers at two sites: waves that stop, pauses, a window that closes, a kill and what follows it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from flashferry.lab.world_spec import SiteSpec, write_inventory
from tests.e2e.conftest import IMAGE_BYTES, Done, Rig, unstamped
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

A, B = ("a1", "a2", "a3"), ("b1", "b2", "b3")


class FleetRig(Rig):
    """Six routers at two sites, with the inventory that a world writes."""

    cap_share: float | None = None

    def write_inventory(self, **changes: Any) -> None:
        """Write it as the world has it."""
        self.inventory.rmdir()
        write_inventory(self.world, self.inventory, cap_share=self.cap_share)

    def everywhere(self) -> dict[str, tuple[str, str]]:
        """Return running and startup configuration of each device, without the stamps."""
        return {
            one.name: (
                unstamped(self.world.running_config(one.name)),
                unstamped(self.world.startup_config(one.name)),
            )
            for one in self.world.devices
        }

    def begun(self, name: str, image: Path) -> bool:
        """Tell whether some of an image is on a device."""
        return any(file.name == image.name and file.size_bytes > 0 for file in self.world.files(name))

    def has(self, name: str, image: Path) -> bool:
        """Tell whether a device has an image to the byte."""
        return any(
            file.name == image.name and file.path.read_bytes() == image.read_bytes() for file in self.world.files(name)
        )


@contextmanager
def open_fleet(folder: Path) -> Iterator[FleetRig]:
    sites = tuple(
        SiteSpec(name=name, profile="lan", devices=tuple(DeviceSpec(name=one) for one in hosts))
        for name, hosts in (("site-a", A), ("site-b", B))
    )
    with start_world(WorldSpec(devices=(), sites=sites)) as world:
        yield FleetRig(world, folder)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetRig]:
    with open_fleet(tmp_path) as opened:
        yield opened


def outcomes(done: Done) -> dict[str, str]:
    return {one["host"]: one["outcome"] for one in done.json["run"]["devices"]}


def test_waves_stop_behind_failures(fleet):
    """Site a fails beyond what is borne: site b is not begun, every device says why, and nothing of it was touched."""
    before = fleet.everywhere()
    for name in A:
        fleet.world.fault(name, flip_byte=True)
    image = fleet.image(500_000)
    done = fleet.verb("stage", "--image", image, "--no-canary", "--max-failures", "1")
    assert done.code == 3
    assert outcomes(done) == dict.fromkeys(A, "failed") | dict.fromkeys(B, "not begun")
    reasons = {one["host"]: one["failure"]["reason"] for one in done.json["run"]["devices"]}
    assert "failed, 1 may" in reasons["b1"]
    assert fleet.everywhere() == before


@pytest.mark.soak
def test_a_killed_run_is_gone_on_with(fleet):
    """Killed in mid-copy, resumed under its name: all staged, all as before, nothing copied without need."""
    before = fleet.everywhere()
    image = fleet.image(IMAGE_BYTES)
    fleet.hold_copies(*B)
    given = ("--inventory", fleet.inventory, "--image", image, "--wave-by", "all", "--remove-partial")
    with fleet.started("stage", *given, "--json") as stage:
        assert fleet.until(lambda: all(fleet.has(name, image) for name in A))
        fleet.until_held(*B)
        os.killpg(stage.pid, signal.SIGKILL)
    fleet.release(*B)
    (run_id,) = (path.stem for path in (fleet.state / "runs").glob("*.lock"))
    done = fleet.run("stage", "--resume", run_id, "--json")
    assert done.code == 0, done.err
    assert done.json["run"]["run_id"] == run_id
    assert set(outcomes(done).values()) <= {"done", "already there"}
    assert all(fleet.has(name, image) for name in (*A, *B))
    assert fleet.everywhere() == before
    assert all(outcomes(done)[name] in {"done", "already there"} for name in A)


@pytest.mark.soak
def test_pause_and_stop_from_another_terminal(fleet):
    """Paused: what runs goes on and nothing new begins. Stopped: all is restored, and the rest can be gone on with."""
    before = fleet.everywhere()
    image = fleet.image(IMAGE_BYTES)
    fleet.hold_copies("a2", "a3")
    given = ("--inventory", fleet.inventory, "--image", image, "--json")
    with fleet.started("stage", *given) as stage:
        fleet.until_held("a2", "a3")
        assert fleet.run("run", "pause", "latest").code == 0
        fleet.release("a2", "a3")
        assert fleet.until(lambda: all(fleet.has(name, image) for name in A))
        assert not any(fleet.begun(name, image) for name in B)
        assert fleet.run("run", "stop", "latest").code == 0
        out, err = stage.communicate(timeout=PATIENCE_S)
    done = Done(code=stage.returncode, out=out, err=err)
    assert done.code == 130, done.err
    assert outcomes(done) == dict.fromkeys(A, "done") | dict.fromkeys(B, "not begun"), done.err
    assert fleet.everywhere() == before


@pytest.mark.soak
def test_the_time_is_over(fleet):
    """What copies when the time ends is ended and restored, what has not begun never begins, and each says why."""
    before = fleet.everywhere()
    image = fleet.image(IMAGE_BYTES)
    fleet.hold_copies(*A, *B)
    # Two minutes are kept to restore.
    until = datetime.now(UTC) + timedelta(seconds=120 + 40)
    done = fleet.verb("stage", "--image", image, "--no-canary", "--until", until.isoformat())
    assert done.code == 6, done.err
    assert outcomes(done) == dict.fromkeys(A, "interrupted") | dict.fromkeys(B, "not begun")
    records = {one["host"]: one for one in done.json["run"]["devices"]}
    assert {one["failure"]["kind"] for one in records.values()} == {"WindowClosed"}
    assert {records[name]["restored"] for name in A} == {"restored"}
    assert fleet.everywhere() == before


@pytest.mark.soak
def test_what_was_out_of_reach_is_tried_again(fleet):
    """A site's link is cut when the run begins and comes back in the pause: its router is staged by the second try."""
    before = fleet.everywhere()
    image, events = fleet.image(300_000), fleet.folder / "events.jsonl"
    fleet.world.set_link("site-a", loss_ratio=1.0)
    given = ("--inventory", fleet.inventory, "--image", image, "--host", "a1", "--host", "b1", "--events", events)
    with fleet.started("stage", *given, "--json") as stage:
        assert fleet.until(lambda: events.is_file() and '"retry"' in events.read_text())
        fleet.world.set_link("site-a", loss_ratio=0.0)
        out, err = stage.communicate(timeout=PATIENCE_S)
    done = Done(code=stage.returncode, out=out, err=err)
    assert done.code == 0, done.err
    attempts = {one["host"]: (one["outcome"], one["attempt"]) for one in done.json["run"]["devices"]}
    assert attempts == {"a1": ("done", 2), "b1": ("done", 1)}
    assert fleet.everywhere() == before


@pytest.mark.soak
def test_the_example_of_the_library_stages_a_fleet(fleet):
    """The script in docs/examples does what its first line says, with an inventory of one's own, in under 20 lines."""
    script = Path(__file__).parents[2] / "docs" / "examples" / "stage_fleet.py"
    assert len(script.read_text().splitlines()) < 20
    image, before = fleet.image(300_000), fleet.everywhere()
    inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(fleet.world.core_pid), "--"]
    done = subprocess.run(
        [*inside, sys.executable, "-P", str(script), str(fleet.inventory), str(image)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=fleet.folder,
        env=os.environ | {"FLASHFERRY_STATE_DIR": str(fleet.state)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [[name, "done", "restored"] for name in (*A, *B)]
    assert all(fleet.has(name, image) for name in (*A, *B))
    assert fleet.everywhere() == before
    assert not (fleet.folder / "nornir.log").exists()


@pytest.mark.soak
def test_a_plan_is_carried_out(fleet):
    """What was planned is done, device by device; one that got the image meanwhile is told, and copied no more."""
    image, plan = fleet.image(300_000), fleet.folder / "plan.json"
    given = ("--inventory", fleet.inventory)
    made = fleet.run("plan", *given, "--image", image, "--no-canary", "--wave-by", "all", "--output", plan)
    assert made.code == 0, made.err
    alone = fleet.run("stage", *given, "--image", image, "--host", "b1", "--json")
    assert alone.code == 0, alone.err
    done = fleet.run("stage", *given, "--plan", plan, "--json")
    assert done.code == 0, done.err
    assert outcomes(done) == dict.fromkeys((*A, "b2", "b3"), "done") | {"b1": "already there"}
    image.write_bytes(b"another one")
    again = fleet.run("stage", *given, "--plan", plan, "--json")
    assert again.code == 2
    assert "it has changed since the plan was made" in again.err

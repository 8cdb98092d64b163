"""The scripts in docs/examples do what their first lines say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.lab.link import DirectionProfile, LinkProfile
from flashferry.lab.world import DeviceSpec, SiteSpec, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from tests.e2e.conftest import Rig
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


_WAY = DirectionProfile(rate_bps=100e6, delay_s=0.005, queue_packets=1000)
FAR = LinkProfile(name="far", source="own choice: 10 ms round trip, 100 Mbit/s", to_site=_WAY, to_core=_WAY)
"""As it is, a router's window is the limit here, by far. On the LAN the limit is a busy machine, for both arms of a
speed test, and a router that gains nothing by it is not tuned."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Two routers at a site 10 ms away."""
    site = SiteSpec(name="north", profile=FAR, devices=(DeviceSpec(name="r1"), DeviceSpec(name="r2")))
    with start_world(WorldSpec(sites=(site,))) as world:
        rig = Rig(world, tmp_path)
        rig.inventory = write_inventory(world, tmp_path / "lab-inventory")
        yield rig


def script(rig: Rig, name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run an example in front of the lab's WAN."""
    inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(rig.world.core_pid), "--"]
    return subprocess.run(
        [*inside, sys.executable, "-P", str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=rig.folder,
        env=os.environ | {"FLASHFERRY_STATE_DIR": str(rig.state)},
    )


def configurations(rig: Rig) -> list[list[str]]:
    """Return both routers' lines but for the stamps of their last change."""
    texts = [rig.world.running_config(name) for name in ("r1", "r2")]
    return [[line for line in text.splitlines() if not line.startswith(("! Last", "! NVRAM"))] for text in texts]


def words(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    return [line.split() for line in done.stdout.splitlines()]


def test_check_stage_and_report(rig: Rig) -> None:
    """A look, a speed test and the copies, and the page of the night, on two routers; all is as it was afterwards."""
    image, before = rig.image(300_000), configurations(rig)
    looked = script(rig, "check.py", rig.inventory, image)
    assert looked.returncode == 0, looked.stderr
    assert [(host, outcome) for host, _, outcome in words(looked)] == [("r1", "done"), ("r2", "done")]
    staged = script(rig, "stage.py", rig.inventory, image)
    assert staged.returncode == 0, staged.stdout + staged.stderr
    assert words(staged)[-2:] == [["r1", "done", "restored"], ["r2", "done", "restored"]]
    assert " r2 device " in staged.stderr
    page = rig.folder / "night.html"
    told = script(rig, "report.py", "latest", page)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert told.returncode in {0, 3}, told.stderr
    again = script(rig, "check.py", rig.inventory, image)
    assert [outcome for _, _, *outcome in words(again)] == [["already", "there"]] * 2
    assert configurations(rig) == before


def test_resume(rig: Rig) -> None:
    """A run that was killed while it copied is gone on with, once its routers are restored."""
    for name in ("r1", "r2"):
        rig.hold_copies(name)
    image, before = rig.image(300_000), configurations(rig)
    options = ("--no-canary", "--wave-by", "all", "--remove-partial")
    with rig.started("stage", "--inventory", rig.inventory, "--image", image, *options) as controller:
        rig.until_held("r1", "r2")
        os.kill(controller.pid, signal.SIGKILL)
        controller.wait()
    rig.release("r1", "r2")
    done = script(rig, "resume.py", rig.inventory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line[3:] for line in words(done)[:2]] == [["r1", "copying"], ["r2", "copying"]]
    assert words(done)[2:] == [["r1", "done", "restored"], ["r2", "done", "restored"]]
    assert configurations(rig) == before


def test_steps_as_nornir_tasks(rig: Rig) -> None:
    """A script's own task checks, tunes and restores two routers by the steps."""
    image, before = rig.image(300_000), configurations(rig)
    done = script(rig, "steps.py", rig.inventory, image)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["r1", "r2"]
    assert all("ip tcp window-size 1000000" in line and line.endswith("; restored") for line in lines), done.stdout
    assert configurations(rig) == before

"""A site with a depot host: staged from there, its WAN link carries nothing, and may as well be cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.lab.world import DepotSpec, DeviceSpec, SiteSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

pytestmark = [pytest.mark.lab, pytest.mark.soak]

SITE, SIZE_BYTES = "branch", 4_000_000


@pytest.fixture
def world() -> Iterator[World]:
    devices = (DeviceSpec(name="r1"), DeviceSpec(name="r2"))
    site = SiteSpec(name=SITE, profile="published", devices=devices, depot=DepotSpec(), lan="lan")
    with start_world(WorldSpec(sites=(site,))) as started:
        yield started


def test_a_site_is_staged_from_its_depot_while_its_link_is_cut(world: World, tmp_path: Path) -> None:
    """Every router holds the image and is as it was; the LAN has carried one copy to each, the WAN link not a byte."""
    image = tmp_path / "image.bin"
    image.write_bytes(os.urandom(SIZE_BYTES))
    inventory = write_inventory(world, tmp_path / "inventory", cap_share=0.98)
    inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.depots[SITE].pid), "--"]
    stage = ["stage", "--inventory", str(inventory), "--image", str(image), "--any-image", "--no-canary", "--json"]
    world.cut(SITE)
    done = subprocess.run(
        [*inside, sys.executable, "-P", "-m", "flashferry", *stage],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
        env=os.environ | {"FLASHFERRY_STATE_DIR": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stderr
    outcomes = {one["host"]: one["restored"] for one in json.loads(done.stdout)["run"]["devices"]}
    assert set(outcomes) == {"r1", "r2"}
    for device in world.devices:
        (found,) = (file for file in world.files(device.name) if file.name == image.name)
        assert found.path.read_bytes() == image.read_bytes()
        assert "ip tcp" not in world.running_config(device.name)
    counters = world.link_counters(SITE)
    assert (counters["to_site"]["offered_bytes"], counters["to_core"]["offered_bytes"]) == (0, 0)
    assert 2 * SIZE_BYTES < world.lan_traffic(SITE).from_depot_bytes < 2.3 * SIZE_BYTES

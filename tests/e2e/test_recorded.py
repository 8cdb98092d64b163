"""A device played from a recording is staged end to end: checked, tuned, fed, verified, restored."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from flashferry.lab.standin.recording import load_recording, nearest_platform

pytestmark = pytest.mark.lab

CAPTURES = Path(__file__).parents[1] / "captures"


def staged(new_rig, recording: Path, platform: str):
    """Stage an image on a device played from a recording; return its running configuration and `show version`."""
    with new_rig(recording=str(recording), platform=platform) as rig:
        image, before = rig.image(300_000), rig.configurations()
        done = rig.verb("stage", "--image", image)
        assert done.code == 0, done.out + done.err
        (device,) = done.json["run"]["devices"]
        assert (device["outcome"], device["restored"]) == ("done", "restored")
        tuned = [change["ours"] for change in device["changes"]]
        assert any(line.startswith("ip tcp window-size ") for line in tuned)
        assert rig.flash_md5("image.bin") == hashlib.md5(image.read_bytes(), usedforsecurity=False).hexdigest()
        assert rig.configurations() == before
        assert "Invalid input" in rig.shown_by_hand("show inventory")
        return before[0], rig.shown_by_hand("show version")


def test_public_captures_of_a_router_are_staged(new_rig, tmp_path):
    """`show version`, `dir` and configuration of real routers, as a capture set, play the device."""
    folder = tmp_path / "recorded"
    texts = {"show_version": "lab/show_version_iosv.txt", "config": "config/as1border1.cfg", "dir": "dir/iosv.txt"}
    for kind, source in texts.items():
        (folder / kind).mkdir(parents=True)
        shutil.copy(CAPTURES / source, folder / kind / "iosv.txt")
    platform = nearest_platform(load_recording(folder), "")
    running, version = staged(new_rig, folder, platform)
    assert "router bgp 1\n" in running
    assert "Processor board ID 991UCMIHG4UAJ1J010CQG" in version


def test_a_transcript_of_ours_is_staged(new_rig, tmp_path):
    """What one run wrote down by `--transcript` plays the device of the next."""
    with new_rig(platform="c8000v-17.15", config_lines=("ip host nms 10.9.9.9",)) as rig:
        done = rig.run(
            "stage", "--inventory", rig.inventory, "--image", rig.image(100_000), "--transcript", tmp_path / "night"
        )
        assert done.code == 0, done.err
    for name in ("inventory", "state"):
        shutil.rmtree(tmp_path / name)
    running, _ = staged(new_rig, tmp_path / "night", "c8000v-17.15")
    assert "ip host nms 10.9.9.9\n" in running

"""A device played from a recording is staged end to end: checked, tuned, fed, verified, restored, activated."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from flashferry.lab.standin.recording import load_recording, nearest_platform
from tests.e2e.test_activate import DEVICE, activated, planned

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


@pytest.mark.soak
def test_a_recorded_device_is_staged_and_activated(new_rig, tmp_path):
    """A night's transcript plays the next night's device: the engine installs, and `show version` names what runs."""
    with new_rig(platform="c8000v-17.15") as rig:
        rig.environment["FLASHFERRY_TRANSCRIPT"] = str(tmp_path / "night")
        recorded = upgraded(rig)
    for name in ("inventory", "state"):
        shutil.rmtree(tmp_path / name)
    with new_rig(recording=str(tmp_path / "night"), platform="c8000v-17.15") as rig:
        before, stock = rig.configurations(), rig.shown_by_hand("show version")
        assert "Version 17.15.01a" in stock
        assert upgraded(rig) == recorded
        shown = rig.shown_by_hand("show version")
        assert "Version 17.18.02" in shown
        assert "17.15" not in shown
        assert "Last reload reason: Image Install" in shown
        assert "Image Install" not in stock
        assert rig.configurations() == before


def upgraded(rig):
    """Stage and activate; return what was reported of it."""
    rig.world.fault(DEVICE, boot_s=1.5, seconds_per_minute=3.0)
    plan, digest = planned(rig)
    done, device = activated(rig, plan, digest)
    assert done.code == 0, (done.err, device["failure"])
    found = device["activation"]
    assert (found["outcome"], found["from_release"], found["to_release"]) == ("committed", "17.15.1a", "17.18.2")
    return found["commands"]

"""A copy whose session is lost: what goes on, what broke off, what is left, and whose it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tasks.run_marker import is_mark
from tests.e2e.conftest import HELD_BYTES, IMAGE_BYTES
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab
DEVICE = "xe1"


def device_of(text: str) -> dict:
    (device,) = json.loads(text)["run"]["devices"]
    return device


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def tuned(device: dict) -> list[dict]:
    """Return what was set to tune, without the mark that says whose the device is."""
    return [change for change in device["changes"] if not is_mark(change["ours"])]


def unmarked(changes: list[dict]) -> list[dict]:
    """Return changes as they are planned: the run has no name yet, and nothing was shown."""
    return [{**one, "shown": None} for one in changes if not is_mark(one["ours"])]


def decisions(device: dict) -> list[str]:
    return [entry["decision"] for entry in device["reconciled"]]


def test_a_copy_that_went_on_without_its_session_is_a_success(held_rig):
    """The vty is gone, the device copies on: the hash proves the file, and the configuration is what it was."""
    rig, before, image = held_rig, held_rig.configurations(), held_rig.image(IMAGE_BYTES)
    rig.world.fault(DEVICE, copy_outlives_session=True)
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", image) as stage:
        rig.until_held()
        rig.world.fault(DEVICE, drop_ssh=True)
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    device = device_of(out)
    assert (stage.returncode, device["outcome"], device["restored"]) == (0, "done", "restored"), err
    assert decisions(device) == ["done"]
    assert device["pull"] is None
    assert device["transfer"]["bytes_acked"] == IMAGE_BYTES
    assert device["verify"]["md5"] == md5(image) == rig.flash_md5("image.bin")
    assert rig.configurations() == before


def test_a_copy_that_broke_off_is_begun_again_once(held_rig):
    """The device deleted the partial file itself: a second copy, tuned like the first, brings the image."""
    rig, before, image = held_rig, held_rig.configurations(), held_rig.image(IMAGE_BYTES)
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", image) as stage:
        rig.until_held()
        rig.world.fault(DEVICE, drop_ssh=True)
        rig.until_held(times=2)
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    device = device_of(out)
    assert (stage.returncode, device["outcome"], device["restored"]) == (0, "done", "restored"), err
    assert decisions(device) == ["copy again"]
    assert device["transfer"]["data_syn"]["window_scale"] is not None
    assert rig.flash_md5("image.bin") == md5(image)
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_second_loss_ends_it(rig):
    """Never a third copy: the failure says what was found, and nothing is left behind."""
    before = rig.configurations()
    rig.world.fault(DEVICE, drop_ssh_after_bytes=HELD_BYTES)
    done = rig.verb("stage", "--image", rig.image(IMAGE_BYTES))
    device = device_of(done.out)
    assert (done.code, device["failure"]["kind"], device["restored"]) == (3, "DeviceUnreachable", "restored")
    assert decisions(device) == ["copy again", "give up"]
    assert "at the second attempt" in device["failure"]["reason"]
    assert device["partial_file"] is None
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_partial_file_is_named_and_kept(rig):
    """Without leave nothing is removed: the copy is not begun again, and path and size are told."""
    before = rig.configurations()
    rig.world.fault(DEVICE, drop_ssh_after_bytes=HELD_BYTES, keeps_partial_file=True)
    done = rig.verb("stage", "--image", rig.image(IMAGE_BYTES))
    device = device_of(done.out)
    assert (done.code, device["restored"], device["partial_removed"]) == (3, "restored", False)
    assert decisions(device) == ["give up"]
    assert device["partial_file"].startswith("bootflash:image.bin, ")
    assert rig.flash_bytes("image.bin") > 0
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_partial_file_is_removed_with_leave(rig):
    """With leave it is removed and the copy begun again; what the second leaves is removed too. Others' files stay."""
    before = rig.configurations()
    others = [file.name for file in rig.world.files(DEVICE)]
    rig.world.fault(DEVICE, drop_ssh_after_bytes=HELD_BYTES, keeps_partial_file=True)
    done = rig.verb("stage", "--remove-partial", "--image", rig.image(IMAGE_BYTES))
    device = device_of(done.out)
    assert (done.code, device["restored"], device["partial_removed"]) == (3, "restored", True), done.err
    assert decisions(device) == ["remove the partial file and copy again", "give up"]
    assert [file.name for file in rig.world.files(DEVICE)] == others
    assert rig.configurations() == before


def test_a_file_of_a_wrong_hash_is_removed_with_leave(rig):
    """It is ours, and it is worthless."""
    rig.world.fault(DEVICE, flip_byte=True)
    done = rig.verb("stage", "--remove-partial", "--image", rig.image(300_000))
    device = device_of(done.out)
    assert (done.code, device["failure"]["kind"], device["partial_removed"]) == (3, "ImageCorrupt", True)
    assert rig.flash_bytes("image.bin") == 0


def test_a_restart_in_mid_copy(held_rig):
    """The router restarts: it is waited for, tuned again, and brings the image at the second copy."""
    rig, before, image = held_rig, held_rig.configurations(), held_rig.image(IMAGE_BYTES)
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", image) as stage:
        rig.until_held()
        rig.world.fault(DEVICE, reboot=1.0)
        rig.until_held(times=2)
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    device = device_of(out)
    assert (stage.returncode, device["outcome"], device["restored"]) == (0, "done", "restored"), err
    assert decisions(device) == ["copy again"]
    assert device["transfer"]["data_syn"]["window_scale"] is not None
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_window_that_is_out_of_range_is_made_smaller(wan_rig):
    """A device that takes no more than 65535 is staged with that, and every step is told."""
    rig, before = wan_rig, wan_rig.configurations()
    rig.world.fault(DEVICE, largest_window_bytes=200_000)
    done = rig.verb("stage", "--image", rig.image(300_000))
    device = device_of(done.out)
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), done.err
    assert tuned(device)[0]["ours"] in device["tune"]["running"]["lines"]
    assert int(tuned(device)[0]["ours"].split()[-1]) <= 200_000
    assert device["tune"]["refused"]
    assert rig.configurations() == before
    given = rig.verb("stage", "--image", rig.image(300_000, "b.bin"), "--window-bytes", "1000000")
    assert device_of(given.out)["failure"]["kind"] == "DeviceRefused"
    assert rig.configurations() == before


@pytest.mark.soak
def test_extras_and_source_interface_come_back(new_rig):
    """Timestamps, path MTU discovery and the FTP source interface are set for the copy and gone afterwards."""
    with new_rig(config_lines=("ip tcp path-mtu-discovery age-timer 20",)) as rig:
        rig.write_inventory(data={"enable_secret": "ferry-lab-enable", "source_interface": "Gi1"})
        before = rig.configurations()
        extras = ("--extra", "timestamps", "--extra", "path-mtu-discovery")
        done = rig.verb("stage", "--image", rig.image(300_000), *extras)
        device = device_of(done.out)
        assert (done.code, device["restored"]) == (0, "restored"), done.err
        set_lines = [change["ours"] for change in tuned(device)]
        assert set_lines[1:] == ["ip tcp selective-ack", "ip tcp timestamp", "ip ftp source-interface Gi1"]
        assert device["transfer"]["data_syn"]["timestamps"]
        assert rig.configurations() == before


@pytest.mark.soak
def test_a_dry_run_says_what_the_run_then_does(rig):
    """Lines and way back are those of the run behind it; the dry run changes nothing and keeps no journal."""
    before, files = rig.configurations(), rig.world.files(DEVICE)
    image = rig.image(300_000)
    dry = rig.verb("stage", "--dry-run", "--image", image, "--extra", "timestamps")
    (planned,) = dry.json["devices"]
    assert (dry.code, planned["outcome"]) == (0, "done"), dry.err
    assert not (rig.state / "journal.sqlite3").exists()
    assert (rig.configurations(), rig.world.files(DEVICE)) == (before, files)
    done = device_of(rig.verb("stage", "--image", image, "--extra", "timestamps").out)
    assert unmarked(planned["plan"]["tune"]["changes"]) == unmarked(done["changes"])
    *put_back, unmark = done["restore"]["commands"]
    assert planned["plan"]["restore"] == [*put_back, "no alias exec flashferry-RUN"]
    assert unmark.startswith("no alias exec flashferry-")
    assert planned["plan"]["target"] == done["pull"]["target"]
    assert "ftp://<user>:<password>@198.18.0.1" in planned["plan"]["copy"]
    assert planned["plan"]["verify"] == [f"verify /{done['verify']['algorithm']} {done['verify']['path']}"]
    again = rig.verb("stage", "--dry-run", "--image", image)
    assert again.json["devices"][0]["outcome"] == "already there"

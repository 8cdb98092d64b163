"""What happens around a run: closed terminals, killed helpers, two names for one router, odd lines, wrong secrets."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.conftest import IMAGE_BYTES, LARGE_IMAGE_BYTES
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab
DEVICE = "xe1"


def device_of(text: str) -> dict:
    (device,) = json.loads(text)["run"]["devices"]
    return device


def test_a_closed_terminal_changes_nothing(held_rig):
    """Standard error goes away in mid-copy: the run goes on, and the router is what it was."""
    rig, before = held_rig, held_rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        stage.stderr.close()
        rig.release()
        out = stage.stdout.read()
        assert stage.wait(timeout=PATIENCE_S) == 0
    assert device_of(out)["restored"] == "restored"
    assert rig.configurations() == before


@pytest.mark.parametrize("number", [pytest.param(signal.SIGHUP, marks=pytest.mark.soak), signal.SIGTERM])
def test_hang_up_and_termination_restore_like_ctrl_c(held_rig, number):
    """A closed session window and a stopped service end the run in good order."""
    rig, before = held_rig, held_rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        os.kill(stage.pid, number)
        stage.communicate(timeout=PATIENCE_S)
    assert stage.returncode == 130
    assert rig.configurations() == before


@pytest.mark.soak
@pytest.mark.parametrize(("retries", "code", "outcome"), [(0, 3, "failed"), (1, 0, "done")])
def test_a_dead_server_is_told_and_the_router_restored(held_rig, retries, code, outcome):
    """The server's process is killed in mid-copy: nothing is called a success; tried again, a new one delivers."""
    rig, before = held_rig, held_rig.configurations()
    options = ("--json", "--retries", retries, "--image", rig.image(LARGE_IMAGE_BYTES))
    with rig.started("stage", "--inventory", rig.inventory, *options) as stage:
        rig.until_held()
        children = subprocess.run(["pgrep", "-P", str(stage.pid)], capture_output=True, text=True, check=True).stdout
        for pid in children.split():
            os.kill(int(pid), signal.SIGKILL)
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    device = device_of(out)
    assert stage.returncode == code, err
    assert (device["outcome"], device["restored"]) == (outcome, "restored")
    assert "killed by SIGKILL" in err
    assert device["partial_file"] is None or device["partial_file"].startswith("bootflash:image.bin, ")
    assert rig.configurations() == before


@pytest.mark.soak
def test_one_router_under_two_names_is_one_router(held_rig):
    """A second run that reaches the same router by another address is refused, and changes nothing."""
    rig, before = held_rig, held_rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        # Another way to write 198.18.1.11 (inet_aton): stands for a DNS name beside an address.
        rig.write_inventory(hostname="198.18.267")
        second = rig.verb("stage", "--image", rig.image(300_000, "other.bin"), "--port", "2121")
        os.kill(stage.pid, signal.SIGINT)
        stage.communicate(timeout=PATIENCE_S)
    assert stage.returncode == 130
    assert (second.code, device_of(second.out)["failure"]["kind"]) == (3, "DeviceRefused")
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_line_set_between_look_and_snapshot_comes_back(new_rig):
    """What is restored is what the snapshot holds, also a window that is smaller than ours."""
    with new_rig(config_lines=("ip tcp window-size 30000",)) as rig:
        before = rig.configurations()
        done = rig.verb("stage", "--image", rig.image(100_000))
        assert done.code == 0, done.err
        assert "ip tcp window-size 30000" in device_of(done.out)["restore"]["commands"]
        assert rig.configurations() == before


def test_a_colleagues_line_is_told_without_its_secret(held_rig):
    """Somebody's new line with brackets and a secret: kept, told by its keywords, and nowhere in full."""
    rig = held_rig
    with rig.started("stage", "--inventory", rig.inventory, "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        rig.configure_by_hand("snmp-server location [/rack S3cretWord]")
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    kept = b"".join(path.read_bytes() for path in rig.state.rglob("*") if path.is_file())
    assert stage.returncode == 5, err
    assert "new: 'snmp-server location ...'" in out
    assert "S3cretWord" not in out + err
    assert b"S3cretWord" not in kept
    assert "S3cretWord" in rig.configurations()[0]


@pytest.mark.soak
def test_a_wrong_enable_secret_is_told_as_one(new_rig):
    """The user gets in but not to the privileged prompt: the sentence names the enable secret, not the network."""
    with new_rig(privilege=1) as rig:
        good = rig.verb("check")
        assert good.code == 0, good.err
        rig.write_inventory(data={"enable_secret": "not-the-secret"})
        done = rig.verb("check")
    (device,) = done.json["devices"]
    assert (done.code, device["failure"]["kind"]) == (3, "LoginRefused")
    assert "enable secret" in device["failure"]["reason"]
    assert "not-the-secret" not in done.out + done.err


@pytest.mark.soak
@pytest.mark.parametrize("name", ["a b.bin", "%41.bin", "a|b.bin", "a:b.bin"])
def test_a_name_that_ios_cannot_take_is_refused_before_anything_starts(rig, name):
    """Exit 2, one sentence with the name, no device touched."""
    done = rig.verb("stage", "--image", rig.image(1000, name))
    assert done.code == 2
    assert done.json["exit_code"] == 2
    assert name in done.err
    assert not rig.state.exists() or "planned" not in str(list(rig.state.iterdir()))


@pytest.mark.soak
def test_a_name_too_long_for_the_command_line_leaves_the_router_alone(rig):
    """The copy command's length is checked while the router is as it was."""
    done = rig.verb("stage", "--image", rig.image(1000, "x" * 200 + ".bin"))
    device = device_of(done.out)
    assert (done.code, device["restored"], device["changes"]) == (3, "untouched", [])
    assert "an IOS line takes 253" in device["failure"]["reason"]


def test_recover_twice_at_once(held_rig):
    """A second recovery beside a first one is refused in a sentence, and the router is restored once."""
    rig, before = held_rig, held_rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        os.kill(stage.pid, signal.SIGKILL)
    rig.release()
    with (
        rig.started("recover", "--inventory", rig.inventory, "--json") as one,
        rig.started("recover", "--inventory", rig.inventory, "--json") as two,
    ):
        said = [process.communicate(timeout=PATIENCE_S) for process in (one, two)]
    assert 0 in (one.returncode, two.returncode), said
    assert {one.returncode, two.returncode} <= {0, 2}
    assert rig.configurations() == before


@pytest.mark.soak
def test_recover_finds_a_device_that_left_the_inventory(held_rig):
    """The inventory is empty meanwhile: the journal's address and the environment's credentials are enough."""
    rig, before = held_rig, held_rig.configurations()
    access = rig.world.devices[0]
    with rig.started("stage", "--inventory", rig.inventory, "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        os.kill(stage.pid, signal.SIGKILL)
    rig.release()
    (rig.inventory / "hosts.yaml").write_text("{}\n")
    rig.environment = {
        "FLASHFERRY_USERNAME": access.username,
        "FLASHFERRY_PASSWORD": access.password,
        "FLASHFERRY_ENABLE_SECRET": access.enable_secret,
    }
    done = rig.verb("recover")
    assert done.code == 0, done.err
    assert done.json["devices"][0]["partial_file"] is None or "image.bin" in done.json["devices"][0]["partial_file"]
    assert rig.configurations() == before

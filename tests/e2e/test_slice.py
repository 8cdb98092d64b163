"""One router checked, tuned, fed, timed and restored; and what happens when something goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.e2e.conftest import HELD_BYTES, IMAGE_BYTES
from tests.patience import PATIENCE_S
from tests.some import some

pytestmark = pytest.mark.lab
DEVICE = "xe1"


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def device_of(document: dict) -> dict:
    (device,) = document["run"]["devices"]
    return device


def test_stage_tunes_copies_verifies_and_restores(wan_rig):
    """The image is on flash, its hash proven, the wire shows the tuning, and both configurations are what they were."""
    image, before = wan_rig.image(4_000_000), wan_rig.configurations()
    done = wan_rig.verb("stage", "--image", image)
    assert done.code == 0, done.err
    device = device_of(done.json)
    assert wan_rig.flash_md5("image.bin") == md5(image) == device["verify"]["md5"]
    assert (device["outcome"], device["restored"], device["state"]) == ("done", "restored", "done")
    syn = device["transfer"]["data_syn"]
    assert syn["window_scale"] is not None
    assert syn["sack_permitted"]
    assert device["transfer"]["bytes_acked"] == device["pull"]["device"]["size_bytes"] == 4_000_000
    mark, *tuned = (change["ours"] for change in device["changes"])
    assert mark.startswith("alias exec flashferry-")
    # 50 Mbit/s, 100 ms and the margin ask for 1250000 bytes, and for 12500 more with each millisecond of a late answer.
    window_bytes = int(tuned[0].removeprefix("ip tcp window-size "))
    assert 1_250_000 <= window_bytes <= 2_500_000
    assert tuned[1:] == ["ip tcp selective-ack"]
    undone = [f"no {line}" for line in tuned] + [f"no {' '.join(mark.split()[:3])}"]
    assert device["restore"]["commands"] == undone
    assert wan_rig.configurations() == before


def test_no_secret_is_printed_or_kept(rig):
    """Neither output, journal nor current folder holds a password, an enable secret or a ticket."""
    done = rig.verb("stage", "--image", rig.image(300_000))
    assert done.code == 0, done.err
    kept = b"".join(path.read_bytes() for path in rig.state.rglob("*") if path.is_file())
    everything = (done.out + done.err).encode() + kept
    assert "ftp://*:*@" in done.out
    for secret in some(rig.secrets):
        assert secret.encode() not in everything
    # A ticket's URL would read ftp://USER:PASSWORD@; the only credentials in sight are masked ones.
    assert b"@198.18.0.1" in everything
    assert everything.replace(b"ftp://*:*@198.18.0.1", b"").count(b"@198.18.0.1") == 0
    assert {path.name for path in rig.folder.iterdir()} == {"image.bin", "inventory", "state"}


@pytest.mark.soak
def test_an_image_that_is_there_already_costs_no_byte(rig):
    """The second run proves the hash, sends nothing and touches nothing."""
    image = rig.image(300_000)
    assert rig.verb("stage", "--image", image).code == 0
    again = rig.verb("stage", "--image", image)
    device = device_of(again.json)
    assert (again.code, device["outcome"], device["restored"]) == (0, "already there", "untouched")
    assert device["transfer"] is None
    assert device["changes"] == []


@pytest.mark.soak
def test_prior_lines_come_back_exactly(new_rig):
    """A window that somebody set before is that window again afterwards."""
    with new_rig(config_lines=("ip tcp window-size 65535", "ip tcp timestamp")) as rig:
        before = rig.configurations()
        done = rig.verb("stage", "--image", rig.image(300_000))
        assert done.code == 0, done.err
        assert "ip tcp window-size 65535" in device_of(done.json)["restore"]["commands"]
        assert rig.configurations() == before
        assert "ip tcp window-size 65535" in before[0]


def test_kill_and_recover(held_rig):
    """Kill -9 in mid-copy ends the server too, and leaves the router tuned; recover restores it and names the file."""
    rig = held_rig
    image, before = rig.image(IMAGE_BYTES), rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--image", image) as stage:
        rig.until_held()
        helpers = _living(parent=stage.pid)
        assert helpers
        os.kill(stage.pid, signal.SIGKILL)
        stage.wait()
        assert rig.until(lambda: not _living(pids=helpers))
    rig.release()
    assert "ip tcp window-size" in rig.configurations()[0]

    done = rig.verb("recover")
    assert done.code == 0, done.err
    (device,) = done.json["devices"]
    assert device["restored"] == "restored"
    assert [line.split()[1] for line in device["restore"]["commands"]] == ["ip", "ip", "alias"]
    assert (device["partial_file"] is None) == (rig.flash_bytes("image.bin") == 0)
    assert rig.configurations() == before
    assert rig.verb("recover").json["devices"] == []


@pytest.mark.soak
def test_stage_warns_of_what_a_dead_run_left(held_rig):
    """A router that a dead run left tuned is not touched by the next one; it is told to recover, and does so."""
    rig = held_rig
    image, before = rig.image(IMAGE_BYTES), rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--image", image) as stage:
        rig.until_held()
        os.kill(stage.pid, signal.SIGKILL)
    rig.release()
    again = rig.verb("stage", "--image", rig.image(1000, "other.bin"))
    assert again.code == 3
    assert "warning: a dead run still holds xe1; run 'flashferry recover'" in again.err
    assert device_of(again.json)["failure"]["kind"] == "DeviceRefused"
    assert rig.verb("recover").code == 0
    assert rig.configurations() == before


def _living(parent: int | None = None, pids: list[int] | None = None) -> list[int]:
    """Return the living processes among `pids`, or those that `parent` started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.parent.name)
        if fields[0] != "Z" and (pid in pids if pids is not None else int(fields[1]) == parent):
            found.append(pid)
    return found


def test_interrupt_restores_before_the_prompt_comes_back(held_rig):
    """Ctrl-C in mid-copy ends the copy, restores the router, reports, and exits with 130."""
    rig = held_rig
    before = rig.configurations()
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        os.kill(stage.pid, signal.SIGINT)
        out, err = stage.communicate(timeout=PATIENCE_S)
    assert stage.returncode == 130, err
    device = device_of(json.loads(out))
    assert (device["outcome"], device["restored"]) == ("interrupted", "restored")
    assert rig.configurations() == before


def test_a_foreign_change_is_kept_and_named(held_rig):
    """A line that somebody else changes while we are tuned stays as they set it, and is let go of by name."""
    rig = held_rig
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        rig.configure_by_hand("ip tcp window-size 99999")
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    assert stage.returncode == 5, err
    (foreign,) = device_of(json.loads(out))["restore"]["foreign"]
    assert (foreign["before"], foreign["present"]) == (None, "ip tcp window-size 99999")
    assert "ip tcp window-size 99999" in rig.configurations()[0]
    assert "ip tcp selective-ack" not in rig.configurations()[0]
    kept = rig.verb("recover")
    (device,) = kept.json["devices"]
    assert (kept.code, device["restored"]) == (5, "incomplete")
    assert f"recover --accept {device['host']}" in device["failure"]["hint"]
    taken = rig.verb("recover", "--accept", device["host"])
    assert (taken.code, rig.verb("recover").json["devices"]) == (0, [])
    assert "ip tcp window-size 99999" in rig.configurations()[0]


def test_check_changes_nothing_and_tells_what_is_there(wan_rig):
    """A look gives platform, file system, room and TCP lines, and leaves the router as it is."""
    before = wan_rig.configurations()
    done = wan_rig.verb("check", "--image", wan_rig.image(300_000))
    (device,) = done.json["devices"]
    assert (done.code, device["outcome"]) == (0, "done")
    assert device["check"]["facts"]["model"] == "CSR1000V"
    assert device["check"]["file_system"] == "bootflash:"
    assert device["check"]["free_bytes"] > 0
    assert device["check"]["running"]["lines"] == []
    assert device["check"]["rtt_s"] > 0
    assert wan_rig.configurations() == before


@pytest.mark.soak
def test_another_file_of_that_name_is_never_overwritten(rig):
    """Same name, other contents: refused before anything is touched, with both sizes in the sentence."""
    assert rig.verb("stage", "--image", rig.image(300_000)).code == 0
    old, before = rig.flash_md5("image.bin"), rig.configurations()
    done = rig.verb("stage", "--image", rig.image(400_000))
    device = device_of(done.json)
    assert (done.code, device["outcome"]) == (4, "refused")
    assert "300000 bytes, expected 400000" in device["failure"]["reason"]
    assert rig.flash_md5("image.bin") == old
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_full_flash_is_refused_before_anything_is_touched(new_rig):
    """Room and need stand in the sentence; not one image byte is sent."""
    with new_rig(flash_free_bytes=1_000_000) as rig:
        before = rig.configurations()
        done = rig.verb("stage", "--image", rig.image(2_000_000))
        device = device_of(done.json)
        assert (done.code, device["outcome"], device["transfer"]) == (4, "refused", None)
        assert "bytes free, the image needs 2000000" in device["failure"]["reason"]
        assert rig.configurations() == before


@pytest.mark.soak
def test_probe_copies_to_null_and_touches_nothing(rig):
    """A speed test writes no file and no configuration line; the untuned SYN has neither scaling nor SACK."""
    before, files = rig.configurations(), rig.world.files(DEVICE)
    done = rig.verb("probe", "--as-is", "--seconds", "2")
    device = device_of(done.json)
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "untouched")
    syn = device["transfer"]["data_syn"]
    assert (syn["window_scale"], syn["sack_permitted"], syn["timestamps"]) == (None, False, False)
    assert (rig.configurations(), rig.world.files(DEVICE)) == (before, files)


def test_unknown_device(rig):
    """A name that the inventory lacks: one sentence that lists what it has, exit 2."""
    done = rig.verb("stage", "--image", rig.image(1000), "--host", "nosuch")
    assert done.code == 2
    assert done.err == (
        "flashferry: error: unknown device 'nosuch': the inventory has xe1. Check --host and --inventory\n"
    )


def test_missing_image(rig):
    """An image that is not there: one sentence with its path, exit 2."""
    done = rig.verb("stage", "--image", "/nowhere/image.bin")
    assert done.code == 2
    assert done.err == "flashferry: error: image /nowhere/image.bin: expected a file, found nothing. Check the path\n"


@pytest.mark.soak
def test_unreachable_device(rig):
    """No SSH service at the address: a sentence with address, port and what to check, exit 3, nothing left behind."""
    rig.write_inventory(hostname="198.18.0.77", port=2222)
    done = rig.verb("stage", "--image", rig.image(1000))
    device = device_of(done.json)
    assert (done.code, device["outcome"], device["restored"]) == (3, "failed", "untouched")
    reason = device["failure"]["reason"]
    assert reason.startswith("no SSH session with 198.18.0.77 port 2222 could be opened: ")
    assert device["failure"]["cause"] in {"no route", "timeout"}
    assert "route" in device["failure"]["hint"]


@pytest.mark.soak
def test_wrong_password(rig):
    """A password that is not accepted: a sentence with user and address and where to give it, exit 3."""
    rig.write_inventory(password="not-the-password")
    done = rig.verb("stage", "--image", rig.image(1000))
    device = device_of(done.json)
    assert (done.code, device["failure"]["kind"]) == (3, "LoginRefused")
    assert device["failure"]["reason"] == "login as 'ferry' to 198.18.1.11 port 22 was refused"
    assert "not-the-password" not in done.out + done.err


def test_a_wrong_hash_is_no_success(rig):
    """A byte that flips on flash: the copy is reported as corrupt, the router is restored."""
    before = rig.configurations()
    rig.world.fault(DEVICE, flip_byte=True)
    done = rig.verb("stage", "--image", rig.image(300_000))
    device = device_of(done.json)
    assert (done.code, device["failure"]["kind"], device["restored"]) == (3, "ImageCorrupt", "restored")
    assert rig.configurations() == before


@pytest.mark.parametrize(
    ("fetched_bytes", "transport"),
    [(0, "ftp"), *(pytest.param(300_000, one, marks=pytest.mark.soak) for one in ("ftp", "http"))],
)
def test_an_image_that_was_not_delivered_is_no_success(rig, fetched_bytes, transport):
    """Copy, `dir` and `verify` agree on an image of which our server delivered a part, or nothing, and stay untrue."""
    image, before = rig.image(3_000_000), rig.configurations()
    rig.world.fault(DEVICE, claims_image=str(image), claims_after_bytes=fetched_bytes, slow_flash_bytes_per_s=400_000)
    done = rig.verb("stage", "--image", image, "--transport", transport)
    device = device_of(done.json)
    assert (done.code, device["failure"]["kind"], device["restored"]) == (3, "NotDelivered", "restored"), done.err
    assert "the device reports 3000000 bytes copied" in device["failure"]["reason"]
    assert rig.configurations() == before
    again = rig.verb("stage", "--image", image, "--transport", transport)
    device = device_of(again.json)
    assert (again.code, device["outcome"]) == (4, "refused")
    assert "a copy that our server had not delivered" in device["failure"]["reason"]


@pytest.mark.soak
def test_a_lost_session_is_opened_anew_to_restore(rig):
    """SSH drops in mid-copy: the copy failed, nothing is called a success, and the router is what it was."""
    before = rig.configurations()
    rig.world.fault(DEVICE, drop_ssh_after_bytes=HELD_BYTES)
    done = rig.verb("stage", "--image", rig.image(IMAGE_BYTES))
    device = device_of(done.json)
    assert (done.code, device["failure"]["kind"], device["restored"]) == (3, "DeviceUnreachable", "restored")
    assert rig.configurations() == before


@pytest.mark.soak
def test_noise_inside_the_copy_is_not_its_end(rig):
    """A syslog line and a foreign job's error inside the marks of a copy that succeeds change nothing."""
    rig.world.fault(DEVICE, syslog_in_copy=True)
    done = rig.verb("stage", "--image", rig.image(3_000_000))
    device = device_of(done.json)
    assert "%Error opening tftp://255.255.255.255" in device["pull"]["transcript"]
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored")


def test_a_refused_line_ends_before_the_copy(rig):
    """The second of our lines is refused: the first is undone, no image byte is sent, and the refusal is quoted."""
    before = rig.configurations()
    rig.world.fault(DEVICE, refuse_config_pattern="selective-ack")
    done = rig.verb("stage", "--image", rig.image(300_000))
    device = device_of(done.json)
    assert (done.code, device["failure"]["kind"], device["failure"]["step"]) == (3, "DeviceRefused", "tune")
    assert "authorization failed" in device["failure"]["reason"]
    assert (device["restored"], device["transfer"]) == ("restored", None)
    assert rig.configurations() == before


@pytest.mark.soak
def test_flash_that_fills_up_under_way(rig):
    """Room is gone after the check: the device's own words are the reason, and the router is restored."""
    before = rig.configurations()
    rig.world.fault(DEVICE, disk_full_after_bytes=HELD_BYTES)
    done = rig.verb("stage", "--image", rig.image(IMAGE_BYTES))
    device = device_of(done.json)
    assert (done.code, device["outcome"], device["restored"]) == (3, "failed", "restored"), done.err
    assert "Not enough space on device" in device["failure"]["reason"]
    assert rig.configurations() == before


def test_room_that_is_gone_before_the_copy(rig):
    """Looked at again right before the copy: no image byte is sent for nothing."""
    before = rig.configurations()
    rig.world.fault(DEVICE, hold_command_pattern="^ip tcp selective-ack")
    with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", rig.image(IMAGE_BYTES)) as stage:
        rig.until_held()
        rig.world.fault(DEVICE, flash_full=True)
        rig.release()
        out, err = stage.communicate(timeout=PATIENCE_S)
    device = device_of(json.loads(out))
    assert (stage.returncode, device["outcome"], device["restored"]) == (3, "failed", "restored"), err
    assert "since the check: bootflash: has 0 bytes free" in device["failure"]["reason"]
    assert device["transfer"] is None
    assert rig.configurations() == before


@pytest.mark.soak
def test_the_journal_of_a_run_is_complete(rig):
    """After a run the journal holds the record and no device in anybody's hands."""
    assert rig.verb("stage", "--image", rig.image(300_000)).code == 0
    database = sqlite3.connect(rig.state / "journal.sqlite3")
    rows = database.execute("SELECT host, state, touched, length(record) > 100 FROM devices").fetchall()
    finished = database.execute("SELECT count(*) FROM runs WHERE finished_at IS NOT NULL").fetchone()
    database.close()
    assert rows == [(DEVICE, "done", 0, 1)]
    assert finished == (1,)

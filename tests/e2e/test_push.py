"""Push: our side writes the image by the device's own SCP server, where the inventory allows it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import HELD_BYTES, IMAGE_BYTES
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab
SERVER = "ip scp server enable"


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def device_of(document: dict[str, Any]) -> dict[str, Any]:
    (device,) = document["run"]["devices"]
    return device


def allow_push(rig: Any, **more: Any) -> None:
    """Have the inventory name push for the device, besides FTP."""
    data = {"link_rate_bps": 50_000_000, "cap_share": 0.98, "transports": ["ftp", "push"], **more}
    device = rig.world.devices[0]
    rig.write_inventory(data={"enable_secret": device.enable_secret, **data})


def test_a_push_is_recorded_as_a_pull_is_and_leaves_nothing_on(wan_rig):
    """The image is proven by its hash, the record has sender and cipher, the server is off again."""
    allow_push(wan_rig)
    image, before = wan_rig.image(1_000_000), wan_rig.configurations()
    done = wan_rig.verb("stage", "--image", image, "--transport", "push")
    assert done.code == 0, done.err
    device = device_of(done.json)
    assert wan_rig.flash_md5("image.bin") == md5(image) == device["verify"]["md5"]
    assert (device["outcome"], device["restored"]) == ("done", "restored")
    assert SERVER in [change["ours"] for change in device["changes"]]
    assert f"no {SERVER}" in device["restore"]["commands"]
    transfer = device["transfer"]
    assert (transfer["transport"], transfer["outcome"], transfer["bytes_acked"]) == ("push", "delivered", 1_000_000)
    assert transfer["cipher"]
    assert transfer["channel_window_bytes"] > 0
    assert transfer["sender"]["cap_bytes_per_s"] == int(0.98 * 50e6 / 8 * 1460 / 1500)
    assert transfer["sender"]["congestion_control"]
    assert device["pull"] is None
    assert wan_rig.configurations() == before


@pytest.mark.soak
def test_a_tuned_push_has_scaled_windows(new_rig):
    """The second session has the windows that the first one set, TCP's and the channel's."""
    with new_rig(profile="published", platform="c8000v-17.15") as rig:
        allow_push(rig)
        done = rig.verb("stage", "--image", rig.image(20_000_000), "--transport", "push")
    assert done.code == 0, done.err
    transfer = device_of(done.json)["transfer"]
    assert transfer["max_window_bytes"] > 1_000_000
    assert transfer["channel_window_bytes"] > 1_000_000


def test_a_server_that_is_on_stays_on(rig):
    """What somebody switched on is not ours to set, and not ours to take back."""
    allow_push(rig)
    rig.configure_by_hand(SERVER)
    before = rig.configurations()
    done = rig.verb("stage", "--image", rig.image(300_000), "--transport", "push", "--no-tune")
    assert done.code == 0, done.err
    assert device_of(done.json)["changes"] == []
    assert rig.configurations() == before
    assert SERVER in before[0]


def test_a_push_that_nobody_allowed_touches_nothing(rig):
    """Asked for and not named by the inventory: one sentence, and no session with the device."""
    before = rig.configurations()
    done = rig.verb("stage", "--image", rig.image(300_000), "--transport", "push")
    assert done.code == 2, done.out
    assert "--transport push is not among the transports that the inventory allows" in done.out
    assert rig.configurations() == before


def test_what_came_to_the_target_since_the_check_is_not_overwritten(rig):
    """A file that appears between check and first byte stays as it is: the target is looked at right before."""
    allow_push(rig)
    image = rig.image(300_000)
    flash = rig.world.files("xe1")[0].path.parent
    rig.world.fault("xe1", hold_command_pattern=f"^{SERVER}")
    with rig.started(
        "stage", "--inventory", rig.inventory, "--json", "--retries", "0", "--image", image, "--transport", "push",
    ) as process:  # fmt: skip
        rig.until_held()
        (flash / "image.bin").write_bytes(b"somebody else's")
        rig.release()
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "nothing is overwritten" in out
    assert rig.flash_bytes("image.bin") == len(b"somebody else's")
    assert SERVER not in rig.configurations()[0]


@contextmanager
def pushing(rig: Any) -> Iterator[subprocess.Popen[str]]:
    """Stage an image by push; yield the process once the device has a part of it, and holds the rest until the end."""
    rig.hold_copies()
    with rig.started(
        "stage", "--inventory", rig.inventory, "--json", "--image", rig.image(IMAGE_BYTES), "--transport", "push"
    ) as process:
        rig.until_held()
        yield process
    rig.release()


def test_killed_in_mid_push_recover_switches_the_server_off(rig):
    """The journal has the line before it is set: a fresh process puts it back; the partial file is named and stays."""
    allow_push(rig)
    before = rig.configurations()
    with pushing(rig) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
    assert SERVER in rig.configurations()[0]
    done = rig.verb("recover")
    assert done.code == 0, done.out
    assert rig.configurations() == before
    assert rig.flash_bytes("image.bin") == HELD_BYTES


def test_interrupt_ends_a_push_and_restores(rig):
    """Ctrl-C in mid-push: the connection is closed, the server is off again before the prompt comes back."""
    allow_push(rig)
    before = rig.configurations()
    with pushing(rig) as process:
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert '"outcome": "interrupted"' in out
    assert rig.configurations() == before

"""The speed test and the test of reach on the lab, by the command line."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab
DEVICE = "xe1"


@pytest.mark.soak
def test_both_arms_in_one_login(wan_rig):
    """As it is the window holds the copy, tuned it is worth the change; nothing is left on flash or in lines."""
    rig = wan_rig
    before, files = rig.configurations(), rig.world.files(DEVICE)
    done = rig.verb("probe", "--seconds", "4", "--image-mb", "600")
    assert done.code == 0, done.err
    (device,) = done.json["run"]["devices"]
    found = device["probe"]
    as_is, tuned = found["as_is"], found["tuned"]
    assert (device["outcome"], device["restored"]) == ("done", "restored")
    assert (as_is["syn"]["window_scale"], as_is["syn"]["sack_permitted"]) == (None, False)
    assert (tuned["syn"]["window_scale"] is not None, tuned["syn"]["sack_permitted"]) == (True, True)
    assert as_is["verdict"]["kind"] == "window"
    assert as_is["copies"] > 1  # a small one first, to see how much the time will carry
    assert found["worth"]["is_worth"]
    assert found["as_is_s"] == pytest.approx(600e6 / as_is["steady_bytes_per_s"], rel=0.01)
    assert found["image_bytes"] == 600_000_000
    assert (rig.configurations(), rig.world.files(DEVICE)) == (before, files)


@pytest.mark.parametrize(
    "arms", [(), pytest.param(("--as-is",), marks=pytest.mark.soak), pytest.param(("--tuned",), marks=pytest.mark.soak)]
)
def test_a_source_interface_and_the_mark_are_gone_after_a_speed_test(rig, arms):
    """The first copies need the source interface alone, the tuned ones more beside it: one mark, and all of it goes."""
    rig.write_inventory(data={"enable_secret": "ferry-lab-enable", "source_interface": "Gi1"})
    before = rig.configurations()
    done = rig.verb("probe", "--seconds", "2", *arms)
    (device,) = done.json["run"]["devices"]
    assert (done.code, device["outcome"], device["restored"]) == (0, "done", "restored"), done.err
    lines = [change["ours"] for change in device["changes"]]
    assert any("source-interface" in line for line in lines), lines
    assert sum(line.startswith("alias exec flashferry-") for line in lines) == 1, lines
    assert rig.configurations() == before
    assert rig.verb("recover").code == 0
    assert "nothing to recover" in rig.run("status").out


@pytest.mark.soak
def test_one_arm_only(rig):
    """--as-is changes no line at all and decides nothing; --tuned copies tuned only and restores."""
    before = rig.configurations()
    (device,) = rig.verb("probe", "--as-is", "--seconds", "2").json["run"]["devices"]
    assert (device["changes"], device["restored"], device["probe"]["worth"]) == ([], "untouched", None)
    assert device["probe"]["tuned"] is None
    (device,) = rig.verb("probe", "--tuned", "--seconds", "2").json["run"]["devices"]
    assert (device["probe"]["as_is"], device["restored"]) == (None, "restored")
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_device_that_is_fine_is_not_touched(new_rig):
    """Window and SACK as we would set them: one arm, nothing to tune, no line changed."""
    with new_rig(config_lines=("ip tcp window-size 2000000", "ip tcp selective-ack")) as rig:
        (device,) = rig.verb("probe", "--seconds", "2").json["run"]["devices"]
        assert (device["restored"], device["changes"], device["probe"]["tuned"]) == ("untouched", [], None)
        assert not device["probe"]["worth"]["is_worth"]
        assert "enough for this path" in device["probe"]["worth"]["reason"]


def test_two_sizes_are_one_too_many(rig):
    """--image and --image-mb contradict each other: exit 2 before anything is touched."""
    done = rig.verb("probe", "--image", rig.image(1000), "--image-mb", "1")
    assert done.code == 2
    assert "Give one of them" in done.err


def test_reach_brings_the_audit(rig):
    """A tiny copy shows path, mode, address and SYN, and changes nothing."""
    before = rig.configurations()
    done = rig.verb("check", "--reach")
    assert done.code == 0, done.err
    (device,) = done.json["devices"]
    found = device["reach"]
    assert found["report"]["hindrance"] is None
    assert found["report"]["came_from"] == rig.world.devices[0].address
    assert (found["mode"], found["syn"]["window_scale"]) == ("passive", None)
    assert found["rtt_s"] > 0
    assert rig.configurations() == before


@pytest.mark.soak
def test_a_server_out_of_reach_is_named(rig):
    """Packets to an address where nobody answers: no client seen, and the device is usable after."""
    done = rig.verb("check", "--reach", "--address", "198.18.0.99")
    (device,) = done.json["devices"]
    assert (done.code, device["outcome"], device["failure"]["kind"]) == (3, "failed", "NO_CLIENT")
    assert device["failure"]["reason"].startswith("no client seen: no connection reached our FTP port from 198.18.")
    assert "route" in device["failure"]["hint"]
    assert rig.verb("check").code == 0


@pytest.mark.soak
def test_status_after_a_run(rig):
    """Nothing before, the run after it, and nothing to recover; exit 0."""
    empty = rig.run("status", "--json")
    assert (empty.code, empty.json["status"]["has_journal"]) == (0, False)
    rig.verb("probe", "--as-is", "--seconds", "2")
    told = rig.run("status", "--json").json
    (run,) = told["status"]["runs"]
    assert (run["verb"], run["state"], told["to_recover"]) == ("probe", "finished", [])
    assert run["devices"][0]["outcome"] == "done"
    assert "nothing to recover" in rig.run("status").out

"""`activate`: devices that are proven ready are restarted once, followed, and committed or brought back."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]
DEVICE = "xe1"
IN_COMMIT = {"hold_command_pattern": "^install commit"}
NAME = "c8000v-universalk9.17.18.02.SPA.bin"
SIZE_BYTES = 300_000
QUICK = ("--boot-limit-min", "0.5", "--settle-min", "0.05", "--look-every-s", "0.3")


@pytest.fixture
def router(new_rig):
    with new_rig(platform="c8000v-17.15") as rig:
        rig.world.fault(DEVICE, boot_s=1.5, seconds_per_minute=3.0)
        yield rig


def planned(rig, name=NAME, *, adds=True):
    """Return a plan that was staged, and its digest."""
    rig.image(SIZE_BYTES, name)
    plan = rig.folder / "night.json"
    rules = rig.folder / "images.yaml"
    rules.write_text(f"rules:\n  - {{platform: ios-xe, image: {name}, add: {str(adds).lower()}}}\n")
    made = rig.verb("plan", "--image-rules", rules, "--image-dir", rig.folder, "--output", plan, "--any-image")
    assert made.code == 0, made.err
    done = rig.verb("stage", "--plan", plan)
    assert done.code == 0, done.err
    return plan, json.loads(plan.read_text())["digest"]


def activated(rig, plan, digest, *arguments):
    done = rig.verb("activate", "--plan", plan, "--approve", digest[:8], "--i-have-console-access", *QUICK, *arguments)
    (device,) = done.json["run"]["devices"]
    return done, device


def test_an_image_that_was_added_is_activated_and_committed(router):
    """Ready, restarted once, as before, committed; the journal has nothing left, and a second try finds it done."""
    plan, digest = planned(router)
    before = router.configurations()
    done, device = activated(router, plan, digest)
    assert done.code == 0, (done.err, device["failure"])
    found = device["activation"]
    assert (found["outcome"], found["from_release"], found["to_release"]) == ("committed", "17.15.1a", "17.18.2")
    assert [one.split()[1] for one in found["commands"]] == ["activate", "commit"]
    assert found["away_s"] > 0
    assert router.configurations() == before
    assert "left" not in router.run("status").out
    again, device = activated(router, plan, digest)
    assert (again.code, device["outcome"], device["activation"]) == (0, "already there", None)


def test_what_is_lacking_behind_the_restart_is_rolled_back_by_the_devices_own_timer(router):
    """A port does not come up: not committed; the old image comes back, by no second command of ours."""
    plan, digest = planned(router)
    before = router.configurations()
    router.configure_by_hand("interface Loopback77", "ip address 198.51.100.77 255.255.255.255")
    router.world.fault(DEVICE, other_user_saves="ops")
    router.world.fault(DEVICE, ports_down_after_boot=("Loopback77",), seconds_per_minute=0.4)
    with router.started(*words(router, plan, digest)) as process:
        assert router.until(lambda: in_phase(router, "rolling back"))
        router.world.fault(DEVICE, ports_down_after_boot=())
        out, err = process.communicate(timeout=PATIENCE_S)
    (device,) = json.loads(out)["run"]["devices"]
    found = device["activation"]
    assert (process.returncode, found["outcome"], found["to_release"]) == (3, "rolled back", "17.15.1a"), err
    assert [one.split()[1] for one in found["commands"]] == ["activate"]
    assert (device["outcome"], device["restored"]) == ("failed", "restored")
    assert "Loopback77" in device["failure"]["reason"]
    assert "Loopback77" in router.configurations()[0] != before[0]


@pytest.mark.parametrize(
    ("faults", "outcome", "commands"),
    [
        ({"boots_old_image": True}, "came back with the old image", 1),
        ({"install_activate_fails": True}, "not activated", 0),
    ],
)
def test_a_device_that_keeps_its_image_is_told_as_that(router, faults, outcome, commands):
    """It is what it was, nothing was tried twice, and nobody says that it runs the image."""
    plan, digest = planned(router)
    before = router.configurations()
    router.world.fault(DEVICE, **faults)
    done, device = activated(router, plan, digest)
    found = device["activation"]
    assert (done.code, found["outcome"], len(found["commands"])) == (3, outcome, commands), done.err
    assert (device["restored"], found["to_release"]) == ("restored", "17.15.1a")
    assert router.configurations() == before
    assert json.loads(router.run("status", "--json").out)["needs_recovery"] is False


def test_a_device_that_does_not_come_back_stays_in_the_journal(router):
    """Nobody says what it runs; once somebody at its console has brought it back, recover tells and commits."""
    plan, digest = planned(router)
    router.world.fault(DEVICE, never_boots=True)
    done, device = activated(router, plan, digest)
    assert (done.code, device["outcome"], device["restored"]) == (5, "failed", "incomplete"), done.err
    assert device["activation"] is None
    refused = router.verb("stage", "--plan", plan)
    assert refused.json["run"]["devices"][0]["outcome"] == "refused" or refused.code != 0
    router.world.fault(DEVICE, never_boots=False)
    router.world.fault(DEVICE, reboot=0.5)
    recovered = router.run("recover", "--inventory", router.inventory, "--json")
    (seen,) = recovered.json["devices"]
    assert (recovered.code, seen["activation"]["outcome"]) == (0, "committed"), recovered.err
    assert [one.split()[1] for one in seen["activation"]["commands"]] == ["commit"]


@pytest.mark.parametrize("phase", ["activating", "committing"])
def test_a_run_killed_in_an_activation_is_ended_by_recover(router, phase):
    """Behind either of its steps: the device is committed in the end, restarted by no second command, nothing left."""
    plan, digest = planned(router)
    before = router.configurations()
    router.world.fault(DEVICE, **{"activating": {"hold_boot": True}, "committing": IN_COMMIT}[phase])
    with router.started(*words(router, plan, digest)) as process:
        router.until_held()
        assert in_phase(router, phase)
        process.kill()
        process.wait()
    router.release()
    recovered = router.run("recover", "--inventory", router.inventory, "--json")
    (seen,) = recovered.json["devices"]
    assert (recovered.code, seen["activation"]["outcome"]) == (0, "committed"), (recovered.err, seen)
    assert [one for one in seen["activation"]["commands"] if "activate" in one] == []
    assert router.configurations() == before
    assert "nothing to recover" in router.run("recover", "--inventory", router.inventory).out


def test_an_old_image_that_came_back_behind_a_dead_run_is_told(router):
    """Killed while it waits for the restart, and nobody looks: the device's own timer brings the old image back."""
    plan, digest = planned(router)
    before = router.configurations()
    router.world.fault(DEVICE, seconds_per_minute=0.1, hold_boot=True)
    with router.started(*words(router, plan, digest)) as process:
        router.until_held()
        process.kill()
        process.wait()
    router.release()
    assert router.until(lambda: "C    17.15.01a" in shown(router))
    recovered = router.run("recover", "--inventory", router.inventory, "--json")
    (seen,) = recovered.json["devices"]
    assert (recovered.code, seen["activation"]["outcome"]) == (0, "came back with the old image"), recovered.err
    assert (seen["restored"], router.configurations()) == ("restored", before)


def test_a_device_that_is_not_ready_any_more_is_not_restarted(router):
    """Somebody removed the inactive package since it was staged: refused with the condition, and nothing is sent."""
    plan, digest = planned(router)
    before = router.configurations()
    (path,) = (one.path for one in router.world.files(DEVICE) if one.name == NAME)
    path.write_bytes(b"something else")
    done, device = activated(router, plan, digest)
    assert (done.code, device["outcome"], device["failure"]["step"]) == (4, "refused", "ready")
    assert (router.configurations(), device["activation"]) == (before, None)
    assert "17.15.01a" in shown(router)


def test_a_device_of_which_nothing_could_be_lacking_is_not_restarted(router):
    """The user may not list the interfaces: what nobody saw before cannot be missed afterwards."""
    plan, digest = planned(router)
    router.world.fault(DEVICE, refuse_exec_pattern=r"^show ip interface brief")
    done, device = activated(router, plan, digest)
    assert (done.code, device["failure"]["step"], device["activation"]) == (3, "snapshot", None), done.err
    assert "C    17.15.01a" in shown(router)


def words(rig, plan, digest):
    return (
        *("activate", "--inventory", rig.inventory, "--json", "--plan", plan, "--approve", digest),
        *("--i-have-console-access", *QUICK),
    )


def shown(rig):
    """Return what `show install summary` prints, as a colleague sees it; empty while the device is away."""
    with suppress(Exception):
        return rig.shown_by_hand("show install summary")
    return ""


def in_phase(rig, phase):
    """Return whether the journal's file of the device says that its activation is that far."""
    with suppress(OSError, ValueError):
        kept = [json.loads(one.read_text())["activation"] for one in (rig.state / "leases").glob("*.json")]
        return any(json.loads(one)["phase"] == phase for one in kept)
    return False

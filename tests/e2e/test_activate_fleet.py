"""`activate` over several devices: rounds in their order, stopped by a failure, approved by the plan's digest."""

from __future__ import annotations

import json

import pytest
from ruamel.yaml import YAML

from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from tests.e2e.conftest import Rig
from tests.e2e.test_activate import QUICK, planned

pytestmark = [pytest.mark.lab, pytest.mark.soak]
OLD = "boot system bootflash:isr4300-universalk9.16.06.05.SPA.bin"
NAME = "isr4300-universalk9.16.12.05.SPA.bin"
HOSTS = ("core", "r1", "r2")


@pytest.fixture
def rig(tmp_path):
    """Three routers of one site; the others are reached through the first."""
    devices = tuple(DeviceSpec(name=name, platform="isr4321-16.6", config_lines=(OLD,)) for name in HOSTS)
    with start_world(WorldSpec(devices=devices, profile="lan")) as world:
        rig = Rig(world, tmp_path)
        path = rig.inventory / "hosts.yaml"
        hosts = YAML().load(path.read_text())
        for name, host in hosts.items():
            host["data"] |= {"site": "a", "console_access": True, "upstream": name == "core"}
            world.fault(name, boot_s=1.5)
        YAML().dump(hosts, path)
        yield rig


def activated(rig, plan, digest, *arguments):
    done = rig.verb("activate", "--plan", plan, "--approve", digest, *QUICK, *arguments)
    return done, {one["host"]: one for one in done.json["run"]["devices"]}


def rounds_of(done):
    return [line.rpartition(": ")[2] for line in done.err.splitlines() if " wave     round " in line]


def test_upstream_devices_go_last_and_one_of_a_site_at_a_time(rig):
    """The canary first; each round begins when the one before has ended well."""
    plan, digest = planned(rig, NAME, adds=False)
    done, devices = activated(rig, plan, digest)
    assert done.code == 0, done.err
    assert rounds_of(done) == ["r1", "r2", "core"]
    assert {one["activation"]["outcome"] for one in devices.values()} == {"activated"}


def test_a_canary_that_fails_leaves_the_others_alone(rig):
    """Nothing else is begun, nothing of the others is changed, and the run says why."""
    plan, digest = planned(rig, NAME, adds=False)
    before = {name: rig.world.startup_config(name) for name in HOSTS}
    rig.world.fault("r1", boots_old_image=True)
    done, devices = activated(rig, plan, digest)
    assert (done.code, devices["r1"]["activation"]["outcome"]) == (3, "came back with the old image"), done.err
    assert [devices[name]["outcome"] for name in ("r2", "core")] == ["not begun", "not begun"]
    assert "r1" in done.json["run"]["stopped"]
    assert [rig.world.startup_config(name) for name in ("r2", "core")] == [before[name] for name in ("r2", "core")]


def test_nothing_is_sent_without_the_approval_of_this_very_plan(rig):
    """Another digest, a few digits of it, none at all, a plan that was changed: refused before a device is asked."""
    plan, digest = planned(rig, NAME, adds=False)
    before = {name: rig.world.startup_config(name) for name in HOSTS}
    for approved in ("0" * 64, digest[:7], ""):
        done = rig.run("activate", "-i", rig.inventory, "--plan", plan, "--approve", approved)
        assert (done.code, "expected the approval of plan" in done.err) == (2, True), done.err
    done = rig.run("activate", "-i", rig.inventory, "--plan", plan)
    assert (done.code, "standard input is no terminal" in done.err) == (2, True), done.err
    content = json.loads(plan.read_text())
    content["devices"][0]["image_reason"] = "because"
    plan.write_text(json.dumps(content))
    done = rig.run("activate", "-i", rig.inventory, "--plan", plan, "--approve", digest)
    assert (done.code, "has changed since it was made" in done.err) == (2, True), done.err
    assert {name: rig.world.startup_config(name) for name in HOSTS} == before

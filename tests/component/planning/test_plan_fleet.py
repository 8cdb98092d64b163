"""`flashferry plan` over SSH stand-ins on plain loopback: what it finds and writes, and that it changes nothing."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry.cli import main as cli
from flashferry.core.values import replace
from flashferry.fileserver import CongestionControl, probe_capabilities
from flashferry.lab.world import DeviceSpec, Rung, World, WorldSpec, start_world
from flashferry.model import link_rates as pace
from flashferry.model.fleet_plan import Action
from flashferry.model.plan_file import load_plan
from tests.some import some

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    devices = (
        DeviceSpec(name="xe1"),
        DeviceSpec(name="xe2"),
        DeviceSpec(name="old1", platform="c2811-15.1"),
    )
    with start_world(WorldSpec(devices=devices), rung=Rung.LOOPBACK) as started:
        yield started


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    """An inventory of the world's devices and one that nobody answers for; rules, and two images."""
    hosts: dict[str, Any] = {
        one.name: {
            "hostname": one.address,
            "port": one.port,
            "platform": "ios",
            "username": one.username,
            "password": one.password,
            "data": {"site": "a", "link_rate_bps": 8_000_000, "enable_secret": one.enable_secret},
        }
        for one in world.devices
    }
    hosts["gone"] = hosts["xe1"] | {"hostname": "127.0.0.1", "port": 9}
    (tmp_path / "inventory").mkdir()
    YAML().dump(hosts, tmp_path / "inventory" / "hosts.yaml")
    rules = {"rules": [{"model": "28*", "stay": True}, {"platform": "ios-xe", "image": "xe.bin"}]}
    YAML().dump(rules, tmp_path / "inventory" / "images.yaml")
    for name in ("xe.bin", "special.bin"):
        (tmp_path / "inventory" / name).write_bytes(os.urandom(100_000))
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def go(*arguments: str, verb: str = "plan") -> tuple[int, str, str]:
        given = ["flashferry", verb, "-i", str(folder / "inventory"), "--state-dir", str(folder / "state")]
        monkeypatch.setattr(sys, "argv", [*given, *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return go


def _changed(folder: Path, **hosts: dict[str, Any]) -> None:
    path = folder / "inventory" / "hosts.yaml"
    yaml = YAML()
    found = yaml.load(path)
    for name, data in hosts.items():
        found[name]["data"].update(data)
    yaml.dump(found, path)


def test_each_device_gets_what_rules_and_inventory_say(run: Run, folder: Path, world: World) -> None:
    """Rules, an explicit image, a rule to stay and a device that is gone: each is told, and no device is changed."""
    _changed(folder, xe2={"image": "special.bin"})
    before = {one.name: (world.running_config(one.name), world.files(one.name)) for one in world.devices}
    code, out, _ = run("--json", "--output", str(folder / "plan.json"))
    assert code == 3
    plan = load_plan(folder / "plan.json")
    found = {device.host: (device.action, device.image, device.wave) for device in plan.devices}
    assert found == {
        "xe1": (Action.STAGE, "xe.bin", 0),
        "xe2": (Action.STAGE, "special.bin", 1),
        "old1": (Action.STAYS, None, -1),
        "gone": (Action.UNREACHABLE, None, -1),
    }
    assert [image.name for image in plan.images] == ["special.bin", "xe.bin"]
    first = plan.devices[0]
    assert (first.image_reason, first.model, first.is_assumed) == ("rule 2: platform ios-xe", "CSR1000V", True)
    assert plan.assumptions[-1].startswith("1 of 4 devices: out of reach now and not in the forecast")
    assert json.loads(out)["schema"] == "flashferry.plan/1"
    assert {one.name: (world.running_config(one.name), world.files(one.name)) for one in world.devices} == before
    assert not (folder / "state" / "journal.sqlite3").exists()
    for one in some(world.devices):
        assert one.password not in out
        assert one.enable_secret not in out


def test_a_device_with_netmiko_s_name_for_its_platform_is_logged_in_to(run: Run, folder: Path) -> None:
    """`cisco_xe` is what an inventory for netmiko says; the device is looked at like any other."""
    path = folder / "inventory" / "hosts.yaml"
    yaml = YAML()
    found = yaml.load(path)
    found["xe1"]["platform"] = "cisco_xe"
    yaml.dump(found, path)
    code, _, err = run("-H", "xe1", "--output", str(folder / "plan.json"))
    assert (code, [one.action for one in load_plan(folder / "plan.json").devices]) == (0, [Action.STAGE]), err


def test_a_plan_for_people_tells_the_verdict_and_what_would_help(run: Run) -> None:
    """Sites, waves and the sentence about the end are there; a run of a second fits."""
    code, out, _ = run("-H", "xe1", "-H", "xe2", "--until", "2099-01-01T05:00")
    assert code == 0
    assert "0 (canary)" in out
    assert "1 (site a)" in out
    assert "it fits: the run takes" in out
    assert "Nothing was changed." in out


def test_an_image_of_another_platform_is_refused_unless_insisted_on(run: Run, folder: Path) -> None:
    """A CSR 1000V is not given what is named, or carries inside, the name of an ISR 4300's image."""
    named, renamed = (folder / "inventory" / name for name in ("isr4300-universalk9.16.09.08.SPA.bin", "new.bin"))
    named.write_bytes(os.urandom(100_000))
    renamed.write_bytes(os.urandom(100_000) + b"CW_BEGIN=$$CW_IMAGE=$isr4300-universalk9.16.09.08.SPA.bin$CW_END=$$")
    for image in (named, renamed):
        code, out, _ = run("-H", "xe1", "--image", str(image), "--json")
        (device,) = json.loads(out)["devices"]
        assert (code, device["action"]) == (4, "refused")
        assert "is for the family ISR 4300" in device["reason"]
        assert "this is a CSR1000V (CSR 1000V)" in device["reason"]
        assert "--any-image" in device["hint"]
    code, out, _ = run("-H", "xe1", "--image", str(named), "--any-image", "--json")
    (device,) = json.loads(out)["devices"]
    assert (code, device["action"]) == (0, "stage")
    assert device["notes"][-1].endswith("staged all the same (--any-image)")


def test_settings_of_the_run_are_kept_in_the_plan(run: Run, folder: Path) -> None:
    """Each by its name; with `add` every device that is staged adds its image, and the run has them all."""
    kept, image = folder / "kept.json", folder / "inventory" / "special.bin"
    chosen = ("--add", "--ready", "--no-dead-man", "--verify-signature", "--site-copies", "3")
    assert run("-H", "xe1", "--image", str(image), *chosen, "--output", str(kept))[0] == 0
    plan = load_plan(kept)
    assert [one.adds for one in plan.of(Action.STAGE)] == [True]
    policy = plan.run_policy
    assert (policy.add, policy.ready, policy.dead_man, policy.verify_signature) == (True, True, False, True)
    assert policy.limits.site_copies == 3


def test_one_image_for_several_platforms_is_refused_unless_insisted_on(run: Run, folder: Path) -> None:
    """Whatever it is, it is wrong for some: all are refused with the platforms named; the plan keeps the wish."""
    image = ("--image", str(folder / "inventory" / "special.bin"))
    code, out, _ = run("-H", "xe1", "-H", "xe2", "-H", "old1", *image, "--json")
    devices = json.loads(out)["devices"]
    assert (code, [one["action"] for one in devices]) == (4, ["refused"] * 3)
    assert devices[0]["reason"] == (
        "special.bin is given to 2 platforms, CSR 1000V (xe1 and 1 more), 2800 (old1): one image is for one of them"
    )
    kept = folder / "plan.json"
    assert run("-H", "xe1", "-H", "old1", *image, "--any-image", "--output", str(kept))[0] == 0
    assert load_plan(kept).any_image
    assert run("-H", "xe1", "-H", "xe2", *image, "--output", str(kept))[0] == 0
    assert not load_plan(kept).any_image


def _without_rates(folder: Path) -> None:
    _changed(folder, **{name: {"link_rate_bps": None} for name in ("xe1", "xe2", "old1", "gone")})


def _without_bbr(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = CongestionControl(name="bbr", granted=False, reason="not permitted")
    capabilities = replace(probe_capabilities(), paces=True, congestion_controls=(refused,))
    monkeypatch.setattr(pace, "probe_capabilities", lambda: capabilities)


def test_a_site_without_a_link_rate_is_planned_where_copies_find_their_pace(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the link carries is then not known, and the plan says so; it is no reason to refuse."""
    granted = CongestionControl(name="bbr", granted=True)
    capabilities = replace(probe_capabilities(), paces=True, congestion_controls=(granted,))
    monkeypatch.setattr(pace, "probe_capabilities", lambda: capabilities)
    _without_rates(folder)
    code, out, _ = run("-H", "xe1", "--json")
    found = json.loads(out)
    assert (code, found["devices"][0]["action"], found["sites"][0]["link_rate_bps"]) == (0, "stage", None)
    assert found["assumptions"][-1].startswith("no link rate is stated for site 'a': copies find their pace themselves")


@pytest.mark.parametrize("verb", ["plan", "stage"])
def test_no_cap_and_no_pace_is_one_sentence_and_no_login(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Both verbs refuse, with the same words and the same way to insist, before any device is asked."""
    _without_rates(folder)
    _without_bbr(monkeypatch)
    image = () if verb == "plan" else ("--image", str(folder / "inventory" / "xe.bin"), "--dry-run")
    code, out, err = run(*image, verb=verb)
    assert (code, out) == (2, "")
    assert "site 'a': data key 'link_rate_bps': expected the rate of the WAN link" in err
    assert "--uncapped" in err
    assert len(err.splitlines()) == 1
    code, out, _ = run(*image, "-H", "xe1", "--uncapped", "--json", verb=verb)
    assert code == 0
    assert json.loads(out)["devices"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--image", "a.bin", "--image-rules", "b.yaml"), "--image cannot be combined with --image-rules"),
        (("--image", "nowhere.bin"), "image nowhere.bin: expected a file, found nothing"),
        (("--image-rules", "nowhere.yaml"), "no image rules at nowhere.yaml"),
        (("--md5", "0" * 32), "--md5 and --sha512 are hashes of an image"),
        (("--until", "2020-01-01T05:00"), "expected a time in the future"),
        (("--window", "22:00-05:00", "--until", "05:00"), "--window cannot be combined with --until"),
        (("--max-failures", "some"), "--max-failures 'some': expected a count"),
    ],
)
def test_bad_input_is_one_sentence_before_any_login(run: Run, arguments: tuple[str, ...], told: str) -> None:
    """What is wrong with the options is told at once, with exit code 2."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_missing_image_of_the_rules_ends_the_plan(run: Run, folder: Path) -> None:
    """A rule whose image is nowhere is the operator's to mend: one sentence, no half plan."""
    (folder / "inventory" / "xe.bin").unlink()
    code, _, err = run("-H", "xe1", "--output", str(folder / "plan.json"))
    assert code == 2
    assert "image xe.bin (rule 2: platform ios-xe): expected a file of this name in" in err.splitlines()[-1]
    assert not (folder / "plan.json").exists()


@pytest.mark.parametrize(
    ("platform", "image", "places"),
    [
        ("c9300-bundle-17.6", "cat9k_iosxe.17.09.05.SPA.bin", 2),
        ("c9300-17.6", "cat9k_iosxe.17.09.05.SPA.bin", 0),
        ("asr1006-dual-16.3", "asr1000rpx86-universalk9.16.09.04.SPA.bin", 1),
    ],
)
def test_a_plan_knows_members_and_standby(run: Run, folder: Path, platform: str, image: str, places: int) -> None:
    """What the run will copy inside the box is in the plan, with the time it takes; install mode does it by itself."""
    (folder / image).write_bytes(os.urandom(1_000_000))
    with _one_device(folder, platform):
        code, out, err = run("--image", str(folder / image), "--json")
    assert code == 0, err
    (device,) = json.loads(out)["devices"]
    assert (device["action"], device["other_places"], device["adds"]) == ("stage", places, False)
    assert (device["finish_s"] > 0) is (places > 0)


def test_what_cannot_be_told_of_members_is_noted(run: Run, folder: Path) -> None:
    """A user who may not list file systems gets a plan all the same, and a rule that adds in vain is told."""
    image = "asr1000rpx86-universalk9.16.09.04.SPA.bin"
    (folder / "inventory" / image).write_bytes(os.urandom(100_000))
    YAML().dump({"rules": [{"image": image, "add": True}]}, folder / "inventory" / "images.yaml")
    with _one_device(folder, "asr1006-dual-16.3") as world:
        world.fault("xe1", refuse_exec_pattern="^show file systems")
        code, out, err = run("--json")
    assert code == 0, err
    (device,) = json.loads(out)["devices"]
    assert (device["action"], device["other_places"], device["adds"]) == ("stage", 0, True)
    assert any("whether the image goes to another supervisor" in note for note in device["notes"])
    assert "nothing is added: it does not boot from packages" in device["notes"]


@contextmanager
def _one_device(folder: Path, platform: str) -> Iterator[World]:
    """Start a device of a platform and make it the inventory."""
    with start_world(WorldSpec(devices=(DeviceSpec(name="xe1", platform=platform),)), rung=Rung.LOOPBACK) as world:
        (one,) = world.devices
        data = {"site": "a", "link_rate_bps": 8_000_000, "enable_secret": one.enable_secret}
        login = {"hostname": one.address, "port": one.port, "username": one.username, "password": one.password}
        YAML().dump({"xe1": login | {"platform": "ios", "data": data}}, folder / "inventory" / "hosts.yaml")
        yield world

"""`flashferry plan` over SSH stand-ins on plain loopback: what it finds and writes, and that it changes nothing."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry import cli
from lab.world import DeviceSpec, Rung, World, WorldSpec, start_world
from staging.planning.fleet_plan import Action
from staging.planning.plan_file import load_plan

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
    def go(*arguments: str) -> tuple[int, str, str]:
        given = ["flashferry", "plan", "-i", str(folder / "inventory"), "--state-dir", str(folder / "state")]
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
    code, out, _ = run("--json", "--out", str(folder / "plan.json"))
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
    for one in world.devices:
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
    assert "0 canary" in out
    assert "1 site a" in out
    assert "it fits: the run takes" in out
    assert "Nothing was changed." in out


def test_a_site_without_a_link_rate_is_one_sentence_and_no_login(run: Run, folder: Path, world: World) -> None:
    """Without a rate nothing can be foretold; that is found before any device is asked."""
    _changed(folder, **{name: {"link_rate_bps": None} for name in ("xe1", "xe2", "old1", "gone")})
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "site 'a': data key 'link_rate_bps': expected the rate of its WAN link" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--image", "a.bin", "--images", "b.yaml"), "--image cannot be combined with --image-rules"),
        (("--image", "nowhere.bin"), "image nowhere.bin: expected a file, found nothing"),
        (("--images", "nowhere.yaml"), "no image rules at nowhere.yaml"),
        (("--md5", "0" * 32), "--md5 and --sha512 are hashes of an image"),
        (("--until", "2020-01-01T05:00"), "expected a time to come"),
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
    code, _, err = run("-H", "xe1", "--out", str(folder / "plan.json"))
    assert code == 2
    assert "image xe.bin (rule 2: platform ios-xe): expected a file of this name in" in err.splitlines()[-1]
    assert not (folder / "plan.json").exists()

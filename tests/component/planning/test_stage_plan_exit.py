"""`flashferry stage --plan` with devices that the plan does not stage: exit codes by the table of the documentation."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry.cli import main as cli
from flashferry.lab.world import DeviceSpec, Rung, World, WorldSpec, start_world

Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    devices = (
        DeviceSpec(name="good1"),
        DeviceSpec(name="full1", flash_free_bytes=50_000),
        DeviceSpec(name="old1", platform="c2811-15.1"),
    )
    with start_world(WorldSpec(devices=devices), rung=Rung.LOOPBACK) as started:
        yield started


@pytest.fixture
def run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    hosts: dict[str, Any] = {
        one.name: {
            "hostname": one.address,
            "port": one.port,
            "platform": "ios",
            "username": one.username,
            "password": one.password,
            "data": {"link_rate_bps": 80_000_000, "enable_secret": one.enable_secret},
        }
        for one in world.devices
    }
    hosts["gone1"] = hosts["good1"] | {"hostname": "127.0.0.1", "port": 9}
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    YAML().dump(hosts, inventory / "hosts.yaml")
    rules = {"rules": [{"model": "28*", "stay": True}, {"platform": "ios-xe", "image": "xe.bin"}]}
    YAML().dump(rules, inventory / "images.yaml")
    (inventory / "xe.bin").write_bytes(os.urandom(100_000))

    def go(verb: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
        given = ["flashferry", verb, "-i", str(inventory), "--state-dir", str(tmp_path / "state")]
        monkeypatch.setattr(sys, "argv", [*given, *arguments, "--json"])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), json.loads(out), err

    yield go
    for device in world.devices:
        for file in world.files(device.name):
            if file.path.name == "xe.bin":
                file.path.unlink()


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {one["host"]: one["outcome"] for one in document["run"]["devices"]}


@pytest.mark.parametrize(
    ("hosts", "code", "expected"),
    [
        (("good1", "old1"), 0, {"good1": "done", "old1": "not begun"}),
        (("good1", "full1", "old1"), 4, {"good1": "done", "full1": "refused", "old1": "not begun"}),
        (("good1", "full1", "gone1"), 3, {"good1": "done", "full1": "refused", "gone1": "failed"}),
    ],
)
def test_stage_and_resume_end_with_what_the_plan_s_devices_come_to(run, tmp_path, hosts, code, expected):
    """Stage, and resume of the same run, name every device of the plan and count it; a rule to stay counts as fine."""
    plan = str(tmp_path / "night.json")
    chosen = [word for host in hosts for word in ("--host", host)]
    assert run("plan", *chosen, "--output", plan)[0] == code
    found, document, err = run("stage", "--plan", plan, *chosen, "--dry-run")
    assert found == code, err
    assert {one["host"]: one["outcome"] for one in document["devices"]} == expected
    found, document, err = run("stage", "--plan", plan, *chosen, "--port", "0")
    assert (found, document["exit_code"], outcomes(document)) == (code, code, expected), err
    found, document, err = run("stage", "--resume", "latest", "--port", "0")
    assert (found, outcomes(document)) == (code, expected | {"good1": "done"}), err
    assert run("recover")[0] == 0

"""`flashferry ready` over SSH stand-ins on plain loopback: a stack through `install add`, a plan, and many routers."""

import json
import os
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.ready import measure
from flashferry.cli import main as cli
from flashferry.lab.standin.files import sign
from flashferry.lab.world import DeviceSpec, Rung, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.store.journal import Journal

Run = Callable[..., tuple[int, str, str]]
IMAGE = "isr4300-universalk9.16.12.04.SPA.bin"
RUNNING = "bootflash:isr4300-universalk9.16.06.05.SPA.bin"


@pytest.fixture
def world() -> Iterator[World]:
    line = (f"boot system {RUNNING}",)
    devices = tuple(DeviceSpec(name=name, platform="isr4321-16.6", config_lines=line) for name in ("r1", "r2"))
    with start_world(WorldSpec(devices=devices), rung=Rung.LOOPBACK) as started:
        yield started


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / IMAGE
    path.write_bytes(sign(os.urandom(50_000)))
    return path


@pytest.fixture
def run(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    inventory = write_inventory(world, tmp_path / "inventory")

    def go(verb: str, *arguments: str | Path) -> tuple[int, str, str]:
        given = ["flashferry", verb, "-i", str(inventory), "--state-dir", str(tmp_path / "state")]
        monkeypatch.setattr(sys, "argv", [*given, *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return go


def place(world: World, name: str, image: Path) -> Path:
    path = world.files(name)[0].path.parent / image.name
    path.write_bytes(image.read_bytes())
    return path


def answers(out: str) -> dict[str, str]:
    return {one["host"]: one["readiness"]["verdict"] for one in json.loads(out)["devices"]}


def test_one_that_is_not_ready_is_told_with_its_reason(world, image, run, monkeypatch, tmp_path):
    """Table, document and JUnit say the same; no line of the table is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("r1", "r2"):
        place(world, name, image)
    assert run("ready", "--image", image)[0] == 0
    place(world, "r2", image).write_bytes(b"x")
    junit = tmp_path / "ready.xml"
    code, out, _ = run("ready", "--image", image, "--junit", junit)
    assert code == 4
    assert max(map(len, out.splitlines())) <= 80
    assert "1 of 2 devices ready" in out
    code, out, _ = run("ready", "--image", image, "--json")
    assert (code, answers(out)) == (4, {"r1": "yes", "r2": "no"})
    (broken,) = (one for one in json.loads(out)["devices"][1]["readiness"]["conditions"] if one["met"] == "not met")
    assert (broken["name"], broken["command"], len(broken["lines"])) == ("image", "dir bootflash:", 1)
    cases = ET.parse(junit).getroot().iter("testcase")
    assert {case.get("name") for case in cases if case.find("failure") is not None} == {
        "r2: ready",
        "r2: image (bootflash:)",
    }


def test_the_word_of_a_device_that_reported_a_false_copy_is_no_proof(world, image, run, tmp_path):
    """Check, plan, a dry run and ready say what stage would: one file is refused, the other device has a note."""
    place(world, "r1", image)
    with Journal(tmp_path / "state") as journal:
        run_id = journal.begin_run("stage")
        for host in ("r1", "r2"):
            journal.add_device(run_id, host=host, address="127.0.0.1", port=22, platform="ios", image=IMAGE)
            journal.record(run_id, host, {"outcome": "failed", "failure": {"kind": "NotDelivered"}})
        journal.finish_run(run_id)
    file, copy = f"bootflash:{IMAGE} is there", f"its last copy was false: in run {run_id}"

    code, out, _ = run("check", "--image", image, "--json")
    r1, r2 = json.loads(out)["devices"]
    assert (code, r1["outcome"], r2["outcome"]) == (4, "refused", "done")
    assert r1["failure"]["reason"].startswith(file)
    assert any(note.startswith(copy) for note in r2["check"]["notes"])

    _, out, err = run("plan", "--image", image, "--json")
    r1, r2 = json.loads(out)["devices"]
    assert (r1["action"], r2["action"]) == ("refused", "stage"), err
    assert r1["reason"].startswith(file)
    assert any(note.startswith(copy) for note in r2["notes"])

    _, out, err = run("stage", "--image", image, "--dry-run", "--json")
    r1, r2 = json.loads(out)["devices"]
    assert (r1["outcome"], r2["outcome"]) == ("refused", "done"), err
    assert r1["failure"]["reason"].startswith(file)
    assert any(note.startswith(copy) for note in r2["notes"])

    code, out, err = run("ready", "--image", image, "--json")
    assert code == 4, err
    assert answers(out)["r1"] == "unknown"


def test_nobody_at_home_is_another_answer_than_not_ready(world, image, run, tmp_path):
    """A device out of reach is 3, and its reason is told."""
    place(world, "r1", image)
    hosts = tmp_path / "inventory" / "hosts.yaml"
    text = hosts.read_text()
    port = str(next(one.port for one in world.devices if one.name == "r2"))
    assert port in text
    hosts.write_text(text.replace(f"port: {port}", "port: 9") if f"port: {port}" in text else text.replace(port, "9"))
    code, out, _ = run("ready", "--image", image, "--json")
    found = json.loads(out)
    assert (code, found["ready"]) == (3, False)
    assert [one["outcome"] for one in found["devices"]].count("failed") >= 1


@pytest.mark.soak
def test_a_plan_is_answered_for_the_whole_night(world, image, run, tmp_path):
    """Staged by it, all are ready; the image file here is not needed; what changed since is told."""
    plan = tmp_path / "night.json"
    assert run("plan", "--image", image, "--any-image", "--uncapped", "--output", plan)[0] == 0
    assert run("ready", "--plan", plan)[0] == 4
    code, out, err = run("stage", "--plan", plan, "--port", "0", "--json")
    assert code == 0, out + err
    image.rename(tmp_path / "elsewhere.bin")
    code, out, _ = run("ready", "--plan", plan, "--json")
    found = json.loads(out)
    assert (code, found["ready"], answers(out)) == (0, True, {"r1": "yes", "r2": "yes"})
    assert all(one["staged_by"] and one["since"] == [] for one in found["devices"])


@pytest.mark.soak
def test_many_routers_are_asked_at_the_same_time():
    """Of forty of which ten are broken each is told apart."""
    found = measure(40, 10)
    assert (found.wrong, found.answers) == ((), {"no": 10, "yes": 30})


def test_only_devices_of_the_plan_are_asked(run, tmp_path):
    """A file that is no plan is told in a sentence."""
    path = tmp_path / "no.json"
    path.write_text("{}")
    assert run("ready", "--plan", path)[0] == 2
    assert run("ready", "--plan", path, "--image", path)[0] == 2
    assert run("ready", "--md5", "a" * 32)[0] == 2

"""`flashferry lab up` starts the world it is given, says how to reach it, and leaves nothing behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

WORLD = """
[[sites]]
name = "east"
link = "lan"
[[sites.devices]]
name = "e1"

[[sites]]
name = "west"
[sites.link]
profile = "dsl"
jitter_ms = 0
[[sites.devices]]
name = "w"
count = 2
"""

DEPOT = """
[[sites]]
name = "east"
link = "lan"
depot = true
[[sites.devices]]
name = "e1"

[[sites]]
name = "west"
link = "lan"
[[sites.devices]]
name = "w1"
"""


@contextlib.contextmanager
def _up(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "flashferry", "lab", "up", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder)},
    ) as lab:
        try:
            yield lab
        finally:
            lab.kill()


def _run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "flashferry", "lab", *arguments]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=PATIENCE_S, check=False
    )


@pytest.mark.lab
def test_a_world_of_ones_own_comes_up(tmp_path: Path) -> None:
    """Rung, sites, devices and a ready inventory are told; a second lab is refused; Ctrl-C takes everything away."""
    from inventory.nornir_loader import open_inventory

    (tmp_path / "mine.toml").write_text(WORLD)
    with _up(tmp_path, "mine.toml", "--json") as lab:
        text = ""
        while not text.endswith("\n}\n"):
            text += lab.stdout.readline()
        told = json.loads(text)
        hosts = open_inventory(Path(told["inventory"])).inventory.hosts
        inside = _run(tmp_path, "exec", "--json", sys.executable, "-c", "import sys; print(7); sys.exit(3)")
        with _up(tmp_path) as second:
            _, complaint = second.communicate(timeout=PATIENCE_S)
        lab.send_signal(signal.SIGINT)
        assert lab.wait(timeout=PATIENCE_S) == 0
    ran = json.loads(inside.stdout)
    assert (inside.returncode, ran["command_exit_code"], ran["stdout"], ran["stderr"]) == (0, 3, "7\n", "")
    assert (told["devices"][0]["username"], told["devices"][0]["password"]) == ("ferry", "ferry-lab-login")
    assert told["rung"] == "namespaces with an emulated WAN"
    assert told["reason"] is None
    assert [site["name"] for site in told["sites"]] == ["east", "west"]
    assert told["sites"][1]["link"]["to_core"]["rate_bps"] == 1e6
    assert [(one["name"], one["site"]) for one in told["devices"]] == [("e1", "east"), ("w1", "west"), ("w2", "west")]
    assert {name: host.hostname for name, host in hosts.items()} == {
        one["name"]: one["address"] for one in told["devices"]
    }
    assert hosts["w1"]["link_rate_bps"] == 16_000_000
    assert second.returncode == 2
    assert "already running" in complaint
    assert not Path(told["inventory"]).exists()
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.lab
def test_sites_of_a_running_lab_are_reached_and_cut_off(tmp_path: Path) -> None:
    """`exec --site` runs on the depot host; `cut` and `mend` take a link down and up; what is not there is named."""
    (tmp_path / "mine.toml").write_text(DEPOT)
    dial = (sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], 22), 2)")
    with _up(tmp_path, "mine.toml", "--json") as lab:
        text = ""
        while not text.endswith("\n}\n"):
            text += lab.stdout.readline()
        east, west = json.loads(text)["sites"]
        e1, w1 = (one["address"] for one in json.loads(text)["devices"])
        codes = [_run(tmp_path, "exec", "--site", "east", *dial, e1).returncode]
        assert _run(tmp_path, "cut", "east").returncode == 0
        codes += [_run(tmp_path, "exec", *dial, address).returncode for address in (e1, w1)]
        codes.append(_run(tmp_path, "exec", "--site", "east", *dial, e1).returncode)
        assert _run(tmp_path, "mend", "east").returncode == 0
        codes.append(_run(tmp_path, "exec", *dial, e1).returncode)
        wrong = [_run(tmp_path, "cut", "north"), _run(tmp_path, "exec", "--site", "west", "true")]
        lab.send_signal(signal.SIGINT)
        assert lab.wait(timeout=PATIENCE_S) == 0
    assert east["depot"] == {"name": "east-depot", "address": "198.18.1.10", "lan": None}
    assert "depot" not in west
    assert codes == [0, 1, 0, 0, 0]
    assert [one.returncode for one in wrong] == [2, 2]
    assert "unknown site 'north': the lab has east, west" in wrong[0].stderr
    assert "no depot at 'west': the lab has depots at east" in wrong[1].stderr


def test_a_wrong_world_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """File, place, key and what is allowed; exit code 2, and nothing starts."""
    (tmp_path / "mine.toml").write_text(WORLD.replace("jitter_ms = 0", "jitter_ms = 99"))
    with _up(tmp_path, "mine.toml") as lab:
        out, complaint = lab.communicate(timeout=PATIENCE_S)
    assert lab.returncode == 2
    assert out == ""
    assert "jitter_s: expected at most the delay" in complaint
    assert "mine.toml: sites[1]: link" in complaint

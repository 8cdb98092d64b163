"""A pilot on the lab: nothing without consent, the router as it was, and a folder that names nothing of the network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.e2e.conftest import DEVICE
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

STEPS = ("check", "reach", "probe", "tune", "copy", "kill")
ALL = tuple(word for step in STEPS for word in ("--yes", step))
LINES = (
    "snmp-server community Gr0ssGeheim RO",
    "ip host nms.goldbank.ch 172.31.5.6",
    "snmp-server location Bahnhofstrasse",
)


def folder_text(folder) -> str:
    """Return all names and texts of a pilot's folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return "\n".join(f"{path.relative_to(folder)}\n{path.read_text(encoding='utf-8')}" for path in files)


def pilot(rig, *arguments):
    return rig.run("pilot", DEVICE, "--inventory", rig.inventory, "--output", rig.folder / "pilot", *arguments)


def facts(done, verdict: str) -> set[str]:
    return {one["id"] for one in done.json["facts"] if one["verdict"] == verdict}


@pytest.mark.parametrize("platform", ["csr1000v-16.11", pytest.param("iosv-15.8", marks=pytest.mark.soak)])
def test_all_steps(new_rig, platform):
    """IOS and IOS-XE: each step is done, the configurations are as before, and facts are confirmed or refuted."""
    with new_rig(platform=platform, config_lines=LINES) as rig:
        before = rig.configurations()
        done = pilot(rig, *ALL, "--json")
        assert done.code == 0, done.err
        assert [(one["step"], one["status"]) for one in done.json["steps"]] == [(step, "done") for step in STEPS]
        assert rig.configurations() == before
        assert "nothing to recover" in rig.run("status").out
        assert {"window-scales", "sack-offered", "undone", "copy-question", "verify", "killed", "recovered"} <= facts(
            done, "confirmed"
        )
        # The manuals' 4128 is not what the clients of these releases offer, nor what their stand-ins do.
        assert facts(done, "refuted") == {"window-default"}
        text = folder_text(rig.folder / "pilot")
        own = {os.uname().nodename, rig.world.devices[0].address, *rig.secrets, "ferry-", DEVICE, "9LABSTANDIN"}
        own |= {"Gr0ssGeheim", "goldbank", "172.31.5.6", "Bahnhofstrasse", "lab.example", str(rig.folder)}
        assert [word for word in own if re.search(rf"(?<![\w]){re.escape(word)}(?!\w)", text)] == []
        assert "| window-default | At its default the SYN" in text
        assert {"captures/NOTICE", "pilot.md"} < {
            str(path.relative_to(rig.folder / "pilot")) for path in (rig.folder / "pilot").rglob("*")
        }
        again = pilot(rig, *ALL)
        assert (again.code, "expected an empty folder" in again.err) == (2, True)


def test_only_what_is_consented_to_is_done(rig):
    """At a terminal each step is asked for; Enter is no: nothing is sent for it, and the result says so."""
    controller, terminal = os.openpty()
    inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(rig.world.core_pid), "--"]
    words = ["pilot", DEVICE, "--inventory", str(rig.inventory), "--output", str(rig.folder / "pilot"), "--json"]
    process = subprocess.Popen(
        [*inside, sys.executable, "-P", "-m", "flashferry", *words],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"FLASHFERRY_STATE_DIR": str(rig.state)},
    )
    os.close(terminal)
    answers = {"check": b"y\n", "reach": b"yes\n"}
    printed = b""
    try:
        for step in STEPS:
            while f"\n{step} {DEVICE}? [y/N] ".encode() not in printed:
                got = os.read(process.stderr.fileno(), 4096)
                assert got, printed.decode()
                printed += got
            os.write(controller, answers.get(step, b"\n"))
        out, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(controller)
    document = json.loads(out)
    declined = dict.fromkeys(STEPS, "declined") | {"check": "done", "reach": "done"}
    assert {one["step"]: one["status"] for one in document["steps"]} == declined
    assert (process.returncode, document["exit_code"]) == (6, 6)
    assert not [one for one in rig.world.happened(DEVICE) if "configure terminal" in one]
    assert sorted(path.name for path in (rig.folder / "pilot" / "transcript").iterdir()) == [
        "01-check.txt",
        "02-reach.txt",
    ]

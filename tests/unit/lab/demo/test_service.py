"""The demo of the service, what of it needs neither lab nor service: its place, its lines, its judgement."""

from __future__ import annotations

import hashlib
import os
import threading
from types import SimpleNamespace

import pytest

from flashferry.cli.main import main
from flashferry.core.errors import ConfigInvalid
from flashferry.lab.demo.service import scenario
from flashferry.lab.demo.service.environment import listening, opened_environment
from flashferry.lab.demo.service.scenario import Progress, judged
from flashferry.lab.world import WorldSpec

IMAGE = b"image"
DIGESTS = {"image.bin": hashlib.sha256(IMAGE).hexdigest()}


def test_a_port_in_use_is_not_waited_for():
    """Another one is taken, and the output names the one that was asked for."""
    first, moved = listening(0)
    with first:
        assert moved is None
        port = first.getsockname()[1]
        second, moved = listening(port)
        with second:
            assert moved == port
            assert second.getsockname()[1] not in {0, port}


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    """Before anything is started."""
    (tmp_path / "old").touch()
    events = threading.Event(), threading.Event()
    with (
        pytest.raises(ConfigInvalid, match="expected a new folder"),
        opened_environment(WorldSpec(), tmp_path, *events),
    ):
        pass


def test_without_root_it_says_what_the_other_demo_says(monkeypatch, capsys):
    """The same sentence and exit code."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    values = []
    for verb in ("demo", "service-demo"):
        monkeypatch.setattr("sys.argv", ["flashferry", "lab", verb])
        with pytest.raises(SystemExit) as ended:
            main()
        values.append((ended.value.code, *capsys.readouterr()))
    assert values[0] == values[1]
    assert "needs root" in values[1][2]


def device(host, wave, state="planned", outcome=None):
    return {"host": host, "wave": wave, "state": state, "outcome": outcome}


def test_a_run_is_printed_in_few_lines(monkeypatch, capsys):
    """Each wave as it changes, at most every few seconds, its end at once; of one that has not begun nothing."""
    now = [0.0]
    monkeypatch.setattr(scenario, "time", SimpleNamespace(monotonic=lambda: now[0]))
    progress = Progress({0: "canary", 1: "site AMS"}, "http://demo")
    looks = (
        (1.0, ("copying", None), ("planned", None)),
        (2.0, ("copied", None), ("planned", None)),
        (7.0, ("verified", None), ("planned", None)),
        (8.0, ("done", "done"), ("planned", None)),
        (9.0, ("done", "done"), ("copying", None)),
        (99.0, ("done", "done"), ("failed", "failed")),
        (199.0, ("done", "done"), ("failed", "failed")),
    )
    for now[0], first, second in looks:
        progress.show("run-1", [device("a", 0, *first), device("b", 1, *second)])
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "http://demo/runs/run-1",
        "1 s wave 0 (canary) 1 copying",
        "7 s wave 0 (canary) 1 restoring",
        "8 s wave 0 (canary) 1 done",
        "99 s wave 1 (site AMS) 1 failed",
    ]


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({}, []),
        ({"outcome": "failed", "reason": "no route"}, ["r1: failed: no route"]),
        ({"restore": {"proof": "not proven restored"}}, ["r1: its configuration is not proven restored"]),
        ({"host": "r2"}, ["r1: it is not in the run"]),
        ({"changed": "one line more"}, ["r1: one line more"]),
        ({"held": b"other"}, ["r1: image.bin on its flash is not the image"]),
        ({"faults": ["entry 3 is gone"]}, ["audit: entry 3 is gone"]),
    ],
)
def test_whatever_is_not_as_it_should_be_is_printed(change, values, tmp_path, capsys):
    """A sentence for each, in the result and on the terminal; and nothing is said to be well that is not."""
    reported_device = {
        "host": "r1", "outcome": "done", "reason": None, "image": "image.bin",
        "restore": {"proof": "proven equal to the start"},
    } | {key: change[key] for key in ("host", "outcome", "reason", "restore") if key in change}  # fmt: skip
    (tmp_path / "flash").write_bytes(change.get("held", IMAGE))
    file = SimpleNamespace(name="image.bin", path=tmp_path / "flash")
    world = SimpleNamespace(devices=(SimpleNamespace(name="r1"),), files=lambda _: (file,))
    faults = change.get("faults", [])
    audit = {"is_whole": not faults, "entries": 7, "faults": faults}
    changed = {"r1": change.get("changed", "")}
    assert judged(world, {"devices": [reported_device]}, audit, changed=changed, digests=DIGESTS) == tuple(values)
    out = capsys.readouterr().out
    assert all(f"WRONG: {sentence}" in out for sentence in values)
    assert ("the audit is whole" in out) is (not faults)
    assert ("configurations are what they were" in out) is ("changed" not in change)
    assert ("byte for byte" in out) is ("held" not in change)

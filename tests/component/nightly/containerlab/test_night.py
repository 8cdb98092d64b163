"""A whole night on containerlab's stand-in, by its description: up, conditions, judged, written, nothing left."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from flashferry.lab.containerlab.standin import standin
from flashferry.nightly import playing
from flashferry.nightly.flow import run_night
from flashferry.nightly.playing import play_night
from flashferry.nightly.step_log import SilentWatcher
from tests.unit.nightly.fakes import FakeProduct, FakeRouters

IMAGE = "vrnetlab/cisco_iol:17.12.01"
ROUTER = "wan50-iol-xe-1"
NIGHT = {
    "backend": "containerlab",
    "topology": {
        "sites": [
            {
                "name": "wan50",
                "condition": {"bandwidth_kbps": 50_000, "latency_ms": 50, "loss_percent": 0.01},
                "nodes": [{"node_definition": "iol-xe", "image_definition": IMAGE}],
            }
        ]
    },
    "night": {"image": "image.bin", "copies": 2, "does": ["check", "probe"]},
    "artefacts": {"folder": "nights"},
}


class NoWait(FakeProduct):
    """The product in memory, in no time: the clock is the host's own here."""

    def run(self, name, verb, options, *, deadline):
        return super().run(name, verb, options, deadline=replace(deadline, ends_at_s=deadline.clock.monotonic_s()))


@pytest.fixture
def clab(tmp_path, monkeypatch):
    """The stand-in, and fakes in the place of routers and product."""
    made = standin(tmp_path / "standin")
    made.add_image(IMAGE)
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def run(parts):
        product = NoWait(hosts=(ROUTER,))
        return run_night(replace(parts, routers=FakeRouters(), product=lambda folder, inventory: product))

    monkeypatch.setattr(playing, "run_night", run)
    (tmp_path / "image.bin").write_bytes(b"image")
    (tmp_path / "nightly.yaml").write_text(json.dumps(NIGHT))
    return made


def play(tmp_path):
    return play_night(
        tmp_path / "nightly.yaml", state=tmp_path / "state", watcher=SilentWatcher(), is_stopped=lambda: False
    )


def test_a_night_goes_through(clab, tmp_path):
    """Its report says where it was, its series is named by the container's image, and no lab is left."""
    played = play(tmp_path)
    night = played.night
    assert [(step.name, step.sentence) for step in night.steps if step.outcome == "failed"] == []
    assert (night.exit_code, night.backend, night.controller_version) == (0, "containerlab", "0.79.0")
    assert [link.is_as_planned for link in night.links] == [True]
    assert {one.key.image_definition for one in night.judgements} == {IMAGE}
    assert {"lab.yaml", "containerlab-trace.jsonl"} <= {path.name for path in played.folder.rglob("*")}
    assert clab.labs() == {}
    assert list((tmp_path / "nights" / "containerlab").iterdir()) == []


@pytest.mark.parametrize(
    "switches",
    [
        {"deploy_fails": "no space left on device"},
        pytest.param({"netem_refused": "no sch_netem"}, marks=pytest.mark.soak),
        pytest.param({"exited": [ROUTER]}, marks=pytest.mark.soak),
    ],
    ids=["deploy", "netem", "exited"],
)
def test_a_broken_lab_is_the_lab_s_fault(clab, tmp_path, switches):
    """And nothing of it is left."""
    (tmp_path / "nightly.yaml").write_text(json.dumps(NIGHT | {"limits": {"start_minutes": 0.05}}))
    clab.set(**switches)
    assert play(tmp_path).night.exit_code == 7
    assert clab.labs() == {}

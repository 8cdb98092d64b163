"""`flashferry nightly run --image-file` on a stand-in controller: uploaded, defined, booted, and taken away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from flashferry.lab.cml.standin import RunningController, standin_controller
from flashferry.nightly import runner
from tests.component.nightly.cml.standing import FleetingClock, write_night
from tests.component.nightly.conftest import Call


@pytest.fixture
def standin(log_in: Callable[[RunningController], None]) -> Iterator[RunningController]:
    pytest.importorskip("virl2_client", reason="needs the extra 'cml'")
    with standin_controller() as running:
        log_in(running)
        yield running


@pytest.fixture
def night(standin: RunningController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nightly: Call) -> Call:
    """Return what runs a night with options."""
    write_night(tmp_path, standin, node={"node_definition": "cat8000v"}, limits={"reach_minutes": 0.1})
    (tmp_path / "c8000v.qcow2").write_bytes(b"QFI\xfb" + b"disk" * 100_000)
    (tmp_path / "c8000v.SPA.bin").write_bytes(b"\x7fELF")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "SystemClock", FleetingClock)
    return partial(nightly, "run", "--json", "--state-dir", "state")


def asked(standin: RunningController, *what: str) -> list[str]:
    """Return which of some questions were asked, in their order."""
    found = (f"{one.method} {one.path.partition('?')[0]}" for one in standin.exchanges)
    return [one for one in found if one.startswith(what)]


def sentences(out: str) -> dict[str, str]:
    return {one["name"]: one["sentence"] for one in json.loads(out)["night"]["steps"]}


def test_routers_boot_an_image_that_is_brought_and_taken_away(standin: RunningController, night: Call) -> None:
    """The stand-in's routers have no SSH, so the night fails; its lab booted the image, and nothing of both is left.

    Where standard error is no terminal, no bar is drawn.
    """
    before = set(standin.controller.definitions.images)
    code, out, err = night("--image-file", "c8000v.qcow2")
    told = sentences(out)
    assert code in {4, 7}
    assert told["start"] == "1 of 1 BOOTED"
    assert "of c8000v.qcow2 uploaded, 400,004 bytes" in told["import"]
    (node,) = [one for one in json.loads(out)["night"]["nodes"] if one["node_definition"] == "cat8000v"]
    assert node["image_definition"].startswith("flashferry-cat8000v-")
    order = asked(standin, "POST images", "POST image_definitions", "POST import", "DELETE image", "DELETE labs/")
    assert [one.rsplit("/", 1)[0] for one in order] == [
        "POST images",
        "POST image_definitions",
        "POST import",
        "DELETE labs",
        "DELETE image_definitions",
        "DELETE images/manage",
    ]
    assert (set(standin.controller.definitions.images), standin.controller.definitions.files) == (before, [])
    assert "\r" not in err
    assert "\x1b" not in err


def test_one_that_is_kept_is_booted_by_its_name_later(standin: RunningController, night: Call) -> None:
    """By `--image-definition`; a name that the controller does not have ends the night before its lab is made."""
    before = set(standin.controller.definitions.images)
    night("--image-file", "c8000v.qcow2", "--keep-image")
    (kept,) = set(standin.controller.definitions.images) - before
    _, out, _ = night("--image-definition", kept)
    assert sentences(out)["start"] == "1 of 1 BOOTED"
    assert kept in standin.controller.definitions.images
    code, out, _ = night("--image-definition", "cat8000v-99")
    assert code == 7
    assert "expected the image definition 'cat8000v-99' for cat8000v" in sentences(out)["preflight"]


def test_a_routers_own_image_is_refused_before_anybody_is_asked(standin: RunningController, night: Call) -> None:
    code, out, err = night("--image-file", "c8000v.SPA.bin")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)
    assert "found a router's own image: these cannot be uploaded as they are" in err
    assert not standin.exchanges

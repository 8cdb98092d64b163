"""An inventory, its rules and its plugins name images, and bring no other file of the controller to a router."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.api.checking import read_image
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import Interrupted
from flashferry.devices.platforms import NAMES
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import ImageError
from flashferry.model.limits import RetryPolicy
from flashferry.model.policy import StagePolicy
from flashferry.monitor.events import Event
from flashferry.planning.fleet_planner import PlanRequest, plan_fleet
from flashferry.planning.image_hasher import image_hasher
from flashferry.planning.local_images import HashProgress, target_image
from flashferry.run.make_request import request_for_image
from inventory.image_rules import ImageRules, rules_beside
from inventory.nornir_loader import open_inventory
from tests.patience import until

POLICY = StagePolicy(retry=RetryPolicy(times=0))
ELSEWHERE = (
    "/etc/passwd",
    "OUTSIDE/secret.bin",
    "../outside/secret.bin",
    "sub/../../outside/secret.bin",
    "link.bin",
    "linked/secret.bin",
    "~/x.bin",
)
"""Ways out of a folder: by the root, by the parent, by a link to a file, by a link to a folder, to somebody's home."""


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory's folder, one of images, and one that nobody gave."""
    for name in ("inventory", "images", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret.bin").write_bytes(b"not for routers")
    (tmp_path / "outside" / "x.bin").write_bytes(b"not for routers")
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    for folder in ("inventory", "images"):
        (tmp_path / folder / "sub").mkdir()
        (tmp_path / folder / "own.bin").write_bytes(b"own")
        (tmp_path / folder / "sub" / "deep.bin").write_bytes(b"deep")
        (tmp_path / folder / "link.bin").symlink_to(tmp_path / "outside" / "secret.bin")
        (tmp_path / folder / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "images" / "all.bin").write_bytes(b"all")
    return tmp_path


def written(ground: Path, image: str) -> str:
    return image.replace("OUTSIDE", str(ground / "outside"))


def staged(ground: Path, image: str) -> Path:
    """Return which file `stage --image images/all.bin` would give to a device whose inventory names one."""
    (ground / "inventory" / "hosts.yaml").write_text(f"r1: {{hostname: h, platform: ios, data: {{image: '{image}'}}}}")
    nornir = open_inventory(ground / "inventory")
    given = ground / "images" / "all.bin"
    folders = (ground / "inventory",)
    return request_for_image(nornir, given, POLICY, state_directory=ground, folders=folders).images["r1"]


@pytest.mark.parametrize("image", ELSEWHERE)
def test_an_inventory_brings_no_other_file_to_a_router(ground: Path, image: str):
    """However the way out is written: nothing is touched, and the sentence says where an image may be."""
    with pytest.raises(ConfigInvalid, match=r"^r1: image .*: expected it (in|below) .*images.*inventory"):
        staged(ground, written(ground, image))


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("own.bin", "images/own.bin"),
        ("sub/deep.bin", "images/sub/deep.bin"),
        ("sub/../own.bin", "images/sub/../own.bin"),
        ("ROOT/inventory/own.bin", "inventory/own.bin"),
        ("all.bin", "images/all.bin"),
    ],
)
def test_what_is_in_a_folder_given_is_found(ground: Path, image: str, found: str):
    """By its name, its way or its whole path."""
    assert staged(ground, image.replace("ROOT", str(ground))) == ground / found


def test_the_image_of_the_command_line_may_be_a_link(ground: Path):
    """The operator's own word counts as it is; an inventory may name the same file."""
    (ground / "images" / "all.bin").unlink()
    (ground / "images" / "all.bin").symlink_to(ground / "outside" / "x.bin")
    assert staged(ground, "all.bin") == ground / "images" / "all.bin"


def planned(ground: Path, rules: ImageRules, *folders: Path) -> ConfigInvalid:
    """Return why no plan was made; no device is asked, for none answers."""
    request = PlanRequest(rules=rules, folders=folders, state_directory=ground)
    with pytest.raises(ConfigInvalid) as caught:
        plan_fleet(open_inventory(ground / "inventory"), request, now=datetime.now(UTC))
    return caught.value


@pytest.mark.parametrize("image", ELSEWHERE)
@pytest.mark.parametrize("by", ["host", "rule"])
def test_a_plan_names_no_other_file(ground: Path, image: str, by: str):
    """Neither a device's own image nor that of a rule leaves the folders; it is told before any device is asked."""
    name = written(ground, image)
    own = f", data: {{image: '{name}'}}" if by == "host" else ""
    (ground / "inventory" / "hosts.yaml").write_text(f"r1: {{hostname: 127.0.0.1, port: 9, platform: ios{own}}}")
    if by == "rule":
        if "/" not in name:
            name = f"./{name}"
        (ground / "inventory" / "images.yaml").write_text(f"rules: [{{platform: ios, image: '{name}'}}]")
    told = planned(ground, rules_beside(ground / "inventory", NAMES), ground / "inventory", ground / "images")
    assert "leads elsewhere" in told.message or "expected a folder" in told.message
    assert "secret.bin" not in told.message or image.endswith("secret.bin")


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket"])
def test_nothing_is_waited_for(ground: Path, kind: str):
    """What is no regular file is refused at once, whoever names it, and never opened."""
    path = ground / "images" / "odd.bin"
    make_odd(path, kind)
    for attempt in (lambda: staged(ground, "odd.bin"), lambda: target_image(path)):
        with pytest.raises(ConfigInvalid, match=rf"image .*odd\.bin: expected a file, found a .*{kind}"):
            attempt()
    if kind != "folder":
        with pytest.raises(ImageError, match="expected a regular file"):
            Catalogue((path,))


def make_odd(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mknod(path, 0o140600)  # S_IFSOCK


def test_the_folders_of_a_plan_are_those_of_its_images(ground: Path):
    """Links followed, each once: what a reader of the plan holds its paths against."""
    with image_hasher((ground / "images", ground / "inventory", ground / "outside")) as hasher:
        hasher.target(ground / "images" / "own.bin")
        hasher.target(ground / "images" / "sub" / "deep.bin")
        assert hasher.folders_of(hasher.images()) == (str((ground / "images").resolve()),)


def test_a_secret_in_the_place_of_an_image_is_not_told(ground: Path):
    """A word that has no image's ending may be a password."""
    with pytest.raises(ConfigInvalid) as caught:
        staged(ground, "Sommer-2031")
    assert "Sommer" not in str(caught.value)
    (ground / "inventory" / "hosts.yaml").write_text(
        "r1: {hostname: 127.0.0.1, port: 9, platform: ios, data: {image: Sommer-2031}}"
    )
    assert "Sommer" not in str(planned(ground, ImageRules(), ground / "images"))


def test_a_list_of_yaml_files_is_not_waited_for(ground: Path):
    """A pipe in place of groups.yaml is refused like any other."""
    (ground / "inventory" / "hosts.yaml").write_text("r1: {hostname: h}")
    os.mkfifo(ground / "inventory" / "groups.yaml")
    with pytest.raises(
        ConfigInvalid, match=r"groups\.yaml: cannot be read: expected a regular file, found a named pipe"
    ):
        open_inventory(ground / "inventory")


def test_how_far_a_large_image_is_hashed_is_reported_once_a_second():
    """With its share and the time left, then its end; an image that takes less than a second is not worth a word."""
    now_s, events = [100.0], []
    took = HashProgress(events.append, "big.bin", started_s=90.0, clock=lambda: now_s[0])
    for now_s[0], done in (
        (100.4, 1),
        (101.0, 1_000_000_000),
        (101.5, 2),
        (140.0, 4_500_000_000),
        (180.0, 9_000_000_000),
    ):
        took(done, 9_000_000_000)
    assert [(one.host, one.step, one.status, one.at_s) for one in events] == [
        (None, "server", "progress", 11.0),
        (None, "server", "progress", 50.0),
        (None, "server", "done", 90.0),
    ]
    assert events[1].text == "hashing big.bin: 50% of 9.00 GB, about 40 s left"
    assert events[2].text == "hashed big.bin, 9.00 GB, in 80.0 s"
    quick = []
    HashProgress(quick.append, "small.bin", clock=lambda: 0.0)(8, 8)
    assert quick == []


def test_an_operator_stops_the_hashing_at_once(ground: Path):
    """Ctrl-C ends it within a piece of the file, also in a plan's threads; so does the end of a plan."""
    path = ground / "images" / "large.bin"
    path.write_bytes(b"x" * (3 << 20))
    with pytest.raises(Interrupted, match=r"by the operator while large\.bin was hashed: no device was touched"):
        target_image(path, interrupted=lambda: True)
    with image_hasher((path.parent,), interrupted=lambda: True) as hasher, pytest.raises(Interrupted):
        hasher.target(path)
    os.truncate(path, 64 << 30)
    with image_hasher((path.parent,)) as hasher:
        left = hasher.begin(path)
        until(left.running, "the hashing starts")
    assert isinstance(left.exception(), Interrupted)


def test_every_way_to_an_image_reports_how_far_it_is(ground: Path, monkeypatch: pytest.MonkeyPatch):
    """A check, a plan and a rehearsal read it by one of these; a failing view does not stop the hashing."""
    monkeypatch.setattr("flashferry.planning.local_images._REPORT_EVERY_S", 0.0)
    path = ground / "images" / "large.bin"
    path.write_bytes(b"x" * (3 << 20))
    events: list[Event] = []
    read_image(path, emit=events.append)
    with image_hasher((path.parent,), emit=events.append) as hasher:
        hasher.target(path)
    assert [one.text.split(",")[0] for one in events if one.status == "done"] == ["hashed large.bin"] * 2
    assert all("large.bin" in one.text for one in events)

    def fails(event: Event) -> None:
        raise OSError("the terminal is gone")

    assert target_image(path, emit=fails).image.size_bytes == 3 << 20

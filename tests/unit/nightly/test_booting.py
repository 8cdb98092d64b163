"""The image under test: looked at before anything is made, booted, and taken away behind the lab, whatever happens."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.nightly.backend import DiskFile
from flashferry.nightly.booting import BootImage, ImageChoice, chosen
from flashferry.nightly.cml.images import disk_file, image_of
from flashferry.nightly.night import Fault, StepName, StepOutcome
from flashferry.nightly.steps import run_night
from tests.unit.nightly.fakes import FakeBackend, Rig, lab_fault, two_nodes

CONTENT = b"QFI\xfb" + b"disk" * 100
DISK = DiskFile(path=Path("c8000v-17.15.qcow2"), size_bytes=404, sha256=hashlib.sha256(CONTENT).hexdigest())
IMAGE = image_of(DISK, "cat8000v")
TEXT = "lab: {}\nnodes:\n- {label: xe1, node_definition: cat8000v}\n"
LAB = two_nodes("ff-nightly-20261122T0100-0001")


@dataclass
class ImagingFake(FakeBackend):
    """Takes images, too. `sees` is called with each part of an upload."""

    images: dict[str, str] = field(default_factory=dict)
    looked: list = field(default_factory=list)

    def preflight(self, topology):
        self.looked.append(topology)
        return super().preflight(topology)

    def has_image(self, image):
        self._called("has_image")
        return image.definition_id in self.images

    def put_image(self, disk, node_definition, *, on_progress):
        self.images[IMAGE.definition_id] = node_definition
        on_progress(1, disk.size_bytes)
        self._called("put_image")
        on_progress(disk.size_bytes, disk.size_bytes)

    def remove_image(self, image):
        self._called("remove_image")
        assert self.labs == {}, "a lab may use it still"
        self.images.pop(image.definition_id, None)


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "c8000v-17.15.qcow2"
    made.write_bytes(CONTENT)
    return made


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    made.backend = ImagingFake(made.clock)
    return made


def brought(rig, path, **changes):
    """Return the parts of a night that brings a disk image."""
    boots = BootImage(node_definition="cat8000v", disk=disk_file(path), is_kept=False)
    return replace(
        rig.parts,
        topology=lambda title: replace(two_nodes(title), text=TEXT),
        boots=replace(boots, **changes),
    )


def booted(topology):
    """Return the image definition of a topology's node."""
    return YAML(typ="safe").load(topology.text)["nodes"][0]["image_definition"]


def step(night, name):
    return next(one for one in night.steps if one.name is name)


def test_routers_boot_what_was_uploaded_and_it_goes_behind_the_lab(rig, path):
    """The first look is at a lab without it; the copies' series name it; progress is told to the last byte."""
    seen = []
    night = run_night(replace(brought(rig, path), on_progress=lambda *one: seen.append(one)))
    assert night.exit_code == 0
    assert booted(rig.backend.looked[0]) is None
    assert booted(rig.backend.topology) == IMAGE.definition_id
    assert {one.image_definition for one in rig.backend.topology.nodes} == {IMAGE.definition_id}
    assert {one.image_definition for one in night.copies} == {IMAGE.definition_id}
    assert seen[-1] == (404, 404)
    assert f"{IMAGE.definition_id} of c8000v-17.15.qcow2 uploaded, 404 bytes" in step(night, StepName.IMPORT).sentence
    assert step(night, StepName.CLEAN).sentence == f"the lab is gone; image {IMAGE.definition_id} too"
    assert rig.backend.images == {}


@pytest.mark.parametrize(
    ("method", "name"), [("put_image", "import"), ("up", "import"), ("nodes", "start"), ("artefacts", "artefacts")]
)
def test_whatever_fails_the_image_goes(rig, path, method, name):
    """An upload that broke off, too: what of it is there is taken away; the fault is the lab's."""
    rig.backend.fail(method, lab_fault())
    night = run_night(brought(rig, path))
    assert [one.name for one in night.steps if one.outcome is StepOutcome.FAILED] == [name]
    assert night.exit_code == 7
    assert (rig.backend.images, rig.backend.labs) == ({}, {})


def test_who_ends_the_night_does_not_wait_for_the_upload(rig, path):
    """It breaks off, and what of it is there goes."""

    def progress(done, size):
        rig.is_stopped = True

    night = run_night(replace(brought(rig, path), on_progress=progress))
    assert (night.exit_code, night.is_interrupted) == (130, True)
    assert "up" not in rig.backend.calls
    assert rig.backend.images == {}


def test_one_that_is_to_stay_stays(rig, path):
    assert run_night(brought(rig, path, is_kept=True)).exit_code == 0
    assert set(rig.backend.images) == {IMAGE.definition_id}


@pytest.mark.parametrize("fails", [False, True], ids=["found", "not told"])
def test_one_that_was_there_is_booted_and_stays(rig, path, fails):
    """Whoever put it there may use it; not to know is no reason to take it away."""
    rig.backend.images[IMAGE.definition_id] = "cat8000v"
    if fails:
        rig.backend.fail("has_image", lab_fault())
    assert run_night(brought(rig, path)).exit_code == (7 if fails else 0)
    assert set(rig.backend.images) == {IMAGE.definition_id}
    assert "put_image" not in rig.backend.calls


def test_an_image_that_cannot_be_removed_wakes_somebody(rig, path):
    """Tried again for the clean-up's own time, then told with its file, and the exit code 8."""
    rig.backend.fail("remove_image", lab_fault("the image is in use"))
    night = run_night(brought(rig, path))
    clean = step(night, StepName.CLEAN)
    assert (night.exit_code, clean.fault) == (8, Fault.CLEANUP)
    assert clean.sentence == (
        f"image {IMAGE.definition_id} (file {IMAGE.file_name}) may still be there: the image is in use"
    )
    assert rig.backend.calls.count("remove_image") > 2


def test_an_image_that_the_backend_has_is_booted_from_the_first_look_on(rig):
    """So the look tells where it is missing; nothing is uploaded or removed."""
    boots = BootImage(node_definition="cat8000v", definition_id="cat8000v-17-15")
    night = run_night(replace(rig.parts, topology=lambda title: replace(two_nodes(title), text=TEXT), boots=boots))
    assert night.exit_code == 0
    assert booted(rig.backend.looked[0]) == "cat8000v-17-15"
    assert not {"put_image", "remove_image"} & set(rig.backend.calls)


def test_a_file_is_for_the_one_kind_of_router_that_there_is(path):
    """Looked at and hashed; where nothing is said, nothing is chosen."""
    found = chosen(ImageChoice(file=path), LAB)
    assert found == BootImage(node_definition="cat8000v", disk=disk_file(path))
    assert chosen(ImageChoice(definition="x"), LAB) == BootImage(node_definition="cat8000v", definition_id="x")
    assert chosen(ImageChoice(), LAB) is None


def test_of_several_kinds_one_is_named(path):
    nodes = (LAB.nodes[0], replace(LAB.nodes[1], node_definition="iosv"))
    mixed = replace(LAB, nodes=nodes)
    with pytest.raises(ConfigInvalid, match="expected one of cat8000v, iosv, found 2 node definitions in the lab"):
        chosen(ImageChoice(file=path), mixed)
    found = chosen(ImageChoice(file=path, node_definition="iosv"), mixed)
    assert found is not None
    assert found.node_definition == "iosv"


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (ImageChoice(file="a.qcow2", definition="b"), "--image-definition: expected it without --image-file"),
        (ImageChoice(definition="b", is_kept=True), "--keep-image: expected --image-file"),
        (ImageChoice(node_definition="cat8000v"), "--image-for: expected --image-file or"),
        (ImageChoice(definition="b", node_definition="c9000v"), "--image-for: expected cat8000v, found c9000v"),
    ],
)
def test_options_that_cannot_be_meant_together_are_told(choice, told):
    with pytest.raises(ConfigInvalid, match=told):
        chosen(choice, LAB)

"""Disk images are looked at, hashed, sent once, defined, and taken away again."""

from __future__ import annotations

import hashlib
import json

import httpx
import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.backend import UploadedImage
from flashferry.nightly.cml.images import disk_file, has_image, image_of, put_image, remove_image
from flashferry.nightly.night import NightFault
from tests.unit.nightly.cml.scripted import PAGE_502, Scripted, controller, error

CONTENT = b"QFI\xfb" + bytes(range(256)) * 10_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
NAME, DEFINITION = f"flashferry-{DIGEST[:12]}.qcow2", f"flashferry-cat8000v-{DIGEST[:12]}"


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "c8000v-17.15.qcow2"
    made.write_bytes(CONTENT)
    return made


def test_a_disk_is_hashed_with_progress(path):
    """To its last byte."""
    seen: list[tuple[int, int]] = []
    disk = disk_file(path, on_progress=lambda *one: seen.append(one))
    assert (disk.sha256, disk.size_bytes) == (DIGEST, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("c8000v.17.15.SPA.bin", b"\x7fELF", "ends in .qcow2, found a router's own image: these cannot be uploaded"),
        ("c8000v.iso", b"\x7fELF", "expected a disk image that ends in .qcow2"),
        ("renamed.qcow2", b"\x7fELF", "found something else in it"),
        ("empty.qcow2", b"", "found something else in it"),
        ("absent.qcow2", None, "cannot be read"),
    ],
)
def test_what_nodes_cannot_boot_is_refused(tmp_path, name, content, told):
    """Before a gigabyte is sent: a router's own image is none."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigInvalid, match=told):
        disk_file(tmp_path / name)


def test_an_image_is_sent_defined_and_told_on_the_way(path, capsys):
    """As the form that controllers take; nothing is printed."""
    script = Scripted(
        {"GET image_definitions": [], "POST images/upload": "Success", "POST image_definitions": "Success"}
    )
    seen: list[tuple[int, int]] = []
    image = put_image(controller(script), disk_file(path), "cat8000v", on_progress=lambda *one: seen.append(one))
    assert image == UploadedImage(definition_id=DEFINITION, file_name=NAME)
    upload, define = script.requests[0], script.requests[1]
    assert upload.headers["X-Original-File-Name"] == NAME
    assert f'name="field0"; filename="{NAME}"'.encode() in upload.content
    assert CONTENT in upload.content
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    body = json.loads(define.content)
    assert (body["id"], body["disk_image"], body["sha256"]) == (DEFINITION, NAME, DIGEST)
    assert body["node_definition_id"] == "cat8000v"
    assert capsys.readouterr() == ("", "")


def test_one_that_is_there_is_known_by_its_content(path, tmp_path):
    """The same file has the same name, whatever it is called; another one has not."""
    image = image_of(disk_file(path), "cat8000v")
    assert image == UploadedImage(definition_id=DEFINITION, file_name=NAME)
    assert has_image(controller(Scripted({"GET image_definitions": [{"id": DEFINITION}]})), image)
    assert not has_image(controller(Scripted({"GET image_definitions": [{"id": "iosv-159-3"}]})), image)
    same, other = tmp_path / "same.qcow2", tmp_path / "other.qcow2"
    same.write_bytes(CONTENT)
    other.write_bytes(CONTENT + b".")
    assert image_of(disk_file(same), "cat8000v") == image
    assert image_of(disk_file(other), "cat8000v") != image


def test_an_upload_that_fails_is_told_and_not_repeated(path):
    """It takes minutes, and may be there in part."""
    script = Scripted({"GET image_definitions": [], "POST images/upload": httpx.WriteTimeout("slow")})
    with pytest.raises(NightFault, match=r"could not upload c8000v-17\.15\.qcow2: it did not answer in time"):
        put_image(controller(script), disk_file(path), "cat8000v")
    assert script.asked.count("POST images/upload") == 1


def test_a_file_that_cannot_be_defined_is_taken_away(path):
    """A controller's disk is not ours to fill."""
    script = Scripted(
        {
            "GET image_definitions": [],
            "POST images/upload": "Success",
            "POST image_definitions": error(400, "Node definition not found"),
            f"DELETE images/manage/{NAME}": "Success",
        }
    )
    with pytest.raises(NightFault, match="Node definition not found"):
        put_image(controller(script), disk_file(path), "cat8000v")
    assert script.asked[-1] == f"DELETE images/manage/{NAME}"


def test_a_definition_whose_answer_is_lost_is_looked_for(path):
    """It is not made twice."""
    script = Scripted({"POST images/upload": "Success", "POST image_definitions": PAGE_502})
    script.on("GET image_definitions", [{"id": DEFINITION}])
    assert put_image(controller(script), disk_file(path), "cat8000v").definition_id == DEFINITION
    assert script.asked.count("POST image_definitions") == 1


def test_an_image_is_taken_away_definition_first():
    """What is gone already is no error."""
    image = UploadedImage(definition_id=DEFINITION, file_name=NAME)
    script = Scripted({f"DELETE image_definitions/{DEFINITION}": httpx.Response(204)})
    remove_image(controller(script), image)
    assert script.asked == [f"DELETE image_definitions/{DEFINITION}", f"DELETE images/manage/{NAME}"]


def test_an_image_that_is_in_use_is_told():
    """In the controller's words."""
    image = UploadedImage(definition_id=DEFINITION, file_name=NAME)
    script = Scripted({f"DELETE image_definitions/{DEFINITION}": error(400, "Image in use")})
    with pytest.raises(NightFault, match="Image in use"):
        remove_image(controller(script), image)

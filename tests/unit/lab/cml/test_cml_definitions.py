"""Node and image definitions, and the files of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.cml.definitions import Definitions, Refused

NEW = {"id": "new", "node_definition_id": "cat8000v", "label": "17.17", "disk_image": "new.qcow2", "sha256": "0f" * 32}


@pytest.fixture
def definitions(tmp_path: Path) -> Definitions:
    (tmp_path / "new.qcow2").write_bytes(b"image")
    return Definitions(tmp_path)


def test_an_uploaded_image_is_defined_used_and_removed(definitions: Definitions) -> None:
    """The way of a new release; the second of the same name is refused."""
    definitions.add_image(NEW)
    assert definitions.images["new"]["label"] == "17.17"
    with pytest.raises(Refused, match="exists already"):
        definitions.add_image(NEW)
    definitions.remove_image("new")
    with pytest.raises(Refused, match="not found"):
        definitions.remove_image("new")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"disk_image": "other.qcow2"}, "no file other.qcow2"),
        ({"node_definition_id": "c9999"}, "no node definition"),
        ({"label": "x" * 65}, "64 characters"),
        ({"sha256": "0f"}, "64 hexadecimal"),
        ({"colour": "red"}, "'colour' was unexpected"),
        ({"label": None}, "'label' is a required property"),
    ],
)
def test_a_wrong_definition_is_a_400(definitions: Definitions, change: dict[str, Any], said: str) -> None:
    """A file that is not there, a long label, an unknown key, one that is missing."""
    with pytest.raises(Refused, match=said) as refusal:
        definitions.add_image({**NEW, **change})
    assert refusal.value.status == 400


@pytest.mark.parametrize("name", ["", None, "c8000v.SPA.bin", "../x.qcow2", "image"])
def test_only_images_are_uploaded(definitions: Definitions, name: str | None) -> None:
    """Router images as they are cannot be; nor may a name lead anywhere else."""
    with pytest.raises(Refused) as refusal:
        definitions.path_for(name)
    assert refusal.value.status == 400


def test_interfaces_have_the_names_of_their_platform(definitions: Definitions) -> None:
    """By slot, as the public topologies show them."""
    names = {key: definitions.nodes[key].interface_label(5) for key in ("iosv", "cat8000v", "iol-xe")}
    assert names == {"iosv": "GigabitEthernet0/5", "cat8000v": "GigabitEthernet6", "iol-xe": "Ethernet1/1"}

"""Which topologies may be imported, and what becomes of them."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.definitions import Refused
from tests.unit.lab.cml.conftest import Rig
from tests.unit.lab.cml.topologies import TWO_ROUTERS


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title: two routers", f"title: {'x' * 65}", "1 to 64 characters"),
        ("title: two routers", 'title: ""', "1 to 64 characters"),
        ("version: 0.3.0", "version: 0.4.0", "lab.version"),
        ("version: 0.3.0", "version: 0.3.0, colour: red", "'colour' was unexpected"),
        ("annotations: []", "annotations: []\nextra: 1", "'extra' was unexpected"),
        ("label: xe1,", "label: xe1, colour: red,", "'colour' was unexpected"),
        ("label: Loopback0,", "label: Loopback0, speed: 9,", "'speed' was unexpected"),
        ("label: out}", "label: out, colour: red}", "'colour' was unexpected"),
        ("cat8000v-17-16-01a", "cat8000v-99", "Image definition not found: cat8000v-99"),
        ("cat8000v-17-16-01a", "csr1000v-161101b", "Image definition not found"),
        ("node_definition: cat8000v", "node_definition: c9999", "Node definition not found: c9999"),
        ("i2: i1, label: wan1", "i2: i9, label: wan1", "no interface i9"),
        ("id: n3", "id: n2", "two nodes with one id"),
        ("latency: 50", "latency: 10001", "latency"),
        ("latency: 50", "delay: 50", "'delay' was unexpected"),
        ("lab: {", "lab: {{", "no YAML"),
    ],
)
def test_what_a_topology_must_not_have_is_a_400_and_makes_no_lab(rig: Rig, old: str, new: str, said: str) -> None:
    """Lengths, unknown keys at every level, what is not there, double ids, conditions out of bounds, no YAML."""
    assert old in TWO_ROUTERS
    with pytest.raises(Refused, match=said) as refusal:
        rig.take(TWO_ROUTERS.replace(old, new, 1))
    assert refusal.value.status == 400
    assert rig.controller.labs() == ()


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.2.1", "0.2.2", "0.3.0"])
def test_schemas_from_0_1_to_0_3_are_taken(rig: Rig, version: str) -> None:
    """The versions that public topologies have."""
    assert rig.take(TWO_ROUTERS.replace("version: 0.3.0", f"version: {version}")).title == "two routers"


def test_a_title_of_64_characters_and_one_of_the_call_are_taken(rig: Rig) -> None:
    """The longest that may be; the call's own goes before the file's."""
    assert rig.take(title="y" * 64).title == "y" * 64


@pytest.mark.parametrize(("version", "is_taken"), [("2.9.1", False), ("2.10.0", True)])
def test_what_came_with_2_10_is_unknown_before(rig: Rig, version: str, is_taken: bool) -> None:
    """Node staging and autostart are keys of 2.10."""
    rig.set(version=version)
    text = TWO_ROUTERS.replace("version: 0.3.0", "version: 0.3.0, node_staging: {enabled: true}")
    if is_taken:
        assert rig.take(text).extras == {"node_staging": {"enabled": True}}
    else:
        with pytest.raises(Refused, match="'node_staging' was unexpected"):
            rig.take(text)


def test_day_0_files_are_told_as_asked(rig: Rig) -> None:
    """All as a list, the main one as text, or none; a text in the file is the main file of its definition."""
    lab, shapes = rig.take(), rig.controller.shapes
    reported = {}
    for configurations in ("all", "main", "none"):
        nodes = shapes.topology(lab, schema="0.3.0", configurations=configurations)["nodes"]
        reported[configurations] = {node["label"]: node.get("configuration") for node in nodes}
    assert reported["all"]["xe1"] == [
        {"name": "iosxe_config.txt", "content": "hostname xe1"},
        {"name": "more.txt", "content": "more"},
    ]
    assert reported["all"]["xe2"] == [{"name": "iosxe_config.txt", "content": "hostname xe2"}]
    assert (reported["main"]["xe1"], reported["none"]["xe1"]) == ("hostname xe1", None)


def test_a_download_can_be_imported_again(rig: Rig) -> None:
    """Nodes, links, day-0 files, tags and conditions come back; ids are new."""
    first = rig.take()
    second = rig.take(rig.controller.shapes.download(first, schema="0.3.0"), title="again")

    def essence(text: str) -> list[str]:
        return sorted(line for line in text.splitlines() if "title" not in line)

    shapes = rig.controller.shapes
    assert essence(shapes.download(second, schema="0.3.0")) == essence(shapes.download(first, schema="0.3.0"))
    assert set(first.nodes).isdisjoint(second.nodes)


def test_tags_have_their_smart_annotations(rig: Rig) -> None:
    """The controller makes one for each tag by itself."""
    assert [each["tag"] for each in rig.take().smart_annotations.values()] == ["site-a"]


def test_a_testbed_leads_through_the_terminal_server(rig: Rig) -> None:
    """Every router by telnet and `open /LAB/NODE/0`; the way out is no device."""
    lab = rig.take()
    text = rig.controller.shapes.testbed(lab, host="192.0.2.1:2022")
    xe1 = next(node_id for node_id, node in lab.nodes.items() if node.label == "xe1")
    assert f"command: open /{lab.lab_id}/{xe1}/0" in text
    assert "proxy: terminal_server" in text
    assert "port: 2022" in text
    assert "mgmt:" not in text

"""A topology says what it asks for, and takes a night's title and notes without becoming another one."""

from __future__ import annotations

from collections import Counter

import pytest
from ruamel.yaml import YAML

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.cml.images import topology_needs, with_image, with_notes

OLD = """\
lab: {title: mine, description: "", notes: "", version: 0.2.2}   # as downloaded
nodes:
- {id: n0, label: mgmt, node_definition: external_connector, configuration: System Bridge, interfaces: []}
- id: n1
  label: "no"
  node_definition: iosv
  image_definition: iosv-159-3-m3
  configuration: |-
    hostname r1
    !
    end
  interfaces: []
- {id: n2, label: sw, node_definition: unmanaged_switch, interfaces: []}
links: []
"""
NEW = OLD.replace("configuration: System Bridge", "configuration: [{name: default, content: System Bridge}]").replace(
    "0.2.2", "0.3.0"
)


@pytest.mark.parametrize("text", [OLD, NEW], ids=["0.2.2", "0.3.0"])
def test_what_it_asks_for_is_found(text):
    """In both schemas; connectors and switches are not counted."""
    found = topology_needs(text)
    assert found.node_definitions == Counter(external_connector=1, iosv=1, unmanaged_switch=1)
    assert found.image_definitions == Counter({("iosv", "iosv-159-3-m3"): 1})
    assert (found.connectors, found.counted_nodes) == (("System Bridge",), 1)


def test_title_and_notes_are_in_it_and_nothing_else_is_changed():
    """The user's quotes, texts and order stay: what is quoted would be a boolean elsewhere."""
    made = with_notes(OLD, title="ff-nightly-20261122T0100-3f2a", notes='{"run": "x: #1"}')
    before, after = (YAML(typ="safe").load(text) for text in (OLD, made))
    assert after["lab"] == before["lab"] | {"title": "ff-nightly-20261122T0100-3f2a", "notes": '{"run": "x: #1"}'}
    assert after | {"lab": None} == before | {"lab": None}
    assert 'label: "no"' in made
    assert "    hostname r1\n    !\n    end\n" in made


@pytest.mark.parametrize("text", ["", "[]", "lab: 7", "nodes: []", "lab: {", "\x00", "lab: {a: 1}\n---\nb: 2"])
def test_what_is_no_topology_is_refused(text):
    """In one sentence, before a lab is made."""
    with pytest.raises(ConfigInvalid, match="expected YAML with 'lab'"):
        with_notes(text, title="ff", notes="")


@pytest.mark.parametrize("length", [1, 64])
def test_titles_have_1_to_64_characters(length):
    """As many as the controller takes."""
    assert "x" * length in with_notes(OLD, title="x" * length, notes="")


@pytest.mark.parametrize("length", [0, 65])
def test_a_title_that_is_too_long_is_refused(length):
    """Before the controller does so in words of its own."""
    with pytest.raises(ConfigInvalid, match=f"found {length}"):
        with_notes(OLD, title="x" * length, notes="")


@pytest.mark.parametrize("text", [OLD, NEW], ids=["0.2.2", "0.3.0"])
def test_nodes_of_a_definition_boot_another_image_and_nothing_else_is_changed(text):
    """None has the controller choose."""
    before = YAML(typ="safe").load(text)
    for image in ("flashferry-iosv-0123456789ab", None):
        after = YAML(typ="safe").load(with_image(text, "iosv", image))
        assert after["nodes"][1]["image_definition"] == image
        after["nodes"][1]["image_definition"] = "iosv-159-3-m3"
        assert after == before
    assert YAML(typ="safe").load(with_image(text, "cat8000v", "other")) == before

"""Shapes tell keys and types, where two differ, and no more of a value than may leave a house."""

from __future__ import annotations

import json

import pytest

from flashferry.nightly.cml.record import (
    Shape,
    differences,
    from_json,
    merged,
    publishable,
    shape_of,
    template,
    to_json,
)

ONE, OTHER = "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-666666666666"


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("x", "string"),
        (True, "boolean"),
        (7, "integer"),
        (0.5, "number"),
        (None, "null"),
        ([], "array"),
        ({}, "object"),
        ([1, "x"], {"is": "array", "each": "integer|string"}),
        (
            [{"a": 1}, {"a": None, "b": 2}],
            {"is": "array", "each": {"is": "object", "keys": {"a": "integer|null", "b?": "integer"}}},
        ),
        ({ONE: "BOOTED", OTHER: "QUEUED"}, {"is": "object", "each": "string"}),
        ({"52:54:00:00:00:01": {"ip4": []}}, {"is": "object", "each": {"is": "object", "keys": {"ip4": "array"}}}),
    ],
    ids=str,
)
def test_a_shape_is_of_keys_and_types(value, shape):
    """Objects whose keys are ids are told by what they hold; and what was written is read as it was."""
    assert to_json(shape_of(value)) == shape
    assert from_json(json.loads(json.dumps(shape))) == shape_of(value)


@pytest.mark.parametrize("damaged", [7, {}, {"is": 7}, None, {"is": "object", "keys": {"a": 7}}])
def test_a_shape_that_is_none_is_told(damaged):
    """A file that was edited by hand."""
    with pytest.raises(ValueError, match="expected a shape"):
        from_json(damaged)


@pytest.mark.parametrize(
    ("known", "seen", "told"),
    [
        ({"a": 1}, {"a": 2}, []),
        ({"a": 0.5}, {"a": 2}, []),
        ({"a": 2}, {"a": 0.5}, ["a: expected integer, found number"]),
        ({"a": "x"}, {"a": None}, ["a: expected string, found null"]),
        ({"a": 1}, {}, ["a: expected integer, found no such key"]),
        ({}, {"a": "x"}, ["a: not known here, string"]),
        ([{"a": {"b": 1}}], [{"a": {"b": "x"}}], ["[].a.b: expected integer, found string"]),
        ([{"a": 1}, {}], [{}], []),
        ([], [{"a": 1}], []),
        ([1], [], []),
        ({"a": 1}, [1], ["the answer: expected object, found array"]),
        ({ONE: "x"}, {OTHER: 7}, ["[]: expected string, found integer"]),
    ],
    ids=str,
)
def test_what_differs_is_told_by_its_place(known, seen, told):
    """One line each; an empty list fits any."""
    assert list(differences(shape_of(known), shape_of(seen))) == told


def test_two_answers_have_one_shape():
    """What is not in both may be there."""
    both = merged(shape_of({"a": 1}), merged(shape_of({"a": "x", "b": None}), shape_of("x")))
    assert to_json(both) == {"is": "object|string", "keys": {"a": "integer|string", "b?": "null"}}
    assert merged(shape_of([]), shape_of([1])) == shape_of([1])
    assert merged(shape_of({"a": 1}), shape_of({"a": 2})) == Shape(kinds=frozenset({"object"}), keys={"a": shape_of(1)})


def test_only_figures_and_the_interfaces_own_words_are_told():
    """Names, addresses and accounts are not; ids are told apart by their number."""
    told = {
        "lab_title": "merger with ACME",
        "owner_username": "jane",
        "description": "merger",
        "state": f"STARTED by {ONE}",
        "quota": 20,
        "nodes": {ONE: "BOOTED", OTHER: "QUEUED"},
        "ip4": ["192.0.2.1"],
    }
    assert publishable(told, is_refusal=False) == {
        "lab_title": "<text>",
        "owner_username": "<text>",
        "description": "<text>",
        "state": "STARTED by <id>",
        "quota": 20,
        "nodes": {"id-1": "<text>", "id-2": "<text>"},
        "ip4": ["<text>"],
    }
    refusal = {"code": 404, "description": f"Lab not found: {ONE}"}
    assert publishable(refusal, is_refusal=True) == {"code": 404, "description": "Lab not found: <id>"}


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/v0/labs", "labs"),
        (f"/api/v0/labs/{ONE}", "labs/LAB"),
        (f"/api/v0/labs/{ONE}/nodes/n1/consoles/0/log", "labs/LAB/nodes/NODE/consoles/CONSOLE/log"),
        (f"/api/v0/labs/{ONE}/links/l/capture/key", "labs/LAB/links/LINK/capture/key"),
        ("/api/v0/pcap/x", "pcap/CAPTURE"),
        ("/api/v0/image_definitions/of-our-house", "image_definitions/IMAGE"),
        ("/api/v0/system_information", "system_information"),
    ],
)
def test_paths_name_what_an_id_is_of(path, named):
    """So that two labs are one question."""
    assert template(path) == named

"""What is taken out of a document is what differs from run to run, and nothing that a reader goes by."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.normal import event_lines, metrics_page, shape, words

DOCUMENT = {
    "schema": "flashferry.stage/1",
    "exit_code": 0,
    "run": {
        "run_id": "20261123-041554-71e9",
        "started_at": "2026-11-23T04:15:54.570+00:00",
        "devices": [
            {"host": "xe1", "outcome": "done", "rate_bytes_per_s": 6.5e6, "size_bytes": 300, "held": False, "why": None}
        ],
    },
}
EVENTS = [
    {"schema": "flashferry.event/1", "host": None, "step": "run", "status": "started", "at_s": 0.0},
    {"schema": "flashferry.event/1", "host": "xe1", "step": "pull", "status": "progress", "at_s": 0.5},
    {"schema": "flashferry.event/1", "host": "xe1", "step": "pull", "status": "progress", "at_s": 1.5},
    {"schema": "flashferry.event/1", "host": "xe1", "step": "pull", "status": "done", "at_s": 2.0},
]
PAGE = """# HELP flashferry_transfers_total Transfers that ended.
# TYPE flashferry_transfers_total counter
flashferry_transfers_total{outcome="delivered",site="a \\"b\\" 1"} 1.0
flashferry_transfers_total{outcome="failed",site="b"} 2.0
"""


def renamed(value: Any) -> Iterator[Any]:
    """Yield a document with one key renamed, for each of its keys."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield {(f"{key}_" if key == name else key): item for key, item in value.items()}
            for inner in renamed(one):
                yield value | {name: inner}
    elif isinstance(value, list):
        for index, one in enumerate(value):
            for inner in renamed(one):
                yield [*value[:index], inner, *value[index + 1 :]]


def retyped(value: Any) -> Iterator[Any]:
    """Yield a document with one value of another type, for each of its values."""
    if isinstance(value, dict):
        for name, one in value.items():
            for inner in retyped(one):
                yield value | {name: inner}
    elif isinstance(value, list):
        for index, one in enumerate(value):
            for inner in retyped(one):
                yield [*value[:index], inner, *value[index + 1 :]]
    else:
        yield {"a": value}
        yield 1 if isinstance(value, str | type(None)) else "1"


def test_another_run_has_the_same_shape():
    """Names of runs, times, rates and sizes do not show."""
    other = copy.deepcopy(DOCUMENT)
    other["run"] |= {"run_id": "20270101-000000-0000", "started_at": "2027-01-01T00:00:00.000+00:00"}
    other["run"]["devices"][0] |= {"rate_bytes_per_s": 1.0, "size_bytes": 1, "held": True}
    assert shape(other) == shape(DOCUMENT)


def test_every_key_shows():
    """Whichever is renamed, the shape is another one."""
    found = list(renamed(DOCUMENT))
    assert len(found) == 12
    for one in found:
        assert json.dumps(shape(one)) != json.dumps(shape(DOCUMENT))


def test_every_type_shows():
    """Whichever value becomes one of another type, the shape is another one; whole numbers are no fractions."""
    found = list(retyped(DOCUMENT))
    assert len(found) == 20
    for one in [*found, copy.deepcopy(DOCUMENT) | {"exit_code": 0.0}]:
        assert json.dumps(shape(one)) != json.dumps(shape(DOCUMENT))


@pytest.mark.parametrize(("key", "value"), [("outcome", "ok"), ("host", "xe2")])
def test_words_of_a_contract_show(key, value):
    """An outcome that is called otherwise is a change."""
    other = copy.deepcopy(DOCUMENT)
    other["run"]["devices"][0][key] = value
    assert shape(other) != shape(DOCUMENT)


def test_what_varies_is_named_and_nothing_else_is_hidden():
    """A key that varies keeps its place; its neighbours show as ever."""
    one, other = {"rate": None, "kind": "a"}, {"rate": {"b": 1}, "kind": "a"}
    assert shape(one) != shape(other)
    assert shape(one, frozenset({"rate"})) == shape(other, frozenset({"rate"})) == {"rate": "varies", "kind": "a"}


def test_the_length_of_a_list_does_not_show_but_unlike_elements_do():
    """Two alike are one; one that is different is there too."""
    assert shape([1, 2, 3]) == shape([1]) == ["int"]
    assert shape([1, "a"]) == ["int", "text"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("run 20261123-041554-71e9 began", "run RUN began"),
        ("at 2026-11-23T04:15:54.570+00:00.", "at TIME."),
        ("written by flashferry 0.1.0", "written by flashferry VERSION"),
        (f"MD5 {'0' * 32}", "MD5 MD5"),
        (f"SHA-512 {'a' * 128}", "SHA-512 SHA512"),
        ("/tmp/x/image.bin: 300 bytes", "FOLDER/image.bin: 300 bytes"),
    ],
)
def test_a_text_keeps_its_words(text, told):
    """Only names of runs, times, digests, the version and what is named are replaced."""
    assert words(text, {"/tmp/x": "FOLDER"}) == told


def test_events_show_order_and_words_but_not_how_often_progress_is_told():
    """The same steps with more progress are the same; another word or order is not."""
    lines = [json.dumps(event) for event in EVENTS]
    told = event_lines(lines)
    assert event_lines([*lines[:2], *lines[1:]]) == told
    assert "pull progress" in told
    for index, event in enumerate(EVENTS):
        for key in event.keys() - {"at_s"}:
            broken = [*EVENTS[:index], event | {key: "another"}, *EVENTS[index + 1 :]]
            # One progress of two may be called otherwise without the other: then both are told.
            assert event_lines(json.dumps(one) for one in broken) != told, (index, key)
    assert event_lines([lines[0], lines[3], lines[1]]) != told
    assert event_lines(lines[:3]) != told


@pytest.mark.parametrize(
    ("old", "new"),
    [("counter", "gauge"), ("Transfers that", "Copies that"), ("outcome=", "result="), ("transfers_total{", "copies{")],
)
def test_a_page_of_metrics_shows_names_types_help_and_labels(old, new):
    """Whichever is changed, the page is another one."""
    assert metrics_page(PAGE.replace(old, new)) != metrics_page(PAGE)


def test_a_page_of_metrics_does_not_show_values():
    """Neither figures nor what labels are set to; a quote in a label ends it no earlier than it should."""
    assert metrics_page(PAGE.replace("1.0", "7.0").replace('"b"}', '"c"}')) == metrics_page(PAGE)
    assert "flashferry_transfers_total{outcome,site}\n" in metrics_page(PAGE)

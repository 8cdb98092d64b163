"""What somebody with a controller sends back: every answer's shape, nothing of the house, and no lab left."""

from __future__ import annotations

import json

import pytest

from flashferry.nightly.cml.record import record, write_record
from flashferry.nightly.night import Fault, NightFault
from tests.component.nightly.cml.known_shapes import VERSIONS, known
from tests.component.nightly.cml.standing import CLOCK, access, as_stranger, state


@pytest.mark.parametrize("version", VERSIONS)
def test_the_shapes_that_are_shipped_are_the_stand_ins(version):
    """Else: python -m tests.component.nightly.cml.known_shapes --update."""
    path, text = known(version)
    assert path.read_text(encoding="utf-8") == text


def test_by_default_it_only_looks(standin):
    """Nothing but questions, a login and a logout; and the stand-in is as it is known."""
    strangers = as_stranger(standin)
    before = len(standin.exchanges)
    found = record(access(standin), clock=CLOCK)
    assert (found.differences, found.failures) == ((), ())
    orders = {(one.method, one.path) for one in standin.exchanges[before:] if one.method != "GET"}
    assert orders == {("POST", "authenticate"), ("DELETE", "logout")}
    assert state(standin, strangers) == "STARTED"


def test_with_a_lab_it_finds_out_the_refusals_and_leaves_none(standin, tmp_path):
    """Their codes and words are in the file; nothing of the house is."""
    strangers = as_stranger(standin, "merger with ACME")
    found = record(access(standin), has_lab=True, clock=CLOCK)
    assert found.failures == ()
    with standin.controller.lock:
        assert [lab.lab_id for lab in standin.controller.labs()] == [strangers]
    path = tmp_path / "record.json"
    write_record(path, found)
    text = path.read_text()
    answers = json.loads(text)["answers"]
    assert answers["delete while running: DELETE labs/LAB"]["example"]["code"] == 403
    house = ("merger", standin.password, "stranger", "127.0.0.1", strangers, "ff-nightly")
    assert [one for one in house if f'"{one}' in text or f" {one}" in text] == []


def test_what_a_controller_answers_otherwise_is_told(standin):
    """By situation, question and place."""
    standin.faults.set(console_log_as="lines", forbidden={"path": "^licensing$"})
    found = record(access(standin), has_lab=True, clock=CLOCK)
    assert "look: GET licensing: expected 200, found 403" in found.differences
    assert any("/log: the answer: expected object, found array" in one for one in found.differences)


def test_what_cannot_be_asked_is_told_and_the_rest_is_asked(standin):
    """One question that hangs spoils no record."""
    standin.faults.set(bad_gateway={"path": "/events$"})
    found = record(access(standin), has_lab=True, clock=CLOCK)
    assert [one.partition(":")[0] for one in found.failures] == ["imported", "running"]
    assert found.answers > 40


@pytest.mark.soak
def test_a_lab_that_stays_is_told(standin):
    """It is ours, and somebody has to remove it."""
    standin.faults.set(forbidden={"path": "^labs/[^/]+$", "method": "DELETE"})
    with pytest.raises(NightFault) as found:
        record(access(standin), has_lab=True, clock=CLOCK)
    assert found.value.fault is Fault.CLEANUP

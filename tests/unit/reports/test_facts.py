"""What a run did besides the copy stands in every form of the report, in the same sentence, and as a value in JSON."""

from __future__ import annotations

import csv
import io
import json
from html import unescape
from xml.etree import ElementTree

import pytest

from flashferry.cli.view.device_tables import print_details
from flashferry.cli.view.report_table import report_text
from flashferry.core.codec import to_json
from flashferry.core.values import field_names
from flashferry.model.activation import ActivationOutcome
from flashferry.model.record import DeviceRecord, RunReport
from flashferry.reports.as_csv import report_csv
from flashferry.reports.as_html import report_html
from flashferry.reports.as_json import report_json
from flashferry.reports.facts import FACTS, record_facts
from flashferry.reports.junit import report_junit
from flashferry.reports.model import DeviceReport
from tasks.add import AddOutcome, AddReport
from tasks.dead_man import DeadManReport
from tasks.distribute import DistributionReport, MemberCopy
from tasks.readiness.values import Asked, Condition, Met, Readiness, Verdict

MEMBER = MemberCopy(place="2", path="flash-2:x.bin", digest="b" * 32, duration_s=4.0)
LACKING = Condition(name=Asked.REGISTER, met=Met.NOT_MET, sentence="the register is 0x2142", command="show boot")
ARMED = (
    "the device takes our lines back by itself in 31 min (FLASHFERRY-1), without comparing what stands there by then"
)
DONE = {
    "dead_man": (
        DeadManReport(name="FLASHFERRY-1", is_armed=True, countdown_s=1860, undo=("no ip tcp mss",)),
        ARMED,
    ),
    "distribution": (
        DistributionReport(mode="bundle", copies=(MEMBER,)),
        "each copy proven there: flash-2:x.bin",
    ),
    "added": (
        AddReport(outcome=AddOutcome.ADDED, command="install add file x", version="17.12.01"),
        "added: 17.12.01",
    ),
    "readiness": (
        Readiness(
            verdict=Verdict.NO, image="x.bin", version=None, running="17.3.1", mode="bundle", conditions=(LACKING,)
        ),
        "ready to boot the image: no; register: the register is 0x2142",
    ),
}
ACTIVATED = (
    {
        "outcome": ActivationOutcome.ROLLED_BACK.value,
        "mode": "install",
        "from_release": "17.3.1",
        "to_release": "17.3.1",
        "lacks": ["GigabitEthernet1 is not up"],
        "away_s": 300.2,
    },
    "rolled back: 17.3.1 runs, away for 300 s; lacking: GigabitEthernet1 is not up",
)


@pytest.fixture
def full(run, device, record, report):
    """Report a device of which every fact is known."""
    known = {name: to_json(value) for name, (value, _) in DONE.items()} | {"activation": ACTIVATED[0]}
    return report(run(device(record=record("xe_staged") | known)))


def expected():
    """Return every fact's sentence by its name."""
    return {name: words for name, (_, words) in DONE.items()} | {"activation": ACTIVATED[1]}


def test_every_fact_is_a_field_of_record_and_report():
    """Neither is forgotten where one is added, and this test knows each."""
    names = set(FACTS)
    assert names <= set(field_names(DeviceRecord))
    assert names <= set(field_names(DeviceReport))
    assert names == set(expected())


def test_every_fact_stands_in_every_form(full):
    """Text, CSV, JUnit and HTML have its heading and its one sentence; JSON has the value."""
    text = " ".join(report_text(full).split())
    (row,) = csv.DictReader(io.StringIO(report_csv(full), newline=""))
    account = ElementTree.fromstring(report_junit(full)).find("testsuite/testcase/system-out").text
    page = unescape(report_html(full))
    document = json.loads(report_json(full))["devices"][0]
    for name, words in expected().items():
        heading = FACTS[name].heading
        assert f"{heading}: {words}" in text
        assert row[heading] == words
        assert f"{heading}: {words}" in account.splitlines()
        assert f"<dt>{heading.capitalize()}</dt><dd>{words}</dd>" in page
        assert document[name] is not None


def test_json_has_the_values(full):
    """Numbers and names as such, for programs."""
    found = json.loads(report_json(full))["devices"][0]
    assert found["added"] == {
        "outcome": "added",
        "command": "install add file x",
        "version": "17.12.01",
        "duration_s": 0.0,
        "bytes_per_s": None,
    }
    assert found["distribution"]["copies"][0]["digest"] == "b" * 32
    assert (found["dead_man"]["is_armed"], found["dead_man"]["countdown_s"]) == (True, 1860)
    assert found["activation"]["away_s"] == 300.2


def test_what_was_not_asked_for_is_in_no_form(run, device, record, report):
    """A run without these options reports none of them; the CSV has empty cells."""
    found = report(run(device(record=record("xe_staged"))))
    (row,) = csv.DictReader(io.StringIO(report_csv(found), newline=""))
    assert {row[kind.heading] for kind in FACTS.values()} == {""}
    assert found.devices[0].facts == ()
    assert "Besides the copy" not in report_text(found)


def test_the_result_of_a_run_has_the_same_sentences(capsys):
    """What the terminal prints at the end of a run is what the report says later."""
    record = DeviceRecord(host="xe1", seconds_by_step={}, **{name: value for name, (value, _) in DONE.items()})
    print_details(
        RunReport(run_id="r", verb="stage", image="x.bin", image_bytes=1, md5="a" * 32, devices=(record,)),
        lambda device: None,
    )
    printed = " ".join(capsys.readouterr().out.split())
    for fact in record_facts(record):
        assert f"xe1: {fact}" in printed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"is_armed": False, "reason": "no EEM"}, "staged without a dead-man: no EEM"),
        (
            {"is_armed": False, "reason": "no room", "earlier": "FLASHFERRY-1"},
            "FLASHFERRY-1 counts on, and does not know all of our lines: no room",
        ),
    ],
)
def test_a_dead_man_that_was_not_taken_says_why(run, device, record, report, given, words):
    """It is not reported as armed; one that still counts is not reported as missing."""
    told = {"name": "FLASHFERRY-2", "countdown_s": 60, "undo": []} | given
    (found,) = report(run(device(record=record("xe_staged") | {"dead_man": told}))).devices
    assert [fact.sentence for fact in found.facts] == [words]


def test_members_that_the_device_serves_itself_are_not_reported_as_copied(run, device, record, report):
    """In install mode nothing is copied by us, and the sentence says who does it."""
    told = {"mode": "install", "copies": []}
    (found,) = report(run(device(record=record("xe_staged") | {"distribution": told}))).devices
    assert [fact.sentence for fact in found.facts] == [
        "not copied: in install mode the device distributes the image itself"
    ]

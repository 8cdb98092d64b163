"""JSON, CSV, JUnit and HTML: each says what the model says, and nothing in them can be made to do anything."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from flashferry.cli.view.report_table import report_text
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.model.states import RunState
from flashferry.reports.as_csv import COLUMNS, report_csv, safe
from flashferry.reports.as_html import MOST_OPENED, device_section, report_html
from flashferry.reports.as_json import report_document, report_json, report_schema
from flashferry.reports.headline import configuration_line, state_line
from flashferry.reports.junit import report_junit
from flashferry.reports.model import Speed
from flashferry.reports.thresholds import Status, checks_of, parse_threshold, worst
from tests.pages import Page
from tests.some import some

RECORDS = Path(__file__).parent / "records"
HOSTILE = "=cmd|'/C calc'!A1<script>alert(1)</script>\"'&\x07"


def every_kind(run, device, record, three, fleet):
    """Yield runs of every kind: ended, live, dead, empty, a probe, a fleet."""
    yield three
    yield fleet(15, sites=3)
    yield run()
    yield run(device(record={}, state="planned"), state=RunState.ALIVE, finished_at=None)
    yield run(device(record={}, state="copying", is_held=True), state=RunState.DIED, finished_at=None)
    yield run(device(record=record("xe_probed")), verb="probe")


def test_every_json_report_is_as_its_schema_says(run, device, record, three, fleet, report):
    """Runs of every kind make documents that the schema takes (the next test: that it is the published one)."""
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for found in every_kind(run, device, record, three, fleet):
        jsonschema.validate(json.loads(report_json(report(found))), schema)


def test_the_schema_in_the_documentation_is_that_of_the_model(documentation):
    """Who changes the model must publish it: python -m flashferry.reports.as_json > docs/report.schema.json."""
    assert json.loads(documentation("report.schema.json")) == report_schema()


def test_the_schema_refuses_what_is_not_in_the_model(three, report):
    """A field more or less, or zero's word for missing, is no report."""
    schema = report_schema()
    for change in ({"surprise": 1}, {"run_id": None}, {"schema": "flashferry.report/2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(report_document(report(three)) | change, schema)


def test_json_has_the_readings_in_the_units_of_the_report(three, report):
    """Each reading of the record is there, its round trip in seconds."""
    found = report(three)
    (told,) = report_document(found)["devices"][0]["transfers"]
    (kept,) = found.devices[0].transfers
    assert len(told["samples"]) == len(kept.samples) == 12
    assert told["samples"][-1]["acked_bytes"] == kept.samples[-1].bytes_acked
    assert told["samples"][3]["rtt_s"] == kept.samples[3].rtt_us / 1e6


def test_csv_has_a_row_per_device_with_units(three, report):
    """What a spreadsheet reads back is what the model says; what was not measured is an empty cell."""
    text = report_csv(report(three))
    assert text.endswith("\r\n")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["device"] for row in rows] == ["xe1", "ios1", "xe2"]
    assert float(rows[0]["tuned (MB/s)"]) == pytest.approx(2.35, abs=0.01)
    assert rows[0]["before tuning (MB/s)"] == ""
    assert len(COLUMNS) == len(rows[0])


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\n=1"])
def test_no_cell_is_a_formula(text):
    """What a spreadsheet would run is text; numbers below zero stay numbers."""
    assert safe(text) == f"'{text}"
    assert safe(-1.5) == -1.5


def test_hostile_names_survive_csv(run, device, report):
    """A host name with quotes, a line break and a formula is one cell of one line, behind an apostrophe."""
    host = '=x"y,\nz'
    rows = list(csv.reader(io.StringIO(report_csv(report(run(device(host)))), newline="")))
    assert rows[1][0] == r"""'=x"y,\nz"""
    assert len(rows) == 2


def test_junit_counts_what_it_holds(three, fleet, report):
    """Suites are sites; counts are those of the cases; each case passed or has one reason."""
    thresholds = [parse_threshold("min_rate_mb_s=0.5"), parse_threshold("max_minutes=1")]
    for found in (report(three), report(fleet(60, sites=3))):
        root = ElementTree.fromstring(report_junit(found, thresholds))
        suites = root.findall("testsuite")
        assert [suite.get("name") for suite in suites] == [site.name for site in found.sites]
        cases = root.findall("testsuite/testcase")
        assert len(cases) == len(found.devices) * 4 == int(root.get("tests"))
        for holder in (root, *suites):
            for attribute, element in (("failures", "failure"), ("errors", "error")):
                assert int(holder.get(attribute)) == len(list(holder.iter(element)))
        assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
        for case in cases:
            reasons = [child for child in case if child.tag != "system-out"]
            assert len(reasons) <= 1
            assert all(reason.get("message") for reason in reasons)
            assert re.fullmatch(r"\d+\.\d{3}", case.get("time"))


def test_junit_tells_wrong_from_unknown(run, device, record, report):
    """A wrong hash is a failure, an error of ours an error, a device that had no turn is skipped."""
    ours = record("xe_wrong_hash", outcome="error")
    devices = (device("a", record("xe_wrong_hash")), device("b", ours), device("c", record={}, state="planned"))
    found = report(run(*devices))
    first = [checks_of(one, "stage", ())[0] for one in found.devices]
    assert [check.status for check in first] == [Status.FAILED, Status.ERROR, Status.SKIPPED]
    assert "expected SHA-512" in first[0].message
    assert worst(found, ()) is Status.FAILED


def test_an_activation_that_failed_does_not_pass_its_check(run, device, record, report):
    """Its configuration is what it was, and it does not run the image: not as it must be."""
    back = record("xe_staged", outcome="failed", restored="restored")
    back["failure"] = {"step": "activate", "reason": "not committed, and the old image runs again", "hint": None}
    found = report(run(device("a", back), device("b", record("xe_staged", restored="untouched")), verb="activate"))
    first = [checks_of(one, "activate", ())[0] for one in found.devices]
    assert [(check.name, check.status) for check in first] == [
        ("image runs", Status.FAILED),
        ("image runs", Status.PASSED),
    ]
    assert worst(found, ()) is Status.FAILED
    assert "but for the boot order" in configuration_line(found)


def test_a_dead_activation_is_not_gone_on_with(run, device, record, report):
    """Recovery brings it to its end; a staging would not."""
    left = device(record={}, state="journaled", is_held=True)
    found = report(run(left, verb="activate", state=RunState.DIED))
    assert "recover" in state_line(found)
    assert "--resume" not in state_line(found)


def test_a_dead_run_that_left_nothing_is_not_to_be_recovered(run, device, record, report):
    """Recovery was there, or nothing was touched: who reads the report is not sent to do it again."""
    found = report(run(device("a", record("xe_staged", outcome="failed")), state=RunState.DIED))
    assert "flashferry recover" not in state_line(found)
    assert "--resume" in state_line(found)


def test_hostile_text_is_written_to_junit_as_text(run, device, record, report):
    """Markup is escaped, and what XML cannot hold is written out."""
    bad = record("xe_wrong_hash")
    bad["failure"]["reason"] = HOSTILE
    root = ElementTree.fromstring(report_junit(report(run(device(HOSTILE, bad, site=HOSTILE)))))
    assert root.find("testsuite").get("name") == HOSTILE.replace("\x07", r"\x07")
    assert "<script>" in root.find("testsuite/testcase/failure").get("message")


@pytest.mark.parametrize(
    ("given", "host", "status"),
    [
        ("tuned_share_of_cap=0.9", "xe1", Status.PASSED),
        ("tuned_share_of_cap=0.99", "xe1", Status.FAILED),
        ("tuned_share_of_link=0.3", "xe1", Status.PASSED),
        # Two copies shared the site's cap, so nobody could have reached that.
        ("tuned_share_of_link=0.8", "xe1", Status.SKIPPED),
        ("tuned_share_of_link=0.8", "ios1", Status.FAILED),
        ("min_rate_mb_s=2", "xe1", Status.PASSED),
        ("min_rate_mb_s=2", "ios1", Status.FAILED),
        ("max_minutes=1", "xe1", Status.PASSED),
        ("max_minutes=1", "ios1", Status.FAILED),
        ("min_gain=10", "xe1", Status.PASSED),
        ("min_gain=20", "xe1", Status.FAILED),
        ("min_gain=2", "ios1", Status.SKIPPED),
        ("max_retransmitted_share=0.01", "xe1", Status.PASSED),
        ("max_retransmitted_share=0.0001", "xe1", Status.FAILED),
    ],
)
def test_thresholds(three, report, given, host, status):
    """Each threshold judges real records, and says what was expected and what was found."""
    before = {"xe1": Speed(bytes_per_s=160_000.0, source="speed test", to_flash=False)}
    device = next(one for one in report(three, before).devices if one.host == host)
    check = checks_of(device, "stage", [parse_threshold(given)])[-1]
    assert check.status is status, check.message
    assert ("expected" in check.message and "found" in check.message) is (status is Status.FAILED)


@pytest.mark.parametrize(
    "given", ["", "speed=1", "min_gain", "min_gain=fast", "min_gain=-1", "min_gain=inf", "tuned_share_of_link=80"]
)
def test_a_threshold_that_means_nothing_is_refused(given):
    """Unknown names and values out of range are one sentence that names what is allowed."""
    with pytest.raises(ConfigInvalid, match="--threshold"):
        parse_threshold(given)


def test_html_is_whole_and_loads_nothing(run, device, record, three, fleet, report):
    """Tags balance; nothing names another file; no style attribute and no handler, which its policy forbids."""
    for found in some(every_kind(run, device, record, three, fleet)):
        page = Page(report_html(report(found)))
        assert page.open == []
        names = {(tag, name) for tag, name, _ in page.attributes}
        assert not [name for _, name in names if name == "style" or name.startswith("on")]
        assert not [pair for pair in names if pair[1] in {"src", "xlink:href", "action"}]
        assert all(value.startswith("#") for tag, name, value in page.attributes if name == "href")
        assert "url(" not in page.parts["style"][0]
        ids = [value for _, name, value in page.attributes if name == "id"]
        assert len(ids) == len(set(ids))


def test_html_allows_its_own_style_and_script_by_digest_and_no_other(three, report):
    """The policy names the digests of exactly what stands in the page."""
    page = Page(report_html(report(three)))
    (policy,) = [value for tag, name, value in page.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy
    for part in ("style", "script"):
        (text,) = page.parts[part]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in policy


def test_html_shows_hostile_text_as_text(run, device, record, report):
    """A host name, a site, an address or a device's words are text on the page, whatever they hold."""
    bad = record("xe_wrong_hash", notes=[HOSTILE], partial_file=HOSTILE)
    bad["failure"] |= {"reason": HOSTILE, "hint": HOSTILE}
    bad["check"]["facts"] |= {"model": HOSTILE}
    bad["check"]["notes"] = [HOSTILE]
    bad["transfer"]["verdict"] |= {"sentence": HOSTILE, "kind": HOSTILE, "evidence": [HOSTILE]}
    bad["transfer"]["sender"] |= {"cap_source": HOSTILE}
    bad["seconds_by_step"] = {HOSTILE: 1.0}
    page = Page(report_html(report(run(device(HOSTILE, bad, site=HOSTILE, address=HOSTILE, image=HOSTILE)))))
    assert len(page.parts["script"]) == 1
    assert page.text.count("<script>alert(1)</script>") >= 8


def test_html_names_transports_where_one_is_not_the_usual(run, device, record, three, report):
    """Beside each device; a run by FTP alone needs no column for it."""
    assert "By" not in Page(report_html(report(three))).words
    by_scp = record("ios_slow") | {"transport": "scp"}
    words = Page(report_html(report(run(device("xe1"), device("ios1", by_scp))))).words
    assert "By" in words
    assert {"FTP", "SCP"} <= set(words)


def test_html_of_few_devices_is_open_of_many_only_what_needs_attention(three, fleet, report):
    """Three devices print whole; of many those that need attention do, and the page says so."""
    few, many = report(three), report(fleet(200))
    assert (
        report_html(few).count('<details class="device"')
        == 3
        == len(re.findall(r"<details[^>]* open>", report_html(few)))
    )
    page, urgent = report_html(many), many.summary.needing_attention
    assert len(re.findall(r"<details[^>]* open>", page)) == min(urgent, MOST_OPENED)
    assert f"the {urgent} that need attention of 200 devices" in page


def test_html_of_500_devices_stays_small(fleet, report):
    """500 devices with as many readings as a transfer may keep: no more than 6 MB."""
    run = fleet(500)
    longest = jagged_samples(49)
    devices = tuple(
        replace(one, transfers=tuple(_with_samples(copy, longest) for copy in one.transfers)) for one in run.devices
    )
    page = report_html(report(replace(run, devices=devices)))
    assert page.count('<svg class="graph"') > 1900
    assert len(page.encode()) <= 6_000_000


def jagged_samples(count):
    """Return as many readings as a transfer may keep, of a rate and a round trip that never stand still."""
    base = json.loads((RECORDS / "ios_slow.json").read_text())["transfer"]["samples"]
    return [
        base[number % len(base)] | {"at_s": 1.37 * number, "bytes_acked": 510_000 * number + 97_000 * (number % 5)}
        for number in range(count)
    ]


def _with_samples(copy, samples):
    return replace(copy, record=copy.record | {"samples": samples})


@pytest.mark.parametrize("form", [report_html, report_text])
def test_missing_is_said_and_never_zero(run, device, report, form):
    """A device without a record shows no figure at all."""
    text = form(report(run(device(record={}, state="planned"))))
    assert "0.0 kB/s" not in text
    assert not re.search(r"\b0\.0 s\b", text)


def test_the_table_names_what_needs_attention_first(three, report):
    """Failures with what to do stand above the devices; the row of each device is one line."""
    lines = report_text(report(three), [parse_threshold("min_rate_mb_s=2")]).splitlines()
    attention, devices = lines.index("Needs attention: 1 device"), lines.index("Devices")
    assert attention < devices
    assert lines[attention + 1].startswith("xe2: failed at verify: bootflash:isr-image")
    assert [line.split()[0] for line in lines[devices + 2 : devices + 5]] == ["xe1", "ios1", "xe2"]
    assert any(line.startswith("Checks: ") for line in lines)


def test_the_first_wave_is_shown_as_the_others_are(device, run, report):
    """Wave 0 too; where there is one wave alone there is nothing to tell apart."""
    waves = re.compile(r"<dt>Wave</dt><dd>([^<]*)</dd>")
    several = run(device("r1", wave=0), device("r2", wave=1), device("r3", wave=-1))
    assert waves.findall(report_html(report(several))) == ["0", "1"]
    assert waves.findall(report_html(report(run(device("r1", wave=0), device("r2", wave=0))))) == []
    made = report(run(device("r1", wave=0)))
    names = {0: "0 (canary)", 1: "1 (site AMS)"}
    assert waves.findall(device_section(made, made.devices[0], names)) == ["0 (canary)"]


def test_the_last_words_of_a_failed_device(record, device, run, report):
    """They are in JSON and on the page, as text; a device that did not fail has none."""
    talk = ["2026-11-23T02:00:00.000Z > show clock\\n", "2026-11-23T02:00:00.100Z < <b>noon</b>\\r\\n"]
    later = ["2026-11-23T02:00:00.100Z < <b>noon</b>\\r\\n", "2026-11-23T02:00:09.000Z - hung up"]
    failure = {"step": "verify", "reason": "lost", "hint": None, "kind": "DeviceUnreachable", "transcript": talk}
    wrong = record("xe_wrong_hash", failure=failure, restore_failure=failure | {"transcript": later})
    made = report(run(device("xe1"), device("xe2", wrong)))
    good, bad = report_document(made)["devices"]
    assert good["transcript"] == []
    assert bad["transcript"] == [*talk, later[1]]
    page = report_html(made)
    assert page.count("The last of the session with it") == 1
    assert "&lt; &lt;b&gt;noon&lt;/b&gt;" in page
    assert "<b>noon" not in page

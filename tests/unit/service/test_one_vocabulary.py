"""One device has one word, and one count, wherever an outcome is read: each form of output over the same run."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

import pytest

from flashferry.cli.status import print_status
from flashferry.cli.view.device_tables import print_run
from flashferry.cli.view.live import FleetLines
from flashferry.cli.view.report_table import report_text
from flashferry.model.exit_codes import exit_code
from flashferry.model.record import DeviceRecord, Failure, RunReport
from flashferry.model.states import LEFT, NOT_DONE, OUTCOMES, Outcome, Phase, Restored, State, Tone, label_of
from flashferry.monitor.events import OTHER_STEPS, Event
from flashferry.monitor.metrics import COPY_SECONDS, STATES, TRANSFERS, TRANSPORT_TRANSFERS, FleetCollector
from flashferry.monitor.progress import Expected, Fleet, Roster
from flashferry.reports.as_csv import report_csv
from flashferry.reports.as_html import report_html
from flashferry.reports.as_json import report_json
from flashferry.reports.build import build_report
from flashferry.reports.headline import headline
from flashferry.reports.junit import report_junit
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.metrics.counting import METRICS
from flashferry.store.journal import Journal
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from tasks.steps import STEPS
from tests.served import serve
from tests.unit.cli.view.test_live_fleet import Screen

HOSTS = {f"r-{outcome.name.lower().replace('_', '-')}": outcome for outcome in Outcome}
WORDS = {
    Outcome.DONE: "done",
    Outcome.ALREADY_THERE: "already there",
    Outcome.REFUSED: "refused",
    Outcome.FAILED: "failed",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.NOT_STARTED: "not started",
    Outcome.ERROR: "failed",
}
COUNTS = {"done": 2, "refused": 1, "failed": 2, "interrupted": 1, "not started": 1}


def record(host: str, outcome: Outcome) -> DeviceRecord:
    failure = Failure(step="check", reason="no room", hint=None, kind="DeviceRefused")
    state = State.PLANNED if outcome is Outcome.NOT_STARTED else State.DONE if outcome.is_good else State.FAILED
    return DeviceRecord(
        host=host,
        state=state,
        outcome=outcome,
        restored=Restored.UNTOUCHED,
        failure=None if outcome.is_good else failure,
        image="x.bin",
        seconds_by_step={},
    )


@pytest.fixture
def served(tmp_path, monkeypatch):
    found = serve(tmp_path)
    found.clock.now = datetime.now(UTC)  # that of the journal
    monkeypatch.setattr(SnapshotReader, "FRESH_S", 0.0)
    return found


@pytest.fixture
def run_id(served, journal_of):
    return journal_of(served.service.state)


@pytest.fixture
def journal_of():
    """Enter a finished run with a device for each outcome; return its identifier."""

    def enter(folder):
        with Journal(folder) as journal:
            found = journal.begin_run("stage")
            for host, outcome in HOSTS.items():
                journal.add_device(found, host=host, address="192.0.2.1", port=22, platform="ios", site="AMS")
                kept = record(host, outcome)
                for state in (State.CHECKED, State.DONE) if outcome.is_good else (State.FAILED,):
                    if outcome is not Outcome.NOT_STARTED:
                        journal.move(found, host, state)
                journal.record(found, host, kept)
            journal.finish_run(found)
        return found

    return enter


def ends() -> list[Event]:
    return [
        Event(
            host=host,
            step="device",
            status="done" if outcome.is_good else "failed",
            text=outcome.label if outcome.is_good else f"{outcome.label}: check: no room",
            at_s=1.0,
            site="AMS",
            outcome=outcome.value,
            restored="untouched",
        )
        for host, outcome in HOSTS.items()
    ]


def test_every_form_of_the_report_has_the_word(served, run_id):
    """Text, HTML, CSV, JUnit and the label in JSON; JSON's outcome keeps the value."""
    report = build_report(read_run(served.service.state, run_id), written_at="", written_by="", before={})
    assert {one.host: one.label for one in report.devices} == {host: WORDS[outcome] for host, outcome in HOSTS.items()}
    rows = {row["device"]: row["outcome"] for row in csv.DictReader(io.StringIO(report_csv(report)))}
    document = json.loads(report_json(report))
    in_json = {one["host"]: (one["outcome"], one["label"]) for one in document["devices"]}
    accounts = {
        case.get("name", "").partition(":")[0]: case.findtext("system-out") or ""
        for case in ET.fromstring(report_junit(report)).iter("testcase")
        if "outcome:" in (case.findtext("system-out") or "")
    }
    html, text = report_html(report), report_text(report)
    for host, outcome in HOSTS.items():
        word = WORDS[outcome]
        assert rows[host] == word
        assert in_json[host] == (outcome.value, word)
        assert f"outcome: {word}\n" in accounts[host]
        assert re.search(
            rf">{host}</a>(?:(?!</tr>).)*<span class=\"badge \w+\">\s*\S+ {word}\s*</span>", html, re.DOTALL
        ), host
        assert re.search(rf"^\s*{host}\s+(?:\S+\s+)?{word}\b", text, re.MULTILINE), host
    told = headline(report)
    assert told.startswith("2 of 7 devices")
    assert all(f"{count} {word}" in told for word, count in COUNTS.items() if word != "done")


def test_the_terminal_has_the_word(served, run_id, capsys, monkeypatch):
    """The result of a run and `status`: the same word per device, the same counts."""
    monkeypatch.setenv("COLUMNS", "160")
    devices = tuple(record(host, outcome) for host, outcome in HOSTS.items())
    print_run(RunReport(run_id=run_id, verb="stage", image="x.bin", image_bytes=1, md5="0", devices=devices))
    result = capsys.readouterr().out
    print_status(read_status(served.service.state))
    status = capsys.readouterr().out
    for host, outcome in HOSTS.items():
        assert re.search(rf"^{host}\s+{WORDS[outcome]}\b", result, re.MULTILINE), host
    for word, count in COUNTS.items():
        assert f"{count} {word}" in result
        assert f"{count} {word}" in status
    for word in ("refused", "failed", "interrupted"):
        assert re.search(rf"^\s+r-{word}\s+(?:\S+\s+)?{word}\b", status, re.MULTILINE), word


def test_what_follows_events_has_the_word_and_the_count(capsys):
    """Live view, plain lines and metrics."""
    screen = Screen(len(HOSTS), width=120, sites=("AMS",))
    roster = Roster(devices=tuple(Expected(host=host, site="AMS") for host in HOSTS))
    ticks = iter(range(0, 10**6, 100))
    plain = FleetLines(roster, "restore", len(HOSTS), clock=lambda: float(next(ticks)))
    fleet = Fleet(roster, "restore")
    for event in ends():
        screen.view(event)
        plain(event)
        fleet.take(event, 1.0)
    assert {host: one.phase.label for host, one in fleet.devices.items()} == {
        host: "done" if outcome.is_good else WORDS[outcome] for host, outcome in HOSTS.items()
    }
    shown = "\n".join(screen.lines)
    assert all(f"{count} {word}" in shown for word, count in COUNTS.items() if word != "done"), shown
    assert "2 of " in shown
    printed = capsys.readouterr().err
    for host, outcome in HOSTS.items():
        word = WORDS[outcome] if outcome.is_good else f"{WORDS[outcome].upper()} check: no room"
        assert re.search(rf" {host}\s+device\s+{word}$", printed, re.MULTILINE), printed
    last = printed.splitlines()[-1]
    assert all(f"{count} {word}" in last for word, count in COUNTS.items() if word != "done"), last
    assert "2 of 7 done" in last
    family = next(one for one in FleetCollector(fleet, threading.Lock()).collect() if one.name == "flashferry_devices")
    counts = {one.labels["state"]: one.value for one in family.samples if one.value}
    assert counts == {"done": 2, "refused": 1, "failed": 2, "interrupted": 1, "not_begun": 1}


def test_the_service_s_pages_have_the_word_and_the_count(served, run_id):
    """A run's page: badge, tiles and filter; the page of devices; metrics."""
    served.person("vera", "viewer")
    vera = served.browser("vera")

    def get(path: str, accept: str = "application/json"):
        answer = served.call("GET", path, vera, headers={"Accept": accept})
        assert answer.status_code == 200, answer.text
        return answer

    view = served.view(f"/runs/{run_id}", vera)
    states = {host: row["state"] for host, row in view["shown"]["devices"].items()}
    assert {host: one["text"] for host, one in states.items()} == {host: WORDS[one] for host, one in HOSTS.items()}
    assert {host: one["tone"] for host, one in states.items()} == {host: one.tone for host, one in HOSTS.items()}
    head = view["shown"]["run"]["run"]
    assert head["done"]["text"] == "2 of 7"
    assert {phase.label: int(head[phase.name.lower()]["text"]) for phase in NOT_DONE} == {
        word: count for word, count in COUNTS.items() if word != "done"
    }
    for phase in NOT_DONE:
        found = served.view(f"/runs/{run_id}?state={phase.label}", vera)["list"]["rows"]
        assert len(found) == COUNTS[phase.label]
    listed = served.view("/devices", vera)["list"]["rows"]
    devices = {one["host"]: one["newest"]["word"] for one in listed}
    assert devices == {host: WORDS[outcome] for host, outcome in HOSTS.items()}
    page = get(f"/runs/{run_id}", "text/html").text
    assert all(f"<option>{phase.label}</option>" in page for phase in Phase)
    assert "as asked for" not in page
    metrics = get("/metrics").text
    assert 'flashferry_devices{site="AMS",state="refused"} 1' in metrics.replace(".0", "")


def test_a_device_of_a_killed_run_is_interrupted():
    """The report's value stays; its word is that of live view and pages."""
    assert label_of(LEFT) == Phase.INTERRUPTED.label == Outcome.INTERRUPTED.label


def test_the_documentation_has_the_tables(documentation):
    """docs/report.md has every outcome with code and remedy; docs/events.md every step and every value."""
    rows = re.findall(
        r"^\| ([^|]+) \| `([^`]+)` \| ([^|]+) \| ([^|]+) \| (\d+) \| ([^|]+) \|$",
        documentation("report.md"),
        re.MULTILINE,
    )
    assert rows == [
        (row.label, outcome.value, row.phase.label, row.meaning, str(int(exit_code([outcome]))), row.remedy)
        for outcome, row in OUTCOMES.items()
    ]
    text = documentation("events.md")
    table = text[text.index("| `step` | is |") : text.index("| `status` | is |")]
    found = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)[1:]
    assert found == [*((step.word, step.label) for step in STEPS), *OTHER_STEPS.items()]
    assert f"decides it: {', '.join(OUTCOMES)} (" in text


def test_a_metric_that_runs_and_the_service_have_is_defined_once(documentation):
    """Name, labels and meaning are the same object; its states are those that the documentation lists."""
    assert METRICS["transfers"] is TRANSFERS
    assert METRICS["copy_seconds"] is COPY_SECONDS
    assert METRICS["transport_transfers"] == TRANSPORT_TRANSFERS.split_by("tuned")
    listed = re.search(r"`flashferry_devices` \| gauge by `site`, `state`: ([^;]+);", documentation("metrics.md"))
    assert listed is not None
    assert listed[1].split(", ") == [state.replace(" ", "_") for state in STATES]


def test_tones_say_how_grave_it_is():
    """Red is for what failed alone; what a person can see coming is amber."""
    assert {outcome for outcome in Outcome if outcome.tone is Tone.BAD} == {Outcome.FAILED, Outcome.ERROR}
    assert {outcome for outcome in Outcome if outcome.tone is Tone.GOOD} == {Outcome.DONE, Outcome.ALREADY_THERE}

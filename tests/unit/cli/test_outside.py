"""Every way out, tried with everything that is hostile: no secret, nothing obeyed, documents still parse.

Ways out are taken from their registries: a verb, a form of a report, a view of the server or a watcher that this test
does not know fails it.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import logging
import re
import sqlite3
import sys
import threading
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from rich.box import ASCII
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text
from typer.main import get_group

import flashferry
from flashferry.api import ReportFormat, SyncedImage, SyncPhase, SyncProgress, SyncResult
from flashferry.api.serving import Offer
from flashferry.cli import depot
from flashferry.cli.main import main
from flashferry.cli.program import FAMILIES, VERBS
from flashferry.cli.terminal.output import EventLines, print_error, say
from flashferry.cli.terminal.streams import guard
from flashferry.cli.view import serve_sessions as sessions
from flashferry.cli.view.layout import ShownConsole, ShownTable
from flashferry.cli.view.live import FleetLines, LiveTable
from flashferry.cli.view.plan_table import PlanProgress
from flashferry.core.codec import stored_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.fileserver import EventKind, ImageFile, ServerEvent, Ticket, TransferProgress, TransferRecord
from flashferry.images.image import PlannedImage
from flashferry.images.safe_open import FileIdentity
from flashferry.model.exit_codes import ExitCode
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import load_plan, plan_document, plan_text, sealed
from flashferry.model.record import DeviceRecord, Failure, RunReport
from flashferry.model.states import Outcome, Restored, State
from flashferry.model.waves import Wave, WavePolicy
from flashferry.monitor import metrics
from flashferry.monitor.event_log import event_line, event_log
from flashferry.monitor.events import Event
from flashferry.monitor.metrics import run_metrics, serve_metrics
from flashferry.monitor.progress import Expected, Roster
from flashferry.nightly.backend import Leftover
from flashferry.nightly.clean_up import Reaped
from flashferry.nightly.cml.record import Recorded
from flashferry.nightly.history import keep as keep_night
from flashferry.nightly.night import Fault, Night, NightStep, StepOutcome
from flashferry.nightly.runner import NightResult
from flashferry.pilot.facts import FACTS, Finding, Verdict
from flashferry.pilot.step_results import PilotResult, Status, Step, StepResult
from flashferry.planning.inspection import CheckRecord
from flashferry.planning.readiness import ReadyRecord
from flashferry.run.clean import CleanRecord
from flashferry.run.dry_run import DryRecord
from flashferry.run.recover import RecoveryRecord
from flashferry.sites.centre.centre import Centre
from flashferry.sites.centre.ordering import OrderCheck
from flashferry.sites.centre.settings import CentreSettings
from flashferry.sites.keys import PrivateKey
from flashferry.store.control_requests import Asker
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.probe_choices import BulkPath, BulkPaths
from flashferry.store.sites.agents import AgentBeat, take_beat, take_depot
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import Part, PartDevice, SiteRun, add_run, add_steer_request
from flashferry.store.sites.words import PartWord, take_word
from flashferry.store.transfer_row import TransferEntry
from inventory.nornir_loader import open_inventory
from inventory.releases import VersionCondition
from tests.patience import PATIENCE_S
from tests.some import some
from tests.unit.cli.hostile import (
    AT,
    ENABLE,
    HOSTILE,
    LOGIN,
    MARK,
    SHORT,
    TICKET,
    TOKEN,
    USER,
    Built,
    assert_harmless,
    known,
    secrets_in,
    texts_in,
)
from tests.unit.conftest import CHANGES, SNAPSHOT
from tests.unit.sites.centre.plans import device as sites_device
from tests.unit.sites.centre.plans import plan as sites_plan

HOST = HOSTILE
IDENTITY = FileIdentity(device=1, inode=2, size_bytes=3, mtime_ns=4, ctime_ns=1)
BUILT = Built(
    {"ticket_id": "00ff", "outcome": "failed"},
    {
        Limits: Limits,
        WavePolicy: WavePolicy,
        VersionCondition: lambda: VersionCondition(text=HOSTILE, comparisons=()),
        FileIdentity: lambda: IDENTITY,
    },
)
OWN = ("lab", "doctor", "docs")
"""Verbs that tell of this machine, of themselves and of stand-ins of ours; nothing foreign comes into what they say."""

OWN_OF_SITES = {"sites init", "sites keys", "sites agent"}
"""The same of an agent's own configuration and of orders, of which it shows what its form allows alone."""


@pytest.fixture(autouse=True)
def _known() -> None:
    known()


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder, an inventory whose names are hostile and whose secrets are real, and an image."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("FLASHFERRY_PLAIN", "1")
    for name in ("FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "image.bin").write_bytes(b"image")
    name = json.dumps(HOST.replace("\x00", ""))
    login = f"username: ann, password: {json.dumps(LOGIN)}, data: {{enable_secret: {json.dumps(ENABLE)}"
    (tmp_path / "hosts.yaml").write_text(
        f"? {name}\n: {{hostname: 192.0.2.1, platform: ios, {login}, site: a, link_rate_bps: 8000000}}}}\n"
    )
    return tmp_path


Say = Callable[..., tuple[str, str]]


@pytest.fixture
def flashferry_says(ground: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Return what runs a command and returns what it wrote; what it wrote for people is harmless in any case."""

    def run(*words: str, is_document: bool = False) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["flashferry", *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert left.value.code not in (1, 2), err
        assert_harmless(err)
        if not is_document:
            assert_harmless(out.replace("\r\n", "\n"))
        return out, err

    return run


def test_the_hostile_texts_are_hostile():
    """The checks of this test would find each of them."""
    for secret in (LOGIN, ENABLE, USER, TICKET, TOKEN, TICKET[4:]):
        assert secrets_in(f"a {secret} b")
    with pytest.raises(AssertionError):
        assert_harmless(MARK)
    with pytest.raises(AssertionError):
        assert_harmless("flashferry: error: forged")
    assert secrets_in(HOSTILE)


# Results of verbs


def event(**more: Any) -> Event:
    """Return an event with hostile texts."""
    values = {"host": HOST, "step": "check", "status": "note", "text": HOSTILE, "at_s": 1.0, "site": HOSTILE}
    return Event(**values | {"verdict": HOSTILE} | more)


EVENTS = (
    event(),
    event(status="failed"),
    event(status="queued"),
    event(status="retry"),
    event(step="pull", status="started", text=HOSTILE),
    event(step="probe", status="started"),
    event(step="device", status="failed", outcome="failed", failure="LoginRefused", restored="incomplete"),
    event(host=None, step="run", status="waiting"),
    event(host=None, step="run", status="paused"),
    event(host=None, step="wave", status="started", wave=1),
    event(host=None, step="server", status="done"),
)


def record(**more: Any) -> DeviceRecord:
    """Return a device's record with hostile texts."""
    return BUILT.one(DeviceRecord, host=HOST, outcome=Outcome.FAILED, restored=Restored.INCOMPLETE, **more)


def run_report(verb: str) -> RunReport:
    return BUILT.one(RunReport, verb=verb, devices=(record(), record()))


def fleet_plan() -> FleetPlan:
    devices = tuple(BUILT.one(PlannedDevice, host=f"{HOST}{action}", action=action) for action in Action)
    return BUILT.one(FleetPlan, devices=devices)


def play(emit: Callable[[Event], None]) -> None:
    for one in EVENTS:
        emit(one)


def told_by(result: object) -> Callable[..., object]:
    """Return what stands in for a fleet's work: it tells hostile events, and returns hostile records."""

    def work(*_: object, emit: Callable[[Event], None] = lambda one: None, **more: object) -> object:
        play(emit)
        return result

    return work


Case = tuple[str, Callable[[], object], tuple[str, ...]]
CASES: dict[str, Case] = {
    "check": ("flashferry.api.checking.check_fleet", lambda: (BUILT.one(CheckRecord, host=HOST),), ()),
    "check --reach": (
        "flashferry.api.checking.reach_fleet",
        lambda: (BUILT.one(CheckRecord, host=HOST),),
        ("--reach",),
    ),
    "probe": ("flashferry.api.checking.probe_fleet", lambda: run_report("probe"), ()),
    "plan": ("flashferry.api.planning.plan_fleet", fleet_plan, ("--image", "IMAGE")),
    "stage": ("flashferry.api.staging.run_waves", lambda: run_report("stage"), ("--image", "IMAGE")),
    "stage --dry-run": (
        "flashferry.api.staging.dry_run_fleet",
        lambda: (BUILT.one(DryRecord, host=HOST), BUILT.one(DryRecord, host=HOST, failure=None)),
        ("--image", "IMAGE", "--dry-run"),
    ),
    "ready": (
        "flashferry.api.readiness.ready_fleet",
        lambda: (BUILT.one(ReadyRecord, host=HOST), BUILT.one(ReadyRecord, host=HOST, readiness=None)),
        ("--image", "IMAGE"),
    ),
    "clean": (
        "flashferry.api.readiness.clean_fleet",
        lambda: (BUILT.one(CleanRecord, host=HOST), BUILT.one(CleanRecord, host=HOST, look=None)),
        ("--dry-run",),
    ),
    "activate": (
        "flashferry.api.activating.activate_fleet",
        lambda: run_report("activate"),
        ("--plan", "PLAN", "--approve", "DIGEST", "--i-have-console-access"),
    ),
    "recover": ("flashferry.run.recover.recover", lambda: (BUILT.one(RecoveryRecord, host=HOST),), ()),
}
"""Verbs over devices: whose work is stood in for, what it returns, and what the verb is given."""

FROM_JOURNAL = {
    "status": ((),),
    "history": ((), (HOST,)),
    "run list": ((),),
    "run show": (("latest",),),
    "report": (("latest",),),
}
"""Verbs that read the journal alone."""

ELSEWHERE = {
    "pilot": "test_a_pilot_is_shown",
    "serve": "test_views_of_the_server",
    "depot sync": "test_a_catalogue_is_told",
    "depot list": "test_a_catalogue_is_told",
    "depot probe": "test_a_probed_path_is_told",
    "depot verify": "test_a_catalogue_is_told",
    "images list": "test_images",
    "images hash": "test_images",
    "service init": "test_the_service_is_told",
    "service user": "test_the_service_is_told",
    "service audit": "test_the_service_is_told",
    "init": "test_a_first_inventory",
    "state backup": "test_the_state_is_looked_after",
    "state check": "test_the_state_is_looked_after",
    "state restore": "test_the_state_is_looked_after",
    "state prune": "test_the_state_is_looked_after",
    "nightly init": "test_a_night_is_described",
    "nightly history": "test_nights_are_told",
    "nightly run": "test_a_night_is_played",
    "nightly reap": "test_labs_are_reaped",
    "nightly record": "test_answers_are_recorded",
    "sites list": "test_sites_are_told",
    "sites runs": "test_sites_are_told",
    "sites show": "test_sites_are_told",
    "sites report": "test_sites_are_told",
    "sites listen": "test_a_centre_that_is_always_there",
    "sites follow": "test_a_run_of_sites_is_followed_and_steered",
    "sites pause": "test_a_run_of_sites_is_followed_and_steered",
    "sites continue": "test_a_run_of_sites_is_followed_and_steered",
    "sites stop": "test_a_run_of_sites_is_followed_and_steered",
    "sites approve": "test_a_run_of_sites_is_followed_and_steered",
    "run pause": "test_a_run_is_steered",
    "run continue": "test_a_run_is_steered",
    "run stop": "test_a_run_is_steered",
    "run approve": "test_a_run_is_steered",
}
"""Verbs with tests of their own below."""


def test_no_verb_is_forgotten():
    """Whoever adds a verb says here how hostile texts come to it."""
    apps = {name: import_module(f"flashferry.cli.{name}").app for name in FAMILIES.difference(OWN)}
    families = {
        name: [*get_group(app).later]
        or [one.name for one in (*app.registered_commands, *app.registered_groups) if not _is_of_a_service(one)]
        for name, app in apps.items()
    }
    verbs = {*VERBS, *(f"{name} {one}" for name, commands in families.items() for one in commands)} - OWN_OF_SITES
    tried = {*(name.partition(" --")[0] for name in CASES), *FROM_JOURNAL, *ELSEWHERE}
    assert {verb for verb in verbs if verb.split()[0] not in OWN} == tried
    assert all(test in globals() for test in ELSEWHERE.values())


def _is_of_a_service(command: Any) -> bool:
    """Return whether only a remote service has a command: those are tried with the others of a service."""
    return getattr(getattr(command, "callback", None), "only_at_service", False)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("case", CASES)
def test_results(ground, monkeypatch, flashferry_says, case, columns, as_json):
    """Of every verb over devices: tables at both widths, lines of events, and the document."""
    target, result, more = CASES[case]
    monkeypatch.setattr(target, told_by(result()))
    monkeypatch.setenv("COLUMNS", str(columns))
    given = [given_for(ground, one) for one in more]
    words = [case.split()[0], "-i", str(ground), *given]
    if case == "recover":
        left_in_the_journal(ground / "state")
    out, _ = flashferry_says(*words, *(["--json"] if as_json else []), is_document=as_json)
    assert out.strip()
    if as_json:
        check_document(out)


def given_for(ground: Path, word: str) -> str:
    """Return what a verb is given in place of a word: a file of the ground, or the digest of its plan."""
    if word == "IMAGE":
        return str(ground / "image.bin")
    plan = ground / "night.json"
    if word == "PLAN":
        hosts = ground / "hosts.yaml"
        # YAML has this sign as two halves, which JSON puts together: no plan could name the device.
        hosts.write_text(hosts.read_text().replace(r"\udb40\udc41", ""))
        (host,), image = open_inventory(ground).inventory.hosts, BUILT.one(PlannedImage)
        device = BUILT.one(PlannedDevice, host=host, action=Action.STAGE, image=image.name)
        wave = Wave(number=0, name=HOSTILE, hosts=(host,))
        content = plan_document(BUILT.one(FleetPlan, devices=(device,), images=(image,), waves=(wave,)))
        # A plan is written without secrets, of which this name is full: one that somebody edited has it as it is.
        content["devices"][0]["host"], content["waves"][0]["hosts"] = host, [host]
        plan.write_text(json.dumps(sealed(content)))
        return str(plan)
    return str(json.loads(plan.read_text())["digest"]) if word == "DIGEST" else word


def left_in_the_journal(directory: Path) -> None:
    """Have a dead run hold a device, so that there is something to recover."""
    with Journal(directory) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host=HOST, address="192.0.2.1", port=22, platform="ios")
        journal.acquire_lease(run_id, HOST, identity="SN/r1", snapshot=SNAPSHOT, changes=CHANGES, target="flash:x.bin")


def check_document(text: str) -> None:
    """Check that a JSON document is of signs alone, holds no secret, and is exact otherwise."""
    assert text.replace("\n", "").isprintable()
    texts = list(texts_in(json.loads(text)))
    assert secrets_in("\n".join(texts)) == []
    assert any(MARK in one and "\u202e" in one for one in texts), "the data are as they were but for secrets"


def test_a_plan_in_a_file(ground, monkeypatch, flashferry_says):
    """It is signs alone, holds no secret, and carries its digest; `stage` shows that, and refuses it when changed."""
    monkeypatch.setattr("flashferry.api.planning.plan_fleet", told_by(fleet_plan()))
    words = ("plan", "-i", str(ground), "--image", str(ground / "image.bin"), "--output", str(ground / "p"))
    out, _ = flashferry_says(*words)
    text = (ground / "p").read_text()
    digest = json.loads(text)["digest"]
    assert f"SHA-256 {digest}" in out
    assert text.replace("\n", "").isprintable()
    reasons = [one["reason"] for one in json.loads(text)["devices"]]
    assert secrets_in("\n".join(reasons)) == []
    assert MARK in reasons[0]
    (ground / "p").write_text(text.replace("4000000.0", "4000001.0"))
    with pytest.raises(ConfigInvalid, match="has changed since it was made"):
        load_plan(ground / "p")


# What the journal has


@pytest.fixture
def journal(ground: Path) -> Path:
    """A state folder with a run whose records are hostile, written as a run writes them."""
    transfer = BUILT.one(TransferRecord, started_at=1_800_000_000.0, outcome="delivered")
    whole = record(state=State.FAILED, transfer=transfer)
    directory = ground / "state"
    with Journal(directory) as opened:
        run_id = opened.begin_run("stage", {"inventory": str(ground)})
        opened.add_device(
            run_id, host=HOST, address=HOSTILE, port=22, platform="ios", site=HOSTILE, wave=1, image=HOSTILE
        )
        kept = TransferEntry(identity=HOSTILE, kind="stage", tuned=True, target=HOSTILE, image=HOSTILE, record=transfer)
        opened.add_transfer(run_id, HOST, kept)
        opened.record(run_id, HOST, whole)
        opened.exclude(run_id, [(NewDevice(host="left", address="x", port=22, platform="ios"), record())])
        opened.add_device(run_id, host="held", address="192.0.2.2", port=22, platform="ios")
        opened.acquire_lease(run_id, "held", identity=HOSTILE, snapshot=SNAPSHOT, changes=CHANGES, target="flash:x.bin")
        opened.recovered(run_id, "held", BUILT.one(RecoveryRecord, host="held"))
        opened.again(run_id, HOST)
        opened.record(run_id, HOST, whole)
    return directory


EXACT = {
    "devices": {"host", "address", "site", "image", "identity", "snapshot", "changes", "target"},
    "attempts": {"host"},
    "transfers": {"host", "identity", "image", "target", "record"},
    "runs": {"request"},
}
"""Columns that a recovery, or a run that is gone on with, goes by: they stay byte for byte."""


def test_the_journal_keeps_no_secret(journal):
    """Whatever a device quoted: records, reasons and accounts are kept without; what recovery needs, as it was."""
    with closing(sqlite3.connect(journal / "journal.sqlite3")) as database:
        database.row_factory = sqlite3.Row
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        assert {"runs", "devices", "attempts", "transfers"} <= set(tables)
        for table in tables:
            for row in database.execute(f"SELECT * FROM {table}"):
                for column in set(row.keys()) - EXACT.get(table, set()):
                    texts = [row[column]]
                    if column == "record" and row[column]:
                        texts = list(texts_in(json.loads(row[column])))
                    assert secrets_in("\n".join(map(str, _without_names(texts)))) == [], (table, column)
        held = database.execute("SELECT snapshot, changes FROM devices WHERE host = 'held'").fetchone()
        assert "ip tcp window-size 65535" in held["snapshot"]
        assert "ip tcp window-size 1250000" in held["changes"]
        (packed,) = database.execute("SELECT record FROM transfers").fetchone()
    from flashferry.store.transfer_row import unpacked

    assert secrets_in("\n".join(texts_in(unpacked(packed)))) == []


def _without_names(texts: list[str]) -> list[str]:
    """Leave out the names that a resumed run compares: the test's are hostile as a whole."""
    return [one for one in texts if one != HOSTILE]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("verb", [verb for verb in FROM_JOURNAL if verb != "report"])
def test_what_is_read_from_the_journal(journal, flashferry_says, verb, as_json):
    """Runs, devices, their history: in tables and documents; a name of a device is what it was in a document."""
    for more in FROM_JOURNAL[verb]:
        out, _ = flashferry_says(*verb.split(), *more, *(["--json"] if as_json else []), is_document=as_json)
        assert out.strip()
        if as_json:
            assert out.replace("\n", "").isprintable()
            assert secrets_in("\n".join(texts_in(json.loads(out)))) == []


def check_csv(text: str) -> None:
    assert_harmless(text.replace("\r\n", "\n"))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        is_number = re.fullmatch(r"-?[\d.]+(e-?\d+)?", cell)
        assert not cell.lstrip().startswith(("=", "+", "-", "@")) or is_number, cell


def check_junit(text: str) -> None:
    root = ElementTree.fromstring(text)
    assert not list(root.iter("script"))
    texts = [part for one in root.iter() for part in (one.text or "", *one.attrib.values())]
    assert_harmless("\n".join(texts))
    assert_harmless(text)


def check_html(text: str) -> None:
    assert_harmless(text)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "{{ 7 * 7 }}" in text
    assert "<b>markup" not in text


READERS: dict[ReportFormat, Callable[[str], object]] = {
    ReportFormat.TABLE: assert_harmless,
    ReportFormat.JSON: check_document,
    ReportFormat.CSV: check_csv,
    ReportFormat.JUNIT: check_junit,
    ReportFormat.HTML: check_html,
}


@pytest.mark.parametrize("form", ReportFormat)
@pytest.mark.parametrize("to_file", [False, True])
def test_reports(journal, ground, flashferry_says, form, to_file):
    """In every form that there is, on standard output and in a file."""
    words = ["report", "latest", "--format", form.value]
    if to_file:
        words += ["--output", str(ground / "report")]
    text, _ = flashferry_says(*words, is_document=True)
    if to_file:
        text = (ground / "report").read_text(encoding="utf-8")
    READERS[form](text)


def test_a_run_is_steered(ground, monkeypatch, flashferry_says):
    """What steering says is ours but for the run's identifier; that of an unknown run is shown, not obeyed."""
    with Journal(ground / "state") as opened:
        run_id = opened.begin_run("stage")
        opened.add_device(run_id, host=HOST, address="x", port=22, platform="ios", wave=0)
        for verb in ("pause", "continue", "approve", "stop"):
            flashferry_says("run", verb, run_id)
    monkeypatch.setattr(sys, "argv", ["flashferry", "run", "stop", HOSTILE])
    with pytest.raises(SystemExit):
        main()


# Watchers of a run


def test_plain_lines(capsys):
    """Of few devices, of many, and of a plan."""
    roster = Roster(devices=(Expected(host=HOST, site=HOSTILE),))
    for watcher in (EventLines(), FleetLines(roster, "restore", 30, clock=iter(range(0, 10_000, 20)).__next__)):
        play(watcher)
        watcher.say(HOSTILE)
    for many in (1, 30):
        play(PlanProgress(many))
    assert_harmless(capsys.readouterr().err)


@pytest.mark.parametrize("devices", [1, 60])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_live_view(devices, width):
    """Of few and of many devices, at any width; what stands above it too. No line is wider than the terminal."""
    written = io.StringIO()
    out = ShownConsole(file=written, force_terminal=True, width=width, height=40, color_system="standard")
    roster = Roster(
        devices=tuple(Expected(host=f"{number}{HOST}", site=f"{number % 3}{HOSTILE}") for number in range(devices)),
        caps_bytes_per_s={f"0{HOSTILE}": 1e6},
    )
    view = LiveTable(out, "restore", devices, roster=roster, clock=lambda: 5.0)
    for number in range(devices):
        for one in EVENTS[:7]:
            view(event(host=f"{number}{HOST}", step=one.step, status=one.status, text=one.text))
    play(view)
    view.say(HOSTILE)
    view.print_above()
    out.print(view)
    assert written.getvalue().strip()
    assert_harmless(written.getvalue(), is_terminal=True)


def test_events_for_programs(tmp_path):
    """Each line is one JSON object of signs alone; no secret is in it, and all else is exact."""
    with event_log(tmp_path / "events", devices=1) as log:
        play(log)
        log.message(HOSTILE)
    lines = (tmp_path / "events").read_text(encoding="ascii").splitlines()
    assert len(lines) == len(EVENTS) + 1
    for line in lines:
        check_document(line)
    assert event_line(event(), run_id="x", at=datetime.now(UTC)).decode().isascii()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return answer.read().decode("utf-8")


def test_metrics():
    """Labels are sites and kinds; whoever scrapes them gets lines of signs."""
    assert {name for name in vars(metrics) if name.endswith("_metrics")} == {"run_metrics", "serve_metrics"}
    port = free_port()
    roster = Roster(devices=(Expected(host=HOST, site=HOSTILE),), caps_bytes_per_s={HOSTILE: 1e6})
    with run_metrics(f"127.0.0.1:{port}", roster, "restore") as taken:
        play(taken)
        text = scraped(port)
    assert "site_cap_bytes_per_second{" in text
    assert_harmless(text)
    port = free_port()
    with serve_metrics(f"127.0.0.1:{port}", None) as taken_by_server:
        for one in server_events():
            taken_by_server(one)
        assert_harmless(scraped(port))


# The server by itself


def server_events() -> Iterator[ServerEvent]:
    progress = BUILT.one(TransferProgress, record=BUILT.one(TransferRecord, started_at=1.8e9), rtt_s=0.1)
    for kind in EventKind:
        yield ServerEvent(kind=kind, at=1.8e9, text=HOSTILE, peer_address=HOSTILE, progress=progress)
        yield ServerEvent(kind=kind, at=1.8e9, text=HOSTILE, peer_address=None, progress=None)


@pytest.mark.parametrize("view", sessions._View.__subclasses__())
@pytest.mark.parametrize("width", [80, 160])
def test_views_of_the_server(view, width, capsys):
    """Each of them prints the copy line that was asked for, with its ticket, and nothing else of it."""
    written = io.StringIO()
    out = ShownConsole(file=written, force_terminal=True, width=width)
    made, live = opened_view(view, out)
    made.events(list(server_events()))
    made.rate(HOSTILE)
    live.stop()
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert_harmless(text)
        for line in text.splitlines() if view is sessions._JsonLines else ():
            check_document(line)
    assert_harmless(written.getvalue(), is_terminal=True)
    assert said.out + said.err + written.getvalue().strip()
    copy = f"copy ftp://{USER}:{TICKET}@192.0.2.1/image.bin flash:image.bin"
    image = BUILT.one(ImageFile, name="image.bin", path=Path("/x"))
    ticket = Ticket(ticket_id="00ff", username=USER, password=TICKET, image_name="image.bin")
    made, live = opened_view(view, out)
    made.offer(Offer(image=image, ticket=ticket, expires_s=1.0, lines=(copy,)))
    live.stop()
    assert copy in capsys.readouterr().out + written.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_depot_tells_what_happens(as_json, capsys, monkeypatch, tmp_path):
    """What its server has to say of itself, in words or as JSON lines, to people and in its log, and that it ended."""
    asked = iter((True, False))
    server = SimpleNamespace(ended_in_order=True)
    running = SimpleNamespace(server=server, wait=lambda _timeout_s: next(asked), new_notices=lambda: (HOSTILE,))
    log = tmp_path / "depot.log"
    with depot.logging_to(log, is_json=as_json):
        depot._until_over(running, threading.Event(), depot.partial(depot._print, as_json=as_json))
    assert_harmless(log.read_text())
    assert log.read_text().count("\n") == 1
    said = capsys.readouterr()
    assert (said.out if as_json else said.err).strip()
    for text in (said.out, said.err):
        assert_harmless(text)
    for line in said.out.splitlines():
        check_document(line)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_catalogue_is_told(ground, monkeypatch, flashferry_says, as_json):
    """What a source says, and what a proof holds, is shown as what it is; a file that is no image's is passed over."""
    more = ("--json",) if as_json else ()
    folder = ground / "catalogue"
    folder.mkdir()
    (folder / f"x{TOKEN}.bin").write_bytes(b"x")
    (folder / ".y.bin.part").write_bytes(b"")
    state = {"schema": "flashferry.part/1", "sha512": HOSTILE, "size_bytes": HOSTILE, "verified_bytes": 7}
    (folder / ".y.bin.part.json").write_text(json.dumps(state))
    for verb in ("list", "verify"):
        out, _ = flashferry_says("depot", verb, "--catalogue", str(folder), *more, is_document=as_json)
        assert secrets_in(out) == []
    failed = SyncedImage(name="image.bin", kind="SourceRefused", error=HOSTILE, hint=HOSTILE)
    result = SyncResult(images=(failed,), exit_code=ExitCode.OK)

    def stand_in(_request, *, on_progress, **_more):
        on_progress(SyncProgress(image=HOSTILE, phase=SyncPhase.WAIT, done_bytes=0, size_bytes=1, text=HOSTILE))
        on_progress(SyncProgress(image=HOSTILE, phase=SyncPhase.COPY, done_bytes=0, size_bytes=1))
        return result

    monkeypatch.setattr("flashferry.api.depot_sync", stand_in)
    monkeypatch.setenv("FLASHFERRY_DEPOT_PASSWORD", TICKET)
    words = ("depot", "sync", "--from", "http://192.0.2.1", "--user", USER)
    out, err = flashferry_says(*words, *more, is_document=as_json)
    assert secrets_in(out) == []
    assert_harmless(err)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_probed_path_is_told(ground, flashferry_says, as_json):
    """What the file of probed paths says of a source, its ciphers and what bound them is shown as what it is."""
    said = {"source": HOSTILE, "at": HOSTILE, "method": HOSTILE, "bound_by": HOSTILE}
    kept = BulkPath(**said, rate_bytes_per_s=1e6, ciphers=(HOSTILE,), macs=(HOSTILE,))
    (ground / "state").mkdir(mode=0o700, exist_ok=True)
    BulkPaths.read(ground / "state").keep(kept)
    more = ("--json",) if as_json else ()
    out, _ = flashferry_says("depot", "probe", "--show", *more, is_document=as_json)
    assert secrets_in(out) == []


def opened_view(view: Any, out: ShownConsole) -> tuple[Any, Live]:
    live = Live(console=out, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    if view is sessions._JsonLines:
        return view(), live
    if view is sessions.PlainLines:
        return view(has_by=True), live
    live.start()
    return view(live, has_by=True), live


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pilot_is_shown(ground, monkeypatch, flashferry_says, as_json):
    """What a router printed is shown as what it is, without secrets."""
    step = StepResult(step=Step.CHECK, status=Status.FAILED, sentence=HOSTILE)
    finding = Finding(fact=FACTS[0], verdict=Verdict.REFUTED, times=1, text=HOSTILE)
    result = PilotResult(steps=(step,), findings=(finding,), folder=ground / "out", exit_code=ExitCode.OK)
    monkeypatch.setattr(import_module("flashferry.cli.pilot"), "take_steps", lambda *_given, **_more: result)
    words = ["pilot", "r1", "--inventory", "none", "--output", str(ground / "out"), *(["--json"] if as_json else [])]
    out, err = flashferry_says(*words, *(f"--yes={one}" for one in Step), is_document=as_json)
    assert secrets_in(out) == []
    assert_harmless(err)


def test_images(ground, flashferry_says):
    """Names of files come from a folder; markup and secrets in them are shown as what they are."""
    folder = ground / "images"
    folder.mkdir()
    for name in ("[bold]x[bold].bin", "=cmd().bin", ":fire:.bin", "<script>.bin", f"x{TOKEN}.bin"):
        (folder / name).write_bytes(b"x")
    for verb in ("list", "hash"):
        out, _ = flashferry_says("images", verb, str(folder))
        assert "[bold]x[bold].bin" in out
        assert ":fire:.bin" in out
        out, _ = flashferry_says("images", verb, str(folder), "--json", is_document=True)
        assert secrets_in(out) == []


def test_the_state_is_looked_after(ground, flashferry_says):
    """Names of files in the folder and in an archive are shown as what they are; documents parse."""
    left_in_the_journal(ground / "state")
    (ground / "state" / f"[bold]{TOKEN}.json").write_text("{}")
    folder = ground / f"b [bold]{TOKEN}"
    for as_json in (False, True):
        more = ["--json"] if as_json else []
        out, _ = flashferry_says("state", "backup", str(folder), *more, is_document=as_json)
        assert "[bold]" in out
        assert secrets_in(out) == []
        (archive,) = (path for path in folder.iterdir() if path.is_file())
        for words in (("check",), ("check", "--backup", str(archive)), ("prune", "--older-than", "9")):
            out, _ = flashferry_says("state", *words, *more, is_document=as_json)
            assert out.strip()
        target = str(ground / f"other-{as_json}")
        out, _ = flashferry_says("state", "restore", str(archive), "--state-dir", target, *more, is_document=as_json)
        assert secrets_in(out) == []
        archive.unlink()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_first_inventory(ground, monkeypatch, capsys, flashferry_says, as_json):
    """Names of folders are shown and not obeyed; what a table holds is refused without being quoted."""
    more = ("--json",) if as_json else ()
    table = ground / "table.csv"
    table.write_text("name,address\nr1,192.0.2.1\n", encoding="utf-8")
    folder = ground / f"{as_json} \u202e [bold] {TOKEN}"
    out, _ = flashferry_says("init", str(folder), "--csv", str(table), *more, is_document=as_json)
    assert secrets_in(out) == []
    for cell in (HOST.replace("\x00", ""), LOGIN, f"=cmd() {ENABLE}"):
        with table.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["name", "address"], [cell, cell]])
        monkeypatch.setattr(sys, "argv", ["flashferry", "init", str(ground / "n"), "--csv", str(table), *more])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert left.value.code == 2
        assert_harmless(err)
        assert secrets_in(out + err) == []
        assert "line 2" in err
        assert not (ground / "n").exists()


def test_a_night_is_described(ground, flashferry_says):
    """Names of a lab come from a topology of somebody's; what is obeyed in them is written out, secrets are masked."""
    label = f"wan \u202e{TOKEN} [bold]"
    ssh = "username a\nip address dhcp\nline vty 0 4\n transport input ssh"
    lab = {
        "lab": {"title": "x", "version": "0.2.2"},
        "nodes": [
            {"id": "n0", "label": f"=cmd() {ENABLE}", "node_definition": "csr1000v", "configuration": ssh},
            {"id": "n1", "label": "y", "node_definition": "external_connector"},
        ],
        "links": [{"id": "l0", "n1": "n0", "n2": "n1", "label": label, "conditioning": {"latency": 50}}],
    }
    (ground / "lab.yaml").write_text(json.dumps(lab))
    (ground / "nightly.yaml").write_text(
        "{controller: {url: 'https://c'}, devices: {login: environment}, topology: {file: lab.yaml}, "
        "night: {image: image.bin}, artefacts: {folder: nights}}"
    )
    words = ("nightly", "init", "--check", str(ground / "nightly.yaml"))
    out, _ = flashferry_says(*words)
    assert r"wan \u202e*** [bold]" in out
    out, _ = flashferry_says(*words, "--json", is_document=True)
    assert secrets_in(out) == []
    assert "wan \u202e*** [bold]" in list(texts_in(json.loads(out)))


def test_the_service_is_told(ground, flashferry_says):
    """Names that people gave themselves, and what stands in the audit: shown and not obeyed, exact for programs."""
    state = ("--state-dir", str(ground / "state"))
    (ground / "state").mkdir(mode=0o700, exist_ok=True)
    (ground / "state" / "service.toml").write_text(
        "[people]\nargon2_rounds = 1\nargon2_memory_mib = 8\nargon2_lanes = 1\n"
    )
    flashferry_says("service", "init", *state)
    flashferry_says("service", "user", "add", "anna", "--display", HOSTILE[:150], *state)
    flashferry_says("service", "user", "grant", "anna", "operator@\u202eAMS", *state)
    flashferry_says("service", "user", "disable", "anna", "--reason", HOSTILE, *state)
    flashferry_says("service", "user", "list", *state)
    flashferry_says("service", "audit", "verify", *state)
    flashferry_says("service", "audit", "export", "--format", "csv", *state)
    out, _ = flashferry_says("service", "audit", "export", *state)
    reasons = [json.loads(line)["reason"] for line in out.splitlines()]
    assert secrets_in("\n".join(reasons)) == []
    assert any(MARK in reason for reason in reasons)


SITES_RUN = "20261126-120000-ab12"


def sites_in_the_ledger(ground: Path, *, is_over: bool) -> Path:
    """Have a site, its agent and a run of it be told in hostile texts; return the centre's settings."""
    host, state = HOST.replace("\x00", ""), ground / "state"
    made = sites_plan(
        [sites_device(host, "ams"), sites_device("r2", "ams")], WavePolicy(approve=True, canary=False, size=1)
    )
    PrivateKey.make().save(ground / "centre.key")
    (ground / "sites.toml").write_text(
        f'[centre]\nkey = "centre.key"\nplans_folder = "."\n[broker]\nurl = "redis://127.0.0.1:1/0"\n'
        f'[sites.ams]\nagent_key = "{PrivateKey.make().public.line}"\n'
    )
    run = SiteRun(
        run=SITES_RUN,
        digest=made.digest,
        plan=plan_text(made),
        started_at=AT,
        started_by=HOSTILE,
        valid_until=AT,
        approved_wave=0,
    )
    part = Part(run=SITES_RUN, site="ams", round=1, from_wave=0, agent="agent-ams", changed_at=AT)
    ledger = SitesDatabase(state)
    with ledger.writing() as database:
        devices = [PartDevice(host=one, site="ams", round=1, wave=wave) for wave, one in enumerate((host, "r2"))]
        add_run(database, run, [part], devices)
        add_steer_request(database, SITES_RUN, "pause", Asker(actor=HOSTILE, reason=HOSTILE), at=AT, site="ams")
        beat = AgentBeat(
            site="ams", agent="agent-ams", instance="1", release="0.0.1", last_message_at=AT, clock_ahead_s=900.0
        )
        take_beat(database, beat)
        take_depot(database, "ams", [HOSTILE])
        event = {"host": host, "step": "pull", "status": "failed", "text": HOSTILE, "at_s": 1.0}
        words: list[tuple[str, dict[str, Any]]] = [
            ("event", {"events": [event, event | {"host": None, "step": "run", "status": "stopping"}]}),
            ("record", {"record": stored_json(record())}),
            ("ended", {"exit_code": 3, "sentence": HOSTILE}),
        ]
        for offset, (kind, data) in enumerate(words[: 3 if is_over else 2], 1):
            word = {"run": SITES_RUN, "site": "ams", "round": 1, "agent": "agent-ams", "at": AT}
            take_word(database, PartWord(**word, offset=offset, kind=kind, data=data), at=AT)
    return ground / "sites.toml"


@pytest.mark.parametrize("as_json", [False, True])
def test_sites_are_told(ground, flashferry_says, as_json):
    """What agents said of themselves and of devices: in tables, reports and documents, shown and not obeyed."""
    settings = sites_in_the_ledger(ground, is_over=True)
    more = ("--json",) if as_json else ()
    runs = (("runs",), ("show", SITES_RUN), ("report", SITES_RUN))
    for words in (("list", "--no-ask", "--sites", str(settings)), *runs):
        out, _ = flashferry_says("sites", *words, *more, is_document=as_json)
        assert out.strip()
        if as_json:
            check_document(out)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_of_sites_is_followed_and_steered(ground, monkeypatch, flashferry_says, as_json):
    """A run of sites followed to its end, and told to pause, go on, approve and stop: nothing of it is obeyed."""
    settings = sites_in_the_ledger(ground, is_over=not as_json)
    orders = SimpleNamespace(made=lambda *_, **__: None, kept=lambda *_, **__: [], tend=lambda _: OrderCheck())

    @contextmanager
    def opened(given: CentreSettings, state: Path) -> Iterator[Centre]:
        yield Centre(given, SitesDatabase(state), cast("Any", None), cast("Any", orders))

    monkeypatch.setattr("flashferry.cli.sites.centre.open_centre", opened)
    verbs = ("pause", "continue", "approve", "stop") if as_json else ("follow",)
    for verb in verbs:
        words = ("sites", verb, SITES_RUN, "--sites", str(settings), *(("--json",) if as_json else ()))
        out, _ = flashferry_says(*words, is_document=as_json)
        assert secrets_in(out) == []
        assert not as_json or json.loads(out)["sites"] == ["ams"]


def test_a_centre_that_is_always_there(ground, monkeypatch, flashferry_says):
    """What it says of runs with nobody at them: their sites' sentences, shown and not obeyed."""
    settings = sites_in_the_ledger(ground, is_over=True)
    orders = SimpleNamespace(tend=lambda _: OrderCheck())

    @contextmanager
    def opened(given: CentreSettings, state: Path) -> Iterator[Centre]:
        yield Centre(given, SitesDatabase(state), cast("Any", None), cast("Any", orders))

    @contextmanager
    def one_look() -> Iterator[Any]:
        looks = iter((False, True))
        yield SimpleNamespace(is_set=lambda: next(looks))

    monkeypatch.setattr("flashferry.cli.sites.centre.open_centre", opened)
    monkeypatch.setattr("flashferry.cli.sites.following.stop_on_signals", one_look)
    monkeypatch.setattr("flashferry.cli.sites.following.ALL_POLL_S", 0.0)
    _, err = flashferry_says("sites", "listen", "--sites", str(settings))
    assert secrets_in(err) == []
    assert f"run {SITES_RUN} has ended at all sites" in err


def test_nights_are_told(ground, flashferry_says):
    """What a lab said of itself is in its nights: shown and not obeyed, in the table, on the page and for programs."""
    began = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
    night = Night(
        night_id="ff-nightly-20261122T0100-3f2a",
        started_at=began,
        ended_at=began,
        backend="cml",
        controller_version=f"2.9 {ENABLE}",
        kernel="6.12",
        tool_version="0.1.0",
        is_comparable=False,
        not_comparable_because=f"link <b>\u202e{TOKEN} [bold]</b>",
    )
    keep_night(ground / "state", night)
    page = ground / "nights.html"
    words = ("nightly", "history", "--state-dir", str(ground / "state"))
    out, err = flashferry_says(*words, "--html", str(page))
    assert r"link <b>\u202e*** [bold]</b>" in out
    assert r"link &lt;b&gt;\u202e*** [bold]&lt;/b&gt;" in page.read_text()
    out, _ = flashferry_says(*words, "--json", is_document=True)
    for text in (out, err, page.read_text()):
        assert secrets_in(text) == []


@pytest.fixture
def described(ground, monkeypatch):
    """A description of a night whose controller's login is known."""
    monkeypatch.setenv("FLASHFERRY_CML_USERNAME", "admin")
    monkeypatch.setenv("FLASHFERRY_CML_PASSWORD", "of-the-controller")
    path = ground / "nightly.yaml"
    path.write_text(
        "{controller: {url: 'https://c'}, "
        "topology: {sites: [{name: s, condition: {}, nodes: [{node_definition: csr1000v}]}]}, "
        "reach: {addresses: ['192.0.2.51/24']}, night: {image: image.bin}, artefacts: {folder: nights}}"
    )
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_labs_are_reaped(described, monkeypatch, flashferry_says, as_json):
    """Titles are anybody's, and a controller's refusals quote what it likes."""
    lab = BUILT.one(Leftover)
    found = (Reaped(lab=lab, why=lab.notes, failure=lab.title),)
    monkeypatch.setattr(import_module("flashferry.cli.nightly.reap"), "reap_labs", lambda *_, **__: found)
    words = ("nightly", "reap", str(described))
    out, _ = flashferry_says(*words, *(["--json"] if as_json else []), is_document=as_json)
    assert out.strip()
    if as_json:
        check_document(out)


@pytest.mark.parametrize("as_json", [False, True])
def test_answers_are_recorded(described, ground, monkeypatch, flashferry_says, as_json):
    """Keys of answers are a controller's; the file is signs alone, too."""
    hostile = BUILT.one(Leftover).title
    recorded = Recorded(content={"answers": {hostile: 1}}, answers=1, differences=(hostile,), failures=(hostile,))
    monkeypatch.setattr(import_module("flashferry.cli.nightly.record"), "record_answers", lambda *_, **__: recorded)
    words = ("nightly", "record", str(described), "--output", str(ground / "record.json"))
    out, _ = flashferry_says(*words, *(["--json"] if as_json else []), is_document=as_json)
    assert out.strip()
    if as_json:
        check_document(out)
    text = (ground / "record.json").read_text()
    assert text.replace("\n", "").isprintable()
    assert secrets_in(text) == []


@pytest.mark.parametrize("as_json", [False, True])
def test_a_night_is_played(ground, monkeypatch, flashferry_says, as_json):
    """What a controller, a router's console or the product said stands in steps, and names in the lab's nodes."""
    now = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
    step = BUILT.one(NightStep, started_at=now, outcome=StepOutcome.FAILED, fault=Fault.LAB)
    night = BUILT.one(Night, started_at=now, ended_at=now, steps=(step,), is_interrupted=False)

    def play(file, *, watcher, **_):
        watcher.began(step.name)
        watcher.ended(step)
        return NightResult(night=night, folder=ground / "nights")

    monkeypatch.setattr(import_module("flashferry.cli.nightly.run"), "play_night", play)
    out, err = flashferry_says("nightly", "run", *(["--json"] if as_json else []), is_document=as_json)
    assert "FAILED" in err
    assert secrets_in(out) == []
    if as_json:
        assert json.loads(out)["exit_code"] == 7


# Sentences, and what nobody expected


def test_sentences(capsys, monkeypatch):
    """What is said in a line, and an error with its hint, for people and for programs."""
    monkeypatch.setattr(sys, "argv", ["flashferry", "--json"])
    say(HOSTILE)
    print_error(ConfigInvalid(HOSTILE, host=HOSTILE, step=HOSTILE, hint=HOSTILE), ExitCode.USAGE)
    out, err = capsys.readouterr()
    assert_harmless(err)
    check_document(out)


def test_an_error_that_nobody_expected(monkeypatch, capsys, ground):
    """Its trace is printed, for it is needed; its text may quote anything, and passes the door as well."""

    def fail(*_: object, **more: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("flashferry.api.checking.check_fleet", fail)
    monkeypatch.setattr(sys, "argv", ["flashferry", "check", "-i", str(ground)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == ExitCode.INTERNAL
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "RuntimeError" in err
    assert secrets_in(err) == []
    assert MARK not in err
    assert err.replace("\n", "").isprintable()


def test_last_words_of_others(monkeypatch, capsys):
    """Log lines of libraries, warnings, and errors of threads: shown and masked, where nobody else has taken them."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(warnings, "formatwarning", warnings._formatwarning_orig)
    monkeypatch.setattr(logging, "lastResort", logging._StderrHandler(logging.WARNING))
    guard()
    record_ = logging.LogRecord("paramiko", logging.ERROR, "x", 1, "Exception: %s", (HOSTILE,), None)
    assert logging.lastResort is not None
    logging.lastResort.handle(record_)
    error = RuntimeError(HOSTILE)
    found = SimpleNamespace(exc_type=RuntimeError, exc_value=error, exc_traceback=None, thread=None, err_msg=HOSTILE)
    threading.excepthook(found)
    sys.unraisablehook(found)
    sys.stderr.write(warnings.formatwarning(HOSTILE, UserWarning, "x.py", 1))
    err = capsys.readouterr().err
    assert err.count("RuntimeError") == 2
    assert secrets_in(err) == []
    assert err.replace("\n", "").isprintable()


def test_tables_stay_tables():
    """A cell of signs that are written out is as wide as it looks: columns stand below each other."""
    written = io.StringIO()
    out = ShownConsole(file=written, width=100)
    made = ShownTable(box=None, pad_edge=False)
    for column in ("one", "two"):
        made.add_column(column, overflow="fold")
    made.add_row("a\x1b[31mb\u202e", "second")
    made.add_row(Text("a\x1b[31mb\u202e\x9b", style="bold"), "second")
    made.add_row("x", "second")
    out.print(made)
    lines = written.getvalue().splitlines()
    assert len({line.index("second") for line in lines[1:]}) == 1
    assert r"a\x1b[31mb\u202e" in lines[1]
    assert len(lines) == 4


def test_whatever_a_console_prints_is_shown():
    """A line, a text, and what others hold; a line feed in it does not begin a line."""
    written = io.StringIO()
    out = ShownConsole(file=written, width=10_000, height=10)
    for one in (HOSTILE, Text(HOSTILE), Group(HOSTILE, Text(HOSTILE)), Panel(HOSTILE, box=ASCII)):
        out.print(one)
        out.print("x", one)
    assert_harmless(written.getvalue())


WRITERS = {
    "output.py": {"echo", "print", "write"},
    "layout.py": set(),
    "streams.py": {"write"},
    "serve_sessions.py": {"print"},
    "report.py": {"write"},
    "questions.py": {"write"},
    "audit.py": {"write"},
    "main.py": {"print"},
    "program.py": {"echo"},
    "app.py": {"echo"},
    "cml.py": {"echo"},
    "experiment.py": {"echo"},
    "peers.py": {"echo"},
}
"""Who may write by itself: the doors, the forms of a report, the server's JSON lines (tried above), the question for a
login, and the lab."""

RICH_DOOR = {"layout.py": {"Console", "Table"}, "live.py": set()}


def test_nobody_writes_past_the_door():
    """No module of a command line, the lab's among them, prints or makes a console or a table but through the doors."""
    assert list(_called(ast.parse("Table(Console())\nsys.stderr.write(x)"))) == ["Table", "write", "Console"]
    root = Path(flashferry.__file__).parent
    folders = (root / "cli", root / "lab" / "cli", root / "lab" / "demo")
    for path in (one for folder in folders for one in some(sorted(folder.rglob("*.py")))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        written = {name for name in _called(tree) if name in {"print", "typer.echo", "echo", "write", "secho"}}
        raw = {name.rpartition(".")[2] for name in written if name != "echo"}
        assert raw <= WRITERS.get(path.name, set()), f"{path.name} writes by {raw}"
        made = {name for name in _called(tree) if name in {"Console", "Table"}}
        assert made <= RICH_DOOR.get(path.name, set()), f"{path.name} makes a {made} of its own"


def _called(tree: ast.AST) -> Iterator[str]:
    """Yield what is called: functions by name, `typer.echo` whole, `write` of the standard streams."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "typer.echo", "typer.secho", "Console", "Table", "echo"):
                yield called
            elif called in ("sys.stdout.write", "sys.stderr.write"):
                yield "write"


def test_secrets_of_an_inventory_are_known_by_its_opening(ground, monkeypatch, flashferry_says):
    """Without anybody having told the door: to open the inventory is enough, and so is the environment."""
    from flashferry.core.redaction import forget_secrets, masked

    forget_secrets()
    monkeypatch.setenv("NB_TOKEN", TOKEN)
    monkeypatch.setattr("flashferry.api.checking.check_fleet", told_by(()))
    keep_secret(SHORT)
    keep_secret(USER, TICKET, is_random=True)
    flashferry_says("check", "-i", str(ground))
    assert masked(f"{LOGIN} {ENABLE} {TOKEN}") == "*** *** ***"


def test_a_failure_keeps_no_secret():
    """What a script of somebody's own gets from a run, too, is without: the first sentence is made masked."""
    from flashferry.model.record import failure_of

    found: Failure = failure_of("pull", ConfigInvalid(f"the device says {TICKET}"))
    assert found.reason == "the device says ***"
    assert AT

"""A night by its description: the parts meet, the night is judged, kept and written, and old folders are removed."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module

import pytest

from flashferry.cli.main import main
from flashferry.cli.nightly.run import StepLines
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import forget_secrets, keep_secret
from flashferry.core.values import replace
from flashferry.nightly import runner
from flashferry.nightly.backend import NodeState
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.history import past
from flashferry.nightly.lab_notes import only_one_night
from flashferry.nightly.night import Fault, NightFault, NightStep, StepName, StepOutcome
from flashferry.nightly.runner import locks_of, open_backend, play_night, prune
from flashferry.nightly.step_log import SilentWatcher
from flashferry.nightly.steps import run_night
from tests.unit.nightly.fakes import FakeBackend, FakeProduct, FakeRouters, WoundClock

REAP = import_module("flashferry.cli.nightly.reap")
"""Imported before anything is put in its backend's place: a verb's module is otherwise imported when it is called."""
DESCRIPTION = """
controller: {url: 'https://cml.example.net'}
topology:
  sites:
    - name: wan50
      condition: {bandwidth_kbps: 50000, latency_ms: 50, loss_percent: 0.01}
      nodes: [{node_definition: csr1000v, count: 2}]
night: {image: image.bin, copies: 2}
artefacts: {folder: nights, keep_nights: 2}
"""
HOSTS = ("wan50-csr1000v-1", "wan50-csr1000v-2")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A description, and fakes in the place of controller, routers and product."""
    (tmp_path / "image.bin").write_bytes(b"image")
    path = tmp_path / "nightly.yaml"
    path.write_text(DESCRIPTION)
    clock = WoundClock()

    @contextmanager
    def opened(description, clock_=None):
        yield FakeBackend(clock)

    def run(parts):
        product = FakeProduct(hosts=HOSTS, tuned=FakeProduct.tuned)
        fakes = {"clock": clock, "routers": FakeRouters(), "product": lambda folder, inventory: product}
        return run_night(replace(parts, **fakes))

    monkeypatch.setattr(runner, "open_backend", opened)
    monkeypatch.setattr(runner, "run_night", run)
    return path


def play(file, **changes):
    given = {"state": file.parent / "state", "watcher": SilentWatcher(), "is_stopped": lambda: False}
    return play_night(file, **(given | changes))


def test_a_damaged_history_is_no_failure_of_the_product(file):
    """It is this host's own: in JUnit an error."""
    state = file.parent / "state"
    state.mkdir(mode=0o700)
    (state / "nights.sqlite3").write_bytes(b"no database" * 99)
    night = play(file).night
    assert night.exit_code == 7
    assert {step.fault for step in night.steps} == {None, Fault.LAB}


def test_a_night_is_judged_kept_and_written(file):
    """Its folder has the report in all forms, and the next night is held against it."""
    played = play(file)
    assert played.night.exit_code == 0
    assert played.folder == file.parent / "nights" / played.night.night_id
    report = json.loads((played.folder / "report.json").read_text())
    assert report["night"]["steps"][-1]["name"] == "clean"
    assert {one.name for one in played.folder.iterdir()} >= {"report.html", "report.json", "junit.xml", "lab.yaml"}
    series = {one.row.series for one in past(file.parent / "state")}
    assert "csr1000v/-/wan50/ftp/probe" in series
    assert {str(one.key) for one in played.night.judgements} == series


def test_a_red_history_turns_a_second_slow_night_red(file, monkeypatch):
    """Seven good nights, then two at half their rate: amber, then red with the exit code 3."""
    for _ in range(7):
        assert play(file).night.exit_code == 0
    monkeypatch.setattr(FakeProduct, "tuned", 40e3)
    first, second = play(file).night, play(file).night
    assert (first.exit_code, second.exit_code) == (0, 3)
    assert "nights like it in a row turn red" in next(step.sentence for step in first.steps if step.name == "judge")


def test_only_the_last_nights_keep_their_folders(file):
    """As many as the description says; what else lies there is nobody's to remove."""
    (file.parent / "nights" / "notes").mkdir(parents=True)
    nights = [play(file).night.night_id for _ in range(3)]
    left = {one.name for one in (file.parent / "nights").iterdir() if one.is_dir()}
    assert left == {"notes", *sorted(nights)[-2:]}


def test_a_link_in_place_of_a_nights_folder_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "nights"
    root.mkdir()
    (root / "ff-nightly-20261101T0000-0000").symlink_to(elsewhere)
    (root / "ff-nightly-20261102T0000-0000").mkdir()
    assert prune(root, 1) == ()
    assert elsewhere.exists()


def test_no_folder_of_nights_is_no_error(tmp_path):
    assert prune(tmp_path / "none", 5) == ()


def test_the_controller_is_not_asked_before_the_description_is_right(file, monkeypatch):
    """One sentence, and nothing was begun."""
    file.write_text(DESCRIPTION.replace("latency_ms: 50", "latency_ms: 0.5"))
    with pytest.raises(ConfigInvalid, match="latency_ms"):
        play(file)
    assert not (file.parent / "nights").exists()


def test_a_night_whose_controller_fails_is_kept_too(file, monkeypatch):
    """As one that is not compared."""

    @contextmanager
    def opened(description, clock=None):
        backend = FakeBackend(WoundClock())
        backend.states[HOSTS[0]] = NodeState.DISCONNECTED
        yield backend

    monkeypatch.setattr(runner, "open_backend", opened)
    played = play(file)
    assert (played.night.exit_code, played.night.is_comparable) == (7, False)
    assert (played.folder / "junit.xml").exists()


def test_a_controller_needs_its_login(tmp_path, monkeypatch):
    """Told before anything is asked of it."""
    monkeypatch.delenv("FLASHFERRY_CML_USERNAME", raising=False)
    (tmp_path / "image.bin").write_bytes(b"image")
    (tmp_path / "nightly.yaml").write_text(DESCRIPTION)
    description = load_description(tmp_path / "nightly.yaml")
    with pytest.raises(ConfigInvalid, match="FLASHFERRY_CML_USERNAME"), open_backend(description):
        pass


@pytest.mark.parametrize("wants", [(), ("--json",)], ids=["people", "programs"])
def test_another_night_on_this_host_leaves_with_the_labs_code(file, monkeypatch, capsys, wants):
    """7, with a sentence for people and, where it was asked for, a document for programs; no night is kept."""
    state = file.parent / "state"
    words = ["flashferry", "nightly", "run", str(file), "--state-dir", str(state), *wants]
    monkeypatch.setattr(sys, "argv", words)
    with only_one_night(locks_of(state), "ff-nightly-20261122T0000-0001"), pytest.raises(SystemExit) as left:
        main()
    out, err = capsys.readouterr()
    assert left.value.code == 7
    assert "another night runs on this host" in err
    assert not (file.parent / "nights").exists()
    if wants:
        document = json.loads(out)
        assert (document["schema"], document["exit_code"]) == ("flashferry.error/1", 7)
        assert (document["verb"], "another night runs" in document["error"]) == ("nightly-run", True)


@pytest.mark.parametrize(("fault", "code"), [(Fault.LAB, 7), (Fault.DEVICE, 4), (Fault.PRODUCT, 3), (Fault.CLEANUP, 8)])
@pytest.mark.parametrize("verb", ["run", "reap"])
def test_a_fault_that_leaves_a_verb_has_its_own_code(file, monkeypatch, capsys, fault, code, verb):
    """And a JSON document, as every verb gives."""

    @contextmanager
    def opened(description, clock=None):
        raise NightFault("something is off", fault=fault, step="preflight", hint="Look")
        yield

    monkeypatch.setattr(runner, "open_backend", opened)
    monkeypatch.setattr(REAP, "open_backend", opened)
    words = ["flashferry", "nightly", verb, str(file), "--state-dir", str(file.parent / "state"), "--json"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        main()
    out, err = capsys.readouterr()
    assert (left.value.code, json.loads(out)["exit_code"], "something is off" in err) == (code, code, True)


@pytest.mark.parametrize("place", ["state", "nights"])
def test_a_night_that_could_not_be_kept_is_not_begun(file, place):
    """A folder of state or artefacts that cannot be written is told before a lab is made, by one sentence."""
    (file.parent / place).write_text("a file")
    with pytest.raises(ConfigInvalid, match=r"can(not)? be written") as told:
        play(file)
    assert str(file.parent / place) in str(told.value)
    assert not (file.parent / "state" / "nights.sqlite3").exists()


def test_a_long_step_is_printed_within_100_columns(capsys):
    """Further lines stand below the first one's sentence; no name is broken, and a secret with a blank stays masked."""
    keep_secret("pass word")
    name = "wan-branch-csr1000v-1: 60.0 ms, 0 of 20 lost"
    sentence = "; ".join([name] * 4) + "; pass word"
    began = datetime(2026, 11, 23, tzinfo=UTC)
    step = NightStep(
        name=StepName.CONDITION, outcome=StepOutcome.PASSED, started_at=began, duration_s=5.7, sentence=sentence
    )
    StepLines().ended(step)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(len(line) <= 100 for line in lines)
    assert all(line.startswith(" " * 22) for line in lines[1:])
    whole = " ".join(line.strip() for line in lines)
    assert whole.count(name) == 4
    assert "word" not in whole
    forget_secrets()

"""`flashferry report` as it is typed: a journal on disk, each form, and what it says where there is nothing."""

from __future__ import annotations

import json
import sys
from xml.etree import ElementTree

import pytest

from flashferry.cli.main import main
from flashferry.store.journal import Journal


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """An empty journal in a state directory of its own, and the command line told where it is."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path))
    with Journal(tmp_path) as opened:
        yield opened


@pytest.fixture
def run_id(journal):
    """A run of one device that failed, ended in good order."""
    found = journal.begin_run("stage")
    journal.add_device(found, host="xe1", address="198.18.1.11", port=22, platform="ios", site="berlin")
    failure = {"step": "login", "reason": "no answer on port 22", "hint": "Look at the line", "kind": "x"}
    record = {"host": "xe1", "outcome": "failed", "restored": "untouched", "failure": failure, "seconds_by_step": {}}
    journal.record(found, "xe1", record)
    journal.finish_run(found)
    return found


def flashferry(monkeypatch, *arguments):
    """Run the command line and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["flashferry", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code


def test_latest_is_the_last_run(monkeypatch, capsys, run_id):
    """`latest` needs no identifier; the table names the failure and what to do, and exits with 0."""
    assert flashferry(monkeypatch, "report", "latest") == 0
    out = capsys.readouterr().out
    assert run_id in out
    assert "xe1: failed at login: no answer on port 22" in out
    assert "Look at the line" in out


def test_check_leaves_with_3_where_something_is_wrong(monkeypatch, capsys, run_id):
    """Without --check a report is a report; with it a failed device is an exit code."""
    assert flashferry(monkeypatch, "report", run_id, "--format", "junit", "--check") == 3
    root = ElementTree.fromstring(capsys.readouterr().out)
    assert (root.get("failures"), root.get("errors")) == ("1", "0")


def test_a_form_in_a_file(monkeypatch, capsys, run_id, tmp_path):
    """--output writes the file and says so on standard error; standard output stays empty."""
    path = tmp_path / "report.json"
    assert flashferry(monkeypatch, "report", run_id, "--format", "json", "--output", str(path)) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "report.json" in said.err
    assert json.loads(path.read_text())["run_id"] == run_id


def test_a_run_under_way_is_told_as_that(monkeypatch, capsys, journal):
    """A device that had no turn yet is queued, as on its page, and nothing needs attention."""
    found = journal.begin_run("stage")
    journal.add_device(found, host="xe1", address="198.18.1.11", port=22, platform="ios", site="berlin")
    assert flashferry(monkeypatch, "report", found, "--check") == 0
    out = capsys.readouterr().out
    assert "The run is under way" in out
    assert "queued" in out
    assert "Needs attention" not in out


def test_an_unknown_run_is_one_sentence(monkeypatch, capsys, run_id):
    """What is not in the journal is said, with exit code 2 and no traceback."""
    assert flashferry(monkeypatch, "report", "20200101-000000-ffff") == 2
    said = capsys.readouterr().err
    assert "20200101-000000-ffff" in said
    assert "Traceback" not in said


def test_a_page_is_not_written_to_a_terminal(monkeypatch, capsys, run_id):
    """HTML on a terminal is refused with what to do instead."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert flashferry(monkeypatch, "report", run_id, "--format", "html") == 2
    assert "--output report.html" in capsys.readouterr().err


def test_reading_a_report_changes_no_journal(monkeypatch, capsys, run_id, tmp_path):
    """The database is the same file, byte for byte, after a report."""
    before = (tmp_path / "journal.sqlite3").read_bytes()
    assert flashferry(monkeypatch, "report", run_id, "--format", "csv") == 0
    assert (tmp_path / "journal.sqlite3").read_bytes() == before


def test_a_file_that_cannot_be_written_is_one_sentence(monkeypatch, capsys, run_id, tmp_path):
    """A folder that is not there is the operator's to mend, and the option is named."""
    missing = tmp_path / "none" / "report.html"
    assert flashferry(monkeypatch, "report", run_id, "--format", "html", "--output", str(missing)) == 2
    assert f"--output {missing}: cannot be written: No such file or directory" in capsys.readouterr().err

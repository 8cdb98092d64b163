"""Reports as text, where they are written, and what they come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashferry.api.reports import ReportFormat, check_is_no_plan, report, report_exit_code, report_text, write_report
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.model.record import DeviceRecord
from flashferry.model.states import Outcome, Restored
from flashferry.reports.thresholds import parse_threshold
from flashferry.store.journal import Journal


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a journal with a run of which one device had its image already."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios", image="x.bin")
        outcome, restored = Outcome.ALREADY_THERE, Restored.UNTOUCHED
        journal.record(run_id, "r1", DeviceRecord(host="r1", outcome=outcome, restored=restored, seconds_by_step={}))
        journal.finish_run(run_id)
    return tmp_path


def test_each_form_is_a_text_of_its_own(state: Path) -> None:
    """A document, rows, a test suite and a page; a table is drawn by whoever has a terminal."""
    found = report(state=state)
    texts = {form: report_text(found, form) for form in ReportFormat if form is not ReportFormat.TABLE}
    assert json.loads(texts[ReportFormat.JSON])["run_id"] == found.run_id
    assert texts[ReportFormat.CSV].splitlines()[1].startswith("r1,192.0.2.1,")
    assert texts[ReportFormat.JUNIT].startswith("<?xml")
    assert texts[ReportFormat.HTML].startswith("<!DOCTYPE html>")
    with pytest.raises(ValueError, match="found table"):
        report_text(found, ReportFormat.TABLE)


def test_a_report_is_held_against_thresholds(state: Path) -> None:
    """What is as it must be is OK; a copy that was not made holds no rate, and is no failure."""
    found = report(state=state)
    assert report_exit_code(found) is ExitCode.OK
    assert report_exit_code(found, [parse_threshold("min_rate_mb_s=1")]) is ExitCode.OK


def test_a_run_that_nobody_knows(state: Path) -> None:
    """One sentence names it."""
    with pytest.raises(ConfigInvalid, match="no-such-run"):
        report("no-such-run", state=state)


def test_a_plan_is_not_written_over(tmp_path: Path) -> None:
    """One variable names the file of both; anything else there is replaced."""
    plan, other = tmp_path / "plan.json", tmp_path / "other.json"
    plan.write_text('{"schema": "flashferry.plan/1"}')
    other.write_text("{}")
    with pytest.raises(ConfigInvalid, match="a plan stands there; nothing was written"):
        check_is_no_plan(plan, "THE_VARIABLE")
    check_is_no_plan(other, "THE_VARIABLE")
    write_report("a report", other)
    assert other.read_text() == "a report"

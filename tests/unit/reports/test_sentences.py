"""A sentence about a device is the same in the table, in HTML and in the result of a run."""

from __future__ import annotations

from html import unescape

from flashferry.cli.view.device_tables import print_run
from flashferry.cli.view.report_table import report_text
from flashferry.model.record import DeviceRecord, RunReport
from flashferry.model.states import Outcome, Restored
from flashferry.reports.as_html import report_html
from flashferry.reports.words import partial_file_sentence, startup_sentence, unproven_sentence

LEFT, ADVICE = "flash:x.bin, 12 bytes", "Delete it by hand"


def same(text: str) -> str:
    """Return a form's text without its line breaks and capitals."""
    return " ".join(unescape(text).split()).casefold()


def test_what_is_left_and_not_restored_reads_alike_everywhere(run, device, record, report, monkeypatch, capsys):
    """Path, advice and command: whichever form is read, nothing is missing."""
    monkeypatch.setenv("COLUMNS", "240")
    told = record("xe_staged") | {
        "outcome": "failed",
        "restored": "incomplete",
        "restore": None,
        "state": "failed",
        "partial_file": LEFT,
        "partial_advice": ADVICE,
        "failure": {"step": "copy", "reason": "stalled", "hint": None, "kind": "TransferStalled"},
    }
    found = report(run(device(record=told, is_held=True)))
    live = DeviceRecord(
        host="xe1",
        outcome=Outcome.FAILED,
        restored=Restored.INCOMPLETE,
        partial_file=LEFT,
        partial_advice=ADVICE,
        seconds_by_step={},
    )
    print_run(RunReport(run_id="r", verb="stage", image="x.bin", image_bytes=1, md5="0", devices=(live,)))
    forms = [report_text(found), report_html(found), capsys.readouterr().out]
    for sentence in (partial_file_sentence(LEFT, ADVICE), unproven_sentence("stage")):
        assert [same(sentence) in same(form) for form in forms] == [True] * 3


def test_an_activation_that_is_not_proven_is_not_called_tuned(run, device, record, report):
    """Its boot order is what is open, on the page as in the table."""
    told = record("xe_staged") | {"outcome": "failed", "restored": "incomplete", "restore": None, "state": "failed"}
    found = report(run(device(record=told, is_held=True), verb="activate"))
    for form in (report_text(found), report_html(found)):
        assert same(unproven_sentence("activate")) in same(form)
        assert same(unproven_sentence("stage")) not in same(form)


def test_a_changed_startup_configuration_is_one_sentence(run, device, record, report):
    """Its note and its place beside the configuration say the same, and what to do."""
    told = record("xe_staged")
    told["restore"] |= {"startup_changed": True}
    found = report(run(device(record=told)))
    sentence = startup_sentence("ip tcp", is_equal=False)
    assert sentence in found.devices[0].notes
    assert same(sentence) in same(report_html(found))

"""The studies of bulk copies between two real namespaces: copied, written down, and not done twice."""

import json
from pathlib import Path

import pytest

from flashferry.lab.experiment.bulk.play import Testbed, missing_programs
from flashferry.lab.experiment.bulk.report import Asked, run
from tests.needs import lacking

pytestmark = [pytest.mark.lab, pytest.mark.soak]


@pytest.fixture(autouse=True)
def _programs() -> None:
    if missing := missing_programs():
        lacking(f"{', '.join(missing)} not installed")


def test_a_series_is_measured_and_told_and_not_done_again(tmp_path, monkeypatch):
    """Into results, report, graph and document; the host's sshd and its files stay as they are."""
    document = tmp_path / "evidence.md"
    document.write_text("before\n<!-- bulk-bulk: begin -->\n<!-- bulk-bulk: end -->\nbehind\n")
    before = {path: path.exists() for path in (Path("/run/sshd"), Path("/etc/ssh/sshd_config"))}
    asked = Asked(
        experiment="bulk",
        folder=tmp_path / "results",
        rounds=1,
        size_mib=1,
        seed=1,
        only=("dd-ciphers",),
        document=document,
        command="a command",
    )
    report = run(asked, log=lambda _: None, interrupted=lambda: False)
    assert report.is_whole
    rows = report.played.rows["dd-ciphers"]
    assert len(rows) == 6
    assert all(row.rate and row.here_cpu and row.far_cpu for row in rows)
    assert report.played.link_bytes_per_s
    text = document.read_text()
    assert text.startswith("before\n")
    assert "| `dd-ssh-2022` |" in text, "a row per study; its arms are in the report"
    assert "cannot be repeated" in text
    assert (tmp_path / "evidence-bulk.svg").read_text().startswith("<svg")
    assert "aes128-gcm" in (tmp_path / "results" / "report.md").read_text()
    kept = json.loads((tmp_path / "results" / "report.json").read_text())
    assert kept["schema"] == "flashferry.bulk-experiment/1"
    assert before == {path: path.exists() for path in before}
    # Asked for again nothing is copied: the ground would not even be made.
    monkeypatch.setattr(Testbed, "__enter__", None)
    assert run(asked, log=lambda _: None, interrupted=lambda: False).played.rows == report.played.rows


def test_an_interruption_keeps_what_was_done(tmp_path):
    """The same command goes on there."""
    shown = []
    asked = Asked(experiment="ssh", folder=tmp_path, rounds=1, size_mib=1, seed=1, only=("macs",))
    report = run(asked, log=shown.append, interrupted=lambda: len(shown) > 2)
    assert not report.is_whole
    assert "not measured" in report.text

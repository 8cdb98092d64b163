"""What stands above the question of `clean`, and what is said where a file that was asked about is not there."""

from __future__ import annotations

from flashferry.api.readiness import CleanResult
from flashferry.cli.clean import print_clean, to_be_deleted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import Outcome
from flashferry.run.clean import CleanRecord
from tasks.clean import OldFile, RemovableImages

OLD = OldFile(path="flash:old.bin", size_bytes=4000, modified="Nov 24 2026 08:00:00", reason="older than " * 20 + "it")
LOOK = RemovableImages(serial_number="FOC1", file_system="flash:", free_bytes=5_000, files=(OLD,))


def test_what_is_asked_about_fits_the_terminal(monkeypatch):
    """A terminal would cut the reason in the middle of a word."""
    monkeypatch.setenv("COLUMNS", "80")
    head, file, *reason = to_be_deleted("xe1", LOOK)
    assert head == "xe1: 1 file could go from flash:, 5,000 bytes free"
    assert file == "  flash:old.bin  4,000 bytes  Nov 24 2026 08:00:00"
    assert len(reason) > 2
    assert all(len(text) <= 80 and text.startswith("    older than") for text in reason[:-1])


def test_a_file_that_is_not_there_is_told_by_its_name(capsys):
    """That no image is old would be another thing, and not true."""
    none = RemovableImages(serial_number="FOC1", file_system="flash:", free_bytes=5_000)
    record = CleanRecord(host="xe1", outcome=Outcome.DONE, look=none)
    print_clean(CleanResult(devices=(record,), exit_code=ExitCode.OK), asked=("typo.bin",))
    assert "xe1: of typo.bin nothing is on flash:" in capsys.readouterr().out

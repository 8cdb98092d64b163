"""A bar of what is uploaded for a night: on standard error, where that is a terminal, and nowhere else."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from flashferry.cli import images
from flashferry.cli.nightly.run import upload_bar


@pytest.fixture
def drawn(monkeypatch):
    """Return what a hash and an upload draw."""

    def draw(file: Path | None, *, is_terminal: bool) -> str:
        out = StringIO()
        made = Console(file=out, force_terminal=is_terminal, width=80)
        monkeypatch.setattr(images, "console", lambda **_: made)
        with upload_bar(file) as on_progress:
            for done in (1, 2_000_000, 4_000_000, 1, 4_000_000, 3):
                on_progress(done, 4_000_000)
        return out.getvalue()

    return draw


def test_a_terminal_has_a_bar_that_goes_when_it_is_full_or_the_night_ends(drawn):
    """Of the hash and of the upload, the file's name beside it; an upload that broke off leaves none."""
    text = drawn(Path("images/c8000v.qcow2"), is_terminal=True)
    assert "c8000v.qcow2" in text
    assert "4.0/4.0 MB" in text
    assert text.count("\x1b[?25h") == text.count("\x1b[?25l") == 3


def test_no_terminal_has_none(drawn):
    """A timer's log has the step's line alone."""
    assert drawn(Path("c8000v.qcow2"), is_terminal=False).strip() == ""


def test_without_a_file_there_is_none(drawn):
    assert drawn(None, is_terminal=True) == ""

"""A terminal or pipe that is closed while we run takes neither the result nor the exit code with it."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console

from flashferry.cli.terminal.output import finish
from flashferry.cli.view import live
from flashferry.cli.view.layout import line
from flashferry.model.exit_codes import ExitCode


class Closed(io.StringIO):
    """Takes what is written until nobody is there to read it any more.

    Args:
        error: What writing then ends in.
        number: Its descriptor.
    """

    def __init__(self, error: OSError, number: int, *, gone: bool = False) -> None:
        super().__init__()
        self.gone = gone
        self._error = error
        self._number = number

    def fileno(self) -> int:
        return self._number

    def write(self, text: str) -> int:
        if self.gone:
            raise self._error
        return super().write(text)


def test_a_closed_pipe_keeps_the_exit_code(monkeypatch: pytest.MonkeyPatch):
    """`flashferry stage … | head -1`: the device that is still tuned is told by the code, whoever stopped reading."""
    with Path(os.devnull).open("w", encoding="utf-8") as somewhere:
        monkeypatch.setattr("sys.stdout", Closed(BrokenPipeError(), somewhere.fileno(), gone=True))
        with pytest.raises(typer.Exit) as caught:
            finish("stage", ExitCode.RESTORE_INCOMPLETE, {}, as_json=False, human=lambda: line("r1", "still tuned"))
        sys.stdout.close()  # what finish() put there
    assert caught.value.exit_code == ExitCode.RESTORE_INCOMPLETE


def test_a_result_that_a_full_disk_swallowed_is_told(monkeypatch: pytest.MonkeyPatch, capsys):
    """`flashferry report latest > report.txt`: an empty file and a zero would pass for a report; graver codes stay."""
    for code, expected in ((ExitCode.OK, ExitCode.INTERNAL), (ExitCode.REFUSED, ExitCode.REFUSED)):
        with Path(os.devnull).open("w", encoding="utf-8") as somewhere, monkeypatch.context() as patched:
            full = OSError(28, "No space left on device")
            patched.setattr("sys.stdout", Closed(full, somewhere.fileno(), gone=True))
            with pytest.raises(typer.Exit) as caught:
                finish("report", code, {}, as_json=False, human=lambda: line("r1", "done"))
            sys.stdout.close()  # what finish() put there
        assert caught.value.exit_code == expected
        assert "could not be written to standard output: No space left on device" in capsys.readouterr().err


def test_a_closed_terminal_keeps_the_result(monkeypatch: pytest.MonkeyPatch):
    """The live table ends silently with its terminal; what the run found is still told to standard output."""
    terminal = Closed(OSError(5, "Input/output error"), 2)
    monkeypatch.delenv("FLASHFERRY_PLAIN", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live, "console", lambda stderr: Console(file=terminal, force_terminal=True, stderr=stderr))
    with live.watching("restore", devices=1) as table:
        assert isinstance(table, live.LiveTable)
        terminal.gone = True
        table.say("interrupted")

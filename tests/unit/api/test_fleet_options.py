"""Where state is."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.api.fleet import journal_in
from flashferry.api.fleet_options import state_folder


def test_an_open_journal_stays_open(tmp_path: Path) -> None:
    """Who opened it closes it; a folder is opened for the block alone, and None is the usual one."""
    with journal_in(tmp_path / "state") as journal:
        with journal_in(journal) as same:
            assert same is journal
        assert journal.begin_run("stage")


def test_the_usual_folder_is_the_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's, unless another is given, as text or path."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path))
    assert state_folder(None) == tmp_path
    assert state_folder(str(tmp_path / "other")) == state_folder(tmp_path / "other") == tmp_path / "other"

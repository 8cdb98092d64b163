"""What overrides a plan or an earlier run, and where state is."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.api.options import Overrides, WaveBy, journal_in, state_folder
from flashferry.model.limits import Limits
from flashferry.model.waves import WavePolicy


def test_what_is_not_given_is_as_in_the_plan() -> None:
    """Only options that were given override what a plan says."""
    base = WavePolicy(canary=False, by="group", size=3, max_failures=2)
    assert Overrides().policy(base) == base
    assert Overrides(canary=True, wave_by=WaveBy.ALL).policy(base) == WavePolicy(by=None, size=3, max_failures=2)
    assert Overrides(site_copies=2).limits(Limits(logins=5)) == Limits(logins=5, site_copies=2)


def test_waves_are_made_anew_only_where_something_about_them_is_said() -> None:
    """Limits and failures leave a plan's waves as they are."""
    assert not Overrides(copies=3, max_failures=0.1, approve=True).makes_waves
    for one in (Overrides(canary=False), Overrides(wave_by=WaveBy.SITE), Overrides(wave_size=2)):
        assert one.makes_waves


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

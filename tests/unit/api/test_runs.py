"""What runs do and did, and how one is steered."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.api.runs import approve, device_history, history, status, steer, stored_run
from flashferry.core.errors import ConfigInvalid
from flashferry.model.states import RunState
from flashferry.store.journal import Journal


def entered(journal: Journal, waves: int = 3) -> str:
    """Enter a run with a device in each wave."""
    run_id = journal.begin_run("stage")
    for wave in range(waves):
        journal.add_device(run_id, host=f"r{wave}", address="x", port=22, platform="ios", wave=wave, image="x.bin")
    return run_id


def test_a_run_is_steered_and_shown(tmp_path: Path) -> None:
    """What is told stays told until it is told otherwise; each look has all of it."""
    with Journal(tmp_path) as journal:
        run_id = entered(journal)
        assert steer("latest", paused=True, state=tmp_path).control.paused
        told = approve(run_id[-4:], state=tmp_path)
        assert (told.run_id, told.wave, told.control.paused) == (run_id, 0, True)
        assert approve(run_id, 2, state=tmp_path).control.approved_wave == 2
        assert not steer(run_id, paused=False, state=tmp_path).control.paused
        run, control = stored_run(run_id, state=tmp_path)
        assert (run.state, len(run.devices), control.approved_wave) == (RunState.ALIVE, 3, 2)
        assert steer(run_id, stopping=True, state=tmp_path).control.stopping


def test_a_run_that_ended_is_told_nothing(tmp_path: Path) -> None:
    """The sentence says how it goes on; of a run that nobody knows no journal is made."""
    with Journal(tmp_path) as journal:
        journal.finish_run(run_id := entered(journal))
    for tell in (lambda: steer(run_id, paused=True, state=tmp_path), lambda: approve(run_id, state=tmp_path)):
        with pytest.raises(ConfigInvalid, match=rf"run {run_id} is not alive.*stage --resume {run_id}"):
            tell()
    with pytest.raises(ConfigInvalid, match="no run"):
        steer("none", paused=True, state=tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_the_last_runs_are_told(tmp_path: Path) -> None:
    """As many as are asked for, the newest first."""
    with Journal(tmp_path) as journal:
        runs = [entered(journal) for _ in range(3)]
    assert [run.run_id for run in status(2, state=tmp_path).runs] == [*reversed(runs)][:2]


def test_a_device_without_copies_is_told(tmp_path: Path) -> None:
    """With what the history has, so that a slip of the finger is seen."""
    found = history(state=tmp_path)
    assert found.hosts == ()
    with pytest.raises(ConfigInvalid, match="has no copy of a device 'r1': it has no copy of any device"):
        device_history(found, "r1")

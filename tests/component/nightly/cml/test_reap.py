"""Whatever kills a night, the next reaping removes what it left, and touches nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.nightly import clean_up
from flashferry.nightly.clean_up import ReapRules, reap
from flashferry.nightly.lab_notes import new_title
from tests.component.nightly.cml.standing import NEVER_S, as_stranger, state, up, within
from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[4]
NOBODY = 2**22 + 1
"""A process id above the highest that Linux deals out (/proc/sys/kernel/pid_max, 2^22)."""


def reaped(backend, folder):
    return {one.lab.lab_id: one for one in reap(backend, ReapRules.of(folder), deadline=within())}


def test_only_labs_of_dead_nights_go(standin, backend, tmp_path):
    """Not a stranger's, even with our prefix or with our notes, nor one that runs, here or elsewhere."""
    dead = up(backend, pid=NOBODY)
    expired = up(backend, hours=-1)
    running = up(backend)
    elsewhere = up(backend, pid=NOBODY, host="another-host")
    title = new_title(datetime.now(UTC))
    without_notes = as_stranger(standin, title)
    with_notes = as_stranger(standin, "a lab of mine")
    named_alike = as_stranger(standin, "ff-nightly-of-my-own")
    done = reaped(backend, tmp_path)
    assert {lab for lab, one in done.items() if one.is_removed} == {dead.lab_id, expired.lab_id}
    assert [state(standin, lab.lab_id) for lab in (dead, expired)] == [None, None]
    stays = (running.lab_id, elsewhere.lab_id, without_notes, with_notes, named_alike)
    assert [lab for lab in stays if state(standin, lab) != "STARTED"] == []
    assert with_notes not in done


def test_one_that_cannot_be_removed_is_told_and_the_next_one_goes(standin, backend, tmp_path, monkeypatch):
    """Each has its own time."""
    monkeypatch.setattr(clean_up, "REAP_EACH_S", 60.0)
    first, second = up(backend, pid=NOBODY), up(backend, pid=NOBODY)
    standin.faults.set(forbidden={"path": f"{first.lab_id}/.*stop$"})
    done = reaped(backend, tmp_path)
    assert (done[first.lab_id].is_removed, done[second.lab_id].is_removed) == (False, True)
    assert "still there, STARTED" in done[first.lab_id].failure


def _held(fault: str, path: str, method: str) -> dict[str, object]:
    return {fault: {"path": path, "method": method, "seconds": NEVER_S, "count": 1}}


STEPS = {
    "before the import": _held("slow", "^import", "POST"),
    "after the import": _held("slow_answer", "^import", "POST"),
    "reading the topology": _held("slow", "/topology$", "GET"),
    "before the start": _held("slow", "/start$", "PUT"),
    "after the start": _held("slow_answer", "/start$", "PUT"),
    "polling": _held("slow", "/lab_element_state$", "GET"),
    "condition": _held("slow_answer", "/condition$", "PATCH"),
    "artefacts": _held("slow", "/download$", "GET"),
    "after the stop": _held("slow_answer", "/stop$", "PUT"),
    "after the wipe": _held("slow_answer", "/wipe$", "PUT"),
    "before the delete": _held("slow", "^labs/[^/]+$", "DELETE"),
    "after the delete": _held("slow_answer", "^labs/[^/]+$", "DELETE"),
}
QUICK = {"after the import"}


@pytest.mark.parametrize("step", [pytest.param(one, marks=() if one in QUICK else pytest.mark.soak) for one in STEPS])
def test_a_night_killed_in_any_step_leaves_nothing_behind_a_reaping(standin, backend, tmp_path, step):
    """With SIGKILL, while a request is under way; a stranger's lab and one of ours that runs are untouched."""
    strangers, ours = as_stranger(standin), up(backend)
    standin.faults.set(**STEPS[step])
    title = new_title(datetime.now(UTC))
    login = (standin.url, str(standin.ca_file), standin.username, standin.password)
    victim = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("victim.py")), *login, title],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        until(lambda: standin.web.held or victim.poll() is not None, "the request to be answered late")
        assert victim.poll() is None, "it ended before it could be killed"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait(timeout=PATIENCE_S)
    standin.faults.clear()
    left = [one.title for one in backend.leftovers() if one.title == title]
    reaped(backend, tmp_path)
    assert [one.title for one in backend.leftovers()] == [ours.title]
    assert (state(standin, strangers), state(standin, ours.lab_id)) == ("STARTED", "STARTED")
    assert bool(left) == (step not in {"before the import", "after the delete"})

"""A lab is removed only where it is ours by title and notes, and its night is over or dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from flashferry.nightly.backend import Leftover
from flashferry.nightly.clean_up import ReapRules
from flashferry.nightly.lab_notes import LabNotes, is_night_alive, new_title, only_one_night, read_notes
from flashferry.store.reader import lock_of, taken_lock

NOW = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
TITLE = "ff-nightly-20261122T0000-3f2a"


def notes(**changes):
    words = {"run": TITLE, "host": "runner", "pid": 4711, "expires": (NOW + timedelta(hours=1)).isoformat()}
    return LabNotes(**(words | changes))


def lab(text=None, title=TITLE):
    return Leftover(lab_id="1", title=title, notes=notes().text() if text is None else text, state="STARTED")


def why(leftover, *, is_alive=False, host="runner", now=NOW):
    return ReapRules(is_alive=lambda _: is_alive, host=host).why_removable(leftover, now=now)


def test_a_title_is_unique_short_and_known_again():
    """64 characters are allowed; two nights of one minute don't meet."""
    title = new_title(NOW)
    assert title.startswith("ff-nightly-20261122T0100-")
    assert len(title) <= 64
    assert read_notes(lab(notes(run=title).text(), title)) == notes(run=title)


def test_a_dead_night_s_lab_is_removed_and_a_living_one_s_is_not():
    assert "4711, is dead" in why(lab())
    assert why(lab(), is_alive=True) is None


def test_another_host_s_lab_is_removed_only_when_its_time_is_over():
    """Nobody here can tell whether its process lives."""
    assert why(lab(), host="elsewhere") is None
    assert "its time ended" in why(lab(), host="elsewhere", is_alive=True, now=NOW + timedelta(hours=1))


@pytest.mark.parametrize(
    "text",
    ["", "Anna's copy, please keep", "[]", "{}", notes(run="another").text(), json.dumps({"run": TITLE})]
    + [notes(expires=when).text() for when in ("never", "2026-11-20T00:00:00")],
)
def test_a_lab_with_other_notes_is_a_stranger_s(text):
    """Also where its title is one of ours, and whatever the time."""
    assert why(lab(text), now=NOW + timedelta(days=400)) is None


def test_a_night_that_holds_its_lock_is_not_over_by_the_clock(tmp_path):
    """A clock that was set, or a host that slept, ends no night that still runs here."""
    (tmp_path / "runs").mkdir()
    rules, later = ReapRules.of(tmp_path), NOW + timedelta(days=1)
    ours = lab(notes(host=rules.host).text())
    with taken_lock(tmp_path, TITLE):
        assert rules.why_removable(ours, now=later) is None
    assert "its time ended" in rules.why_removable(ours, now=later)


@pytest.mark.parametrize("title", ["ff-nightly-mine", f"{TITLE}x", f"x{TITLE}", ""])
def test_a_lab_with_another_title_is_a_stranger_s(title):
    assert why(lab(notes(run=title).text(), title), now=NOW + timedelta(days=400)) is None


def test_a_night_lives_while_its_lock_is_held(tmp_path):
    """The kernel lets go of the lock whatever ends the process; a number that another process got says nothing."""
    (tmp_path / "runs").mkdir()
    with taken_lock(tmp_path, TITLE):
        assert is_night_alive(tmp_path, notes(pid=1))
    assert lock_of(tmp_path, TITLE).exists()
    assert not is_night_alive(tmp_path, notes(pid=os.getpid()))


def test_a_night_with_another_state_folder_lives_while_its_process_does(tmp_path):
    """Its lock is not here: it must not be taken for dead."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert is_night_alive(tmp_path, notes(pid=os.getpid()))
    assert not is_night_alive(tmp_path, notes(pid=done.pid))


def test_locks_of_nights_killed_long_ago_are_swept(tmp_path):
    """Those of this week stay: they tell that their nights are dead. A night that lives keeps its own."""
    (tmp_path / "runs").mkdir()
    titles = [f"ff-nightly-2026112{number}T0000-0000" for number in range(3)]
    for title in titles[:2]:
        lock_of(tmp_path, title).touch()
    with taken_lock(tmp_path, titles[2]):
        for title in (titles[0], titles[2]):
            os.utime(lock_of(tmp_path, title), (0, 0))
        with only_one_night(tmp_path, TITLE):
            assert lock_of(tmp_path, TITLE).exists()
        assert [lock_of(tmp_path, title).exists() for title in titles] == [False, True, True]
    assert not lock_of(tmp_path, TITLE).exists()

"""Runs: what they were asked for, gone on with after a death, steered from elsewhere, and devices that begin anew."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.devices.errors import DeviceRefused
from flashferry.model.states import State
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import Asker, Origin
from flashferry.store.journal import Journal
from flashferry.store.reader import reading
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from flashferry.store.tables import run_of_job
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    image: Path
    password: str = field(repr=False)


def died(journal, *hosts, enter=None, touch=None):
    """Leave a run behind as a killed process does: its lock goes, its leases stay."""
    with Journal(journal.directory) as dying:
        run_id = dying.begin_run("stage", {"images": {"r1": "x.bin"}})
        for host in hosts:
            enter(dying, run_id, host)
            touch(dying, run_id, host)
    return run_id


def test_a_request_comes_back_without_its_secrets(journal):
    """Paths come back as text; what is not to be shown is not kept, anywhere in the file."""
    run_id = journal.begin_run("stage", {"options": Options(image=Path("/i/x.bin"), password="verysecret")})
    assert journal.request_of(run_id) == {"options": {"image": "/i/x.bin"}}
    stored = b"".join(path.read_bytes() for path in journal.directory.iterdir() if path.is_file())
    assert b"/i/x.bin" in stored
    assert b"verysecret" not in stored


def test_a_run_that_was_asked_nothing_has_an_empty_request(journal):
    """So have runs of earlier releases."""
    assert journal.request_of(journal.begin_run("probe")) == {}


@pytest.mark.parametrize("ask", ["request_of", "control", "reopen_run"])
def test_an_unknown_run_is_told_with_the_newest_known(journal, ask):
    """One sentence says which run there is."""
    with pytest.raises(ConfigInvalid, match="unknown run 'x': the journal has no run yet"):
        getattr(journal, ask)("x")
    run_id = journal.begin_run("stage")
    with pytest.raises(ConfigInvalid, match=f"unknown run 'x': the newest is {run_id}"):
        getattr(journal, ask)("x")


def test_a_dead_run_is_gone_on_with(journal):
    """It is alive again, also to others, and keeps its identifier and request; ended in order it is finished."""
    run_id = died(journal)
    journal.reopen_run(run_id)
    with Journal(journal.directory) as other:
        assert other.is_alive(run_id)
    assert journal.request_of(run_id) == {"images": {"r1": "x.bin"}}
    journal.finish_run(run_id)
    assert not journal.is_alive(run_id)


def test_a_run_that_ended_is_gone_on_with_too(journal):
    """Stopped at the end of its window, it has devices left; what was wished of it then counts no more."""
    run_id = journal.begin_run("stage")
    journal.set_control(run_id, paused=True, stopping=True, approved_wave=1)
    journal.finish_run(run_id)
    journal.reopen_run(run_id)
    assert journal.control(run_id) == ControlRequest(paused=False, stopping=False, approved_wave=1)
    assert journal._db.execute("SELECT finished_at, resumed FROM runs").fetchone() == (None, 1)


def test_a_run_that_lives_is_not_taken_over(journal):
    """Neither from another process nor from this one."""
    run_id = journal.begin_run("stage")
    for asking in (journal, Journal(journal.directory)):
        with pytest.raises(ConfigInvalid, match=f"run {run_id} is alive.*flashferry run stop"):
            asking.reopen_run(run_id)
    asking.__exit__(None, None, None)
    assert journal.is_alive(run_id)


def test_who_asks_whether_a_run_lives_does_not_keep_it_from_being_resumed(journal):
    """The instant for which a look holds the lock is waited out."""
    run_id = died(journal)
    done = threading.Event()

    def look():
        while not done.is_set():
            journal.is_alive(run_id)

    looking = [threading.Thread(target=look) for _ in range(3)]
    for thread in looking:
        thread.start()
    try:
        with Journal(journal.directory) as other:
            other.reopen_run(run_id)
    finally:
        done.set()
        for thread in looking:
            thread.join()


def test_of_two_that_resume_a_run_one_gets_it(journal):
    """Whichever came second is told that the run is alive."""
    run_id = died(journal)
    code = (
        "import sys; from pathlib import Path; from flashferry.store.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1])); sys.stdin.readline()\n"
        "try: journal.reopen_run(sys.argv[2]); print('mine', flush=True)\n"
        "except Exception as error: print(error, flush=True)\n"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(journal.directory), run_id]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    said = sorted(child.stdout.readline().strip() for child in children)
    for child in children:
        child.communicate(timeout=PATIENCE_S)
    assert said[0] == "mine"
    assert "is alive" in said[1]


def test_wishes_come_from_another_process(journal):
    """What another terminal writes is seen at the next look; what it did not name stays."""
    run_id = journal.begin_run("stage")
    assert journal.control(run_id) == ControlRequest()
    code = (
        "import sys; from pathlib import Path; from flashferry.store.journal import Journal\n"
        "with Journal(Path(sys.argv[1])) as journal: journal.set_control(sys.argv[2], paused=True, approved_wave=2)"
    )
    subprocess.run([sys.executable, "-c", code, str(journal.directory), run_id], check=True)
    assert journal.control(run_id) == ControlRequest(paused=True, approved_wave=2)
    journal.set_control(run_id, paused=False)
    assert journal.control(run_id) == ControlRequest(paused=False, approved_wave=2)


def test_an_approved_wave_stays_approved(journal):
    """Approving an earlier one again takes nothing back."""
    run_id = journal.begin_run("stage")
    journal.set_control(run_id, approved_wave=3)
    journal.set_control(run_id, approved_wave=1)
    assert journal.control(run_id).approved_wave == 3


def test_the_wave_that_waits_is_told_until_the_run_ends(journal):
    """A run that ended waits for nobody."""
    run_id = journal.begin_run("stage")
    journal.set_waiting_wave(run_id, 1)
    assert journal.control(run_id).waiting_wave == 1
    journal.finish_run(run_id)
    assert journal.control(run_id).waiting_wave is None


def test_a_device_begins_anew_and_its_past_is_kept(journal, enter):
    """State and attempt say so; the record of before stands among the attempts, in their order."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1", "r2")
    for number in (1, 2):
        journal.move(run_id, "r1", State.FAILED)
        journal.record(run_id, "r1", {"number": number})
        journal.again(run_id, "r1")
    assert journal._db.execute("SELECT host, state, attempt, record FROM devices").fetchall() == [
        ("r1", "planned", 3, None),
        ("r2", "planned", 1, None),
    ]
    kept = journal._db.execute("SELECT host, attempt, state, record FROM attempts ORDER BY attempt").fetchall()
    assert [(*row[:3], json.loads(row[3])) for row in kept] == [
        ("r1", 1, "failed", {"number": 1}),
        ("r1", 2, "failed", {"number": 2}),
    ]
    journal.move(run_id, "r1", State.CHECKED)


def test_a_device_in_hand_does_not_begin_anew(journal, enter, touch):
    """What it was before would be forgotten: recovery comes first, and then it may."""
    run_id = died(journal, "r1", enter=enter, touch=touch)
    journal.reopen_run(run_id)
    with pytest.raises(DeviceRefused, match="flashferry recover"):
        journal.again(run_id, "r1")
    (left,) = journal.leased_devices()
    assert left.changes
    journal.recovered(run_id, "r1", {"restored": "restored"})
    journal.again(run_id, "r1")
    touch(journal, run_id, "r1")


def test_a_device_that_nobody_entered_is_our_own_fault(journal):
    """Named with the run."""
    run_id = journal.begin_run("stage")
    with pytest.raises(ValueError, match=f"r9: run {run_id} has no such device"):
        journal.again(run_id, "r9")


def test_it_is_kept_who_wanted_what_of_a_run(journal):
    """Each wish with its reason, in its order; what a run looks at follows from them, and a resume forgets none."""
    run_id = journal.begin_run("stage")
    anna = Asker(actor="anna", via="session", reason="core link is down")
    journal.set_control(run_id, paused=True, asker=anna)
    journal.set_control(run_id, paused=False, approved_wave=2, asker=Asker(actor="ben", via="token"))
    journal.set_control(run_id, stopping=True)
    journal.set_waiting_wave(run_id, 3)
    journal.finish_run(run_id)
    journal.reopen_run(run_id)
    wishes = read_run(journal.directory, run_id).steer_requests
    assert [(one.what, one.wave, one.actor, one.via, one.reason) for one in wishes] == [
        ("pause", None, "anna", "session", "core link is down"),
        ("continue", None, "ben", "token", ""),
        ("approve", 2, "ben", "token", ""),
        ("stop", None, "", "", ""),
    ]
    control = journal.control(run_id)
    assert (control.paused, control.stopping, control.approved_wave) == (False, False, 2)
    assert journal.damaged_rows() == 0


def test_a_secret_in_a_reason_is_masked(journal):
    """People paste anything."""
    keep_secret("verysecretindeed")
    run_id = journal.begin_run("stage")
    journal.set_control(run_id, paused=True, asker=Asker(reason="its password is verysecretindeed"))
    (wish,) = read_run(journal.directory, run_id).steer_requests
    assert "verysecretindeed" not in wish.reason


def test_a_run_says_from_where_it_comes(tmp_path):
    """Job, events, actor and digest from its first row on; who goes on with it is another job, and began it not."""
    with Journal(tmp_path, Origin(job="j1", events="/e/1", actor="anna")) as journal:
        run_id = journal.begin_run("stage", {"plan": {"path": "/p", "digest": "ab"}})
        found = read_run(tmp_path, run_id)
        assert (found.job, found.events, found.actor, found.plan_digest) == ("j1", "/e/1", "anna", "ab")
        journal.finish_run(run_id)
    with Journal(tmp_path, Origin(job="j2", events="/e/2", actor="system")) as journal:
        journal.reopen_run(run_id)
        found = read_run(tmp_path, run_id)
        assert (found.job, found.events, found.actor, found.plan_digest) == ("j2", "/e/2", "anna", "ab")
        (status,) = read_status(tmp_path).runs
        assert (status.job, status.actor) == ("j2", "anna")
    with reading(tmp_path) as database:
        assert run_of_job(database, "j2") == run_id
        assert run_of_job(database, "j9") is None

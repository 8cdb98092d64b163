"""Jobs in the tables: each step is taken once, whoever asks how often."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.jobs import (
    Job,
    JobKind,
    JobState,
    add_job,
    cancel_job,
    claim_job,
    end_job,
    job_of,
    jobs_after,
    jobs_in,
    latest_jobs,
    set_run,
    set_running,
    set_sentence,
)

AT = "2026-11-23T12:00:00.000Z"


def job(job_id="j1", **more):
    given = {"kind": JobKind.CHECK, "words": ("check",), "requested_by": "system", "via": "system", "created_at": AT}
    return Job(job_id=job_id, **given | more)


@pytest.fixture
def database(tmp_path):
    return ServiceDatabase(tmp_path)


def test_a_job_is_read_as_it_was_written(database):
    """Lists too."""
    one = job(words=("check", "--host=ä b"), sites=("AMS", "LIM"), reason="why", digest="ab", run_id="r")
    with database.writing() as tables:
        add_job(tables, one)
        assert job_of(tables, "j1") == one
        assert job_of(tables, "j2") is None


def test_of_forty_that_claim_a_job_one_gets_it(database):
    """Two supervisors never start it twice."""
    with database.writing() as tables:
        add_job(tables, job())
    got, gate = [], threading.Barrier(40)

    def claim():
        gate.wait()
        with database.writing() as tables:
            got.append(claim_job(tables, "j1", at=AT, unit=None))

    threads = [threading.Thread(target=claim) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count(True) == 1


def test_a_job_goes_forward_only(database):
    """Queued, starting, running, ended: no step can be taken from anywhere else, and its end is told once."""
    with database.writing() as tables:
        add_job(tables, job())
        assert not set_running(tables, "j1", pid=1, process_started="b:1")
        assert claim_job(tables, "j1", at=AT, unit=None)
        assert set_running(tables, "j1", pid=1, process_started="b:1")
        assert not claim_job(tables, "j1", at=AT, unit=None)
        assert set_run(tables, "j1", "r1")
        assert not set_run(tables, "j1", "r2")
        assert end_job(tables, "j1", at=AT, state=JobState.ENDED, exit_code=0, sentence="fine")
        assert not end_job(tables, "j1", at=AT, state=JobState.DEAD, exit_code=None, sentence="no")
        found = job_of(tables, "j1")
    assert found is not None
    assert (found.state, found.run_id, found.exit_code, found.sentence) == (JobState.ENDED, "r1", 0, "fine")


def test_a_try_after_a_death_is_entered_once(database):
    """Two that see the same dead run ask for one recovery."""
    with database.writing() as tables:
        add_job(tables, job(state=JobState.DEAD))
        add_job(tables, job("j2", kind=JobKind.RECOVER, parent="j1", attempt=1))
    with pytest.raises(sqlite3.IntegrityError), database.writing() as tables:
        add_job(tables, job("j3", kind=JobKind.RECOVER, parent="j1", attempt=1))
    with database.writing() as tables:
        add_job(tables, job("j4", kind=JobKind.RECOVER, parent="j1", attempt=2))
        assert [one.job_id for one in jobs_after(tables, "j1")] == ["j2", "j4"]


def test_lists_have_their_order(database):
    """The queue's is the order of asking; people read the newest first, in pages."""
    with database.writing() as tables:
        for number in range(4):
            add_job(tables, job(f"j{number}", created_at=f"2026-11-23T12:00:0{number}.000Z"))
        assert claim_job(tables, "j0", at=AT, unit=None)
        assert [one.job_id for one in jobs_in(tables, {JobState.QUEUED})] == ["j1", "j2", "j3"]
        assert [one.job_id for one in latest_jobs(tables, 2)] == ["j3", "j2"]
        assert [one.job_id for one in latest_jobs(tables, 2, before="2026-11-23T12:00:02.000Z")] == ["j1", "j0"]


def test_what_a_job_waits_for_is_news_once(database):
    """So that it is not written each second."""
    with database.writing() as tables:
        add_job(tables, job())
        assert set_sentence(tables, "j1", "waits", state=JobState.QUEUED)
        assert not set_sentence(tables, "j1", "waits", state=JobState.QUEUED)
        assert not set_sentence(tables, "j1", "other", state=JobState.STARTING)


def test_of_those_who_begin_and_who_cancel_a_job_one_finds_it(database):
    """Forty at once, half of each: one statement has it, whichever."""
    with database.writing() as tables:
        add_job(tables, job())
    line, had = threading.Barrier(40), []

    def take(number):
        line.wait()
        with database.writing() as tables:
            if number % 2:
                is_ours = claim_job(tables, "j1", at=AT, unit=None)
            else:
                is_ours = cancel_job(tables, "j1", at=AT, sentence="cancelled")
        if is_ours:
            had.append(JobState.STARTING if number % 2 else JobState.ENDED)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as tables:
        assert [job_of(tables, "j1").state] == had

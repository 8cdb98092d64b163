"""Folders of jobs are removed a month after their end, and never while anybody may need them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.service.api import jobs
from flashferry.service.jobs.tidying import tidy
from flashferry.store.journal import Journal
from flashferry.store.service.audit import entries
from flashferry.store.service.jobs import Job, JobKind, JobState, add_job, claim_job, end_job, job_of
from tests.unit.service.plans.calling import client

from .conftest import AT

OLD = timedelta(days=31)


@pytest.fixture
def made(service):
    """Enter a job with its folder; it has ended unless it is told otherwise."""

    def make(job_id, *, run_id=None, is_over=True):
        folder = JobFolder.of(service.state, job_id)
        folder.make()
        folder.write(folder.result, "{}")
        with service.database.writing() as database:
            told = {"words": ("check",), "requested_by": "anna", "via": "session", "created_at": AT, "sites": ("AMS",)}
            add_job(database, Job(job_id=job_id, kind=JobKind.STAGE, run_id=run_id, **told))
            claim_job(database, job_id, at=AT, unit=None)
            if is_over:
                end_job(database, job_id, at=AT, state=JobState.ENDED, exit_code=0, sentence="")
        return folder.path

    return make


def run_of(service, *, touched):
    """Return a dead run, with a device in its hands or restored."""
    with Journal(service.state) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios", image="x.bin")
        if touched:
            journal._write("UPDATE devices SET touched = 1, identity = 'r1'", ())
    return run_id


def test_a_folder_goes_when_its_time_is_over(service, made, clock):
    """Not a day earlier; the job's row stays, and the audit has what was removed."""
    path = made("j1")
    clock.at += timedelta(days=29)
    tidy(service)
    assert path.exists()
    clock.at += timedelta(days=2)
    tidy(service)
    tidy(service)
    assert not path.exists()
    with service.database.reading() as database:
        assert job_of(database, "j1").exit_code == 0
        (entry,) = [one.entry for one in entries(database)]
    assert (entry.action, "j1" in entry.after) == ("jobs.tidied", True)


def test_what_somebody_may_need_stays(service, made, clock):
    """A job that is open, one whose run left a device tuned, one that another job has in hand; and what is no job's."""
    held, free = run_of(service, touched=True), "20261123T000000-free"
    kept = [made("j1", is_over=False), made("j2", run_id=held), made("j3", run_id=free)]
    made("j4", run_id=free, is_over=False)
    stranger = service.state / "jobs" / "mine"
    stranger.mkdir()
    clock.at += OLD
    tidy(service)
    assert all(path.exists() for path in (*kept, stranger))
    with Journal(service.state) as journal:
        journal._write("UPDATE devices SET touched = 0", ())
    with service.database.writing() as database:
        end_job(database, "j4", at=AT, state=JobState.ENDED, exit_code=0, sentence="")
    tidy(service)
    assert [path.exists() for path in kept] == [True, False, False]


def test_nothing_goes_while_the_journal_cannot_be_read(service, made, clock):
    """Nobody knows then what was restored."""
    path = made("j1")
    (service.state / "journal.sqlite3").write_bytes(b"damaged" * 1000)
    clock.at += OLD
    with pytest.raises(ConfigInvalid):
        tidy(service)
    assert path.exists()


def test_a_link_in_a_folder_leads_nowhere(service, made, clock, tmp_path):
    """Neither what it leads to is removed, nor what a link in a folder's place leads to."""
    path, outside = made("j1"), tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (path / "link").symlink_to(outside)
    made("j2").rename(tmp_path / "moved")
    (service.state / "jobs" / "j2").symlink_to(outside)
    clock.at += OLD
    tidy(service)
    assert not path.exists()
    assert (outside / "file").read_text() == "kept"


def test_what_was_removed_is_told_as_gone(service, made, clock, anna):
    """410 and a sentence; the job tells the rest."""
    call = client(service, anna, jobs.router)
    made("j1")
    assert call.get("/api/v1/jobs/j1/result").status_code == 200
    clock.at += OLD
    tidy(service)
    answer = call.get("/api/v1/jobs/j1/result")
    assert (answer.status_code, "30 days after its end" in answer.json()["detail"]) == (410, True)
    found = call.get("/api/v1/jobs/j1").json()
    assert (found["exit_code"], found["result"]) == (0, None)

"""Asking for jobs: who may, what for, and what stands in the tables afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.jobs.create import MOST_OF_A_PERSON, request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.principal import SYSTEM
from flashferry.store.service.audit import entries
from flashferry.store.service.jobs import JobKind, JobState, end_job, job_of, latest_jobs

from .conftest import AT, DIGEST, OTHERS


def ask(service, actor, **wish):
    with service.database.writing() as database:
        return request_job(service, database, actor, JobSpec(**wish))


def test_a_job_and_its_line_in_the_audit_are_written_together(service, anna):
    """What was asked for, by whom and why, is in both."""
    job = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST, reason="window tonight")
    with service.database.reading() as database:
        assert job_of(database, job.job_id) == job
        (entry,) = [one.entry for one in entries(database)]
    assert (job.state, job.sites, job.requested_by, job.created_at) == (JobState.QUEUED, ("AMS",), "anna", AT)
    assert (entry.action, entry.object, entry.actor, entry.address, entry.reason) == (
        "run.start",
        f"job:{job.job_id}",
        "anna",
        "192.0.2.9",
        "window tonight",
    )
    assert DIGEST in entry.after


def test_what_is_undone_leaves_no_job_and_no_line(service, anna):
    """One transaction: both or neither."""

    def ask_and_fail():
        with service.database.writing() as database:
            request_job(service, database, anna, JobSpec(kind=JobKind.STAGE, digest=DIGEST))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        ask_and_fail()
    with service.database.reading() as database:
        assert latest_jobs(database, 9) == []
        assert list(entries(database)) == []


@pytest.mark.parametrize("state", ["draft", "denied", "withdrawn"])
def test_only_an_approved_plan_is_carried_out(service, anna, state):
    """As it stands in the very transaction that enters the job."""
    with service.database.writing() as database:
        database.execute("UPDATE plans SET state = ?, withdrawn_by = 'anna' WHERE digest = ?", (state, DIGEST))
        with pytest.raises(ServiceError) as told:
            request_job(service, database, anna, JobSpec(kind=JobKind.STAGE, digest=DIGEST))
    assert status_of(told.value) == 409
    assert state in told.value.sentence


def test_a_plan_whose_end_is_past_is_not_carried_out(service, anna, clock):
    """Its approval was for that window."""
    with service.database.writing() as database:
        database.execute("UPDATE plans SET ends_at = '2026-11-23T13:00:00.000Z'")
    clock.at += timedelta(hours=1)
    with pytest.raises(ServiceError) as told:
        ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    assert status_of(told.value) == 409
    assert "passed" in told.value.sentence


def test_a_plan_can_be_rehearsed_before_anybody_approved_it(service, anna):
    """A dry run changes nothing."""
    with service.database.writing() as database:
        database.execute(
            "UPDATE plans SET state = 'draft', decided_by = NULL, decided_at = NULL WHERE digest = ?", (DIGEST,)
        )
    job = ask(service, anna, kind=JobKind.DRY_RUN, digest=DIGEST)
    assert job.words[:2] == ("stage", "--dry-run")


@pytest.mark.parametrize(("digest", "status"), [(OTHERS, 403), ("ef" * 32, 404)])
def test_who_does_not_operate_a_site_starts_nothing_there(service, anna, digest, status):
    """Of what he may look at he is told so; of what is not there, that it is not."""
    with pytest.raises(ServiceError) as told:
        ask(service, anna, kind=JobKind.STAGE, digest=digest)
    assert status_of(told.value) == status


def test_a_plan_that_one_may_not_see_is_none(service, chief, anna):
    """Nobody learns by asking what other sites plan."""
    blind = type(anna)(name="anna", via=anna.via, grants=frozenset())
    with pytest.raises(ServiceError) as told:
        ask(service, blind, kind=JobKind.STAGE, digest=DIGEST)
    assert status_of(told.value) == 404
    assert ask(service, chief, kind=JobKind.STAGE, digest=DIGEST).sites == ("AMS",)


def test_a_look_at_all_sites_takes_a_role_everywhere(service, anna, chief):
    """One without sites may touch any device."""
    with pytest.raises(ServiceError) as told:
        ask(service, anna, kind=JobKind.CHECK)
    assert status_of(told.value) == 403
    assert ask(service, chief, kind=JobKind.CHECK).sites == ()


def test_a_plan_has_one_open_job(service, anna):
    """The second is refused and told of the first; once that ended, another may be asked for."""
    first = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    with pytest.raises(ServiceError) as told:
        ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    assert (status_of(told.value), told.value.more) == (409, {"job": first.job_id})
    with service.database.writing() as database:
        assert end_job(database, first.job_id, at=AT, state=JobState.ENDED, exit_code=0, sentence="")
    assert ask(service, anna, kind=JobKind.STAGE, digest=DIGEST).job_id != first.job_id


def test_a_run_has_one_open_job_of_its_cleaning_up(service, anna):
    """Two recoveries of one run, or a resume beside its recovery, would be in each other's way."""
    ask(service, anna, kind=JobKind.RECOVER, run_id="r1", sites=("AMS",))
    with pytest.raises(ServiceError, match="the same run"):
        ask(service, anna, kind=JobKind.RESUME, run_id="r1", sites=("AMS",))


def test_the_service_does_what_it_was_told_without_a_role(service):
    """Recoveries of dead runs are its own."""
    job = ask(service, SYSTEM, kind=JobKind.RECOVER, run_id="r1")
    assert (job.requested_by, job.via) == ("system", "system")


def test_a_wish_that_makes_no_command_line_is_told_with_a_hint(service, anna):
    """As any other wrong input."""
    with pytest.raises(ServiceError) as told:
        ask(service, anna, kind=JobKind.CHECK, image="../../etc/passwd", sites=("AMS",))
    assert status_of(told.value) == 422
    assert told.value.hint


def test_a_person_whose_queue_is_full_is_refused_alone(service, anna, chief):
    """A 429 with a sentence; a run of theirs, another person and the service's own schedules are not held to it."""
    for _ in range(MOST_OF_A_PERSON):
        ask(service, anna, kind=JobKind.PROBE, sites=("AMS",))
    with pytest.raises(ServiceError) as refused:
        ask(service, anna, kind=JobKind.PROBE, sites=("AMS",))
    assert status_of(refused.value) == 429
    assert refused.value.sentence == "probe: expected fewer than 20 queued jobs of anna, found 20"
    assert "cancel" in refused.value.hint
    for actor, wish in (
        (anna, {"kind": JobKind.STAGE, "digest": DIGEST}),
        (chief, {"kind": JobKind.PROBE, "sites": ("LIM",)}),
        (SYSTEM, {"kind": JobKind.RECOVER, "run_id": "r1"}),
    ):
        assert ask(service, actor, **wish).state is JobState.QUEUED

"""A job that nobody has begun yet is cancelled: by an operator at its sites, with a reason, in the audit.

Whether it was cancelled or begun is decided by one statement: whichever of the two finds it in the queue takes it out.
"""

from __future__ import annotations

from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, ServiceError
from flashferry.service.auditing import note, note_refusal
from flashferry.service.jobs.submit import seen_job
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.offering import told_sites
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobState, cancel_job, job_of

_ACTION = "job.cancel"


def cancel(service: Service, actor: Actor, job_id: str, reason: str) -> Job:
    """Take a job out of the queue for good, and return it.

    Args:
        service: The service.
        actor: Who wants it: an operator at all sites that the job would touch.
        job_id: The job.
        reason: Why; it may not be empty.

    Raises:
        ServiceError: 404 where he may not see it, 403 where he does not operate its sites, 422 without a reason, 409 where
            it has begun, or has come to its end.
    """
    with service.database.reading() as database:
        job = seen_job(database, actor, job_id)
    try:
        _check_operates(actor, job)
        if not (reason := checked_comment(reason)):
            raise InvalidRequest(
                "reason: expected a few words, found none", hint="Say why: it stands in the audit and at the job"
            )
        with service.database.writing() as database:
            sentence = f"cancelled by {actor.name}: {reason}"
            is_ours = cancel_job(database, job_id, at=moment(service.now()), sentence=sentence)
            now = job_of(database, job_id) or job
            if not is_ours:
                raise _begun(now)
            note(
                *(service, database, actor, _ACTION, f"job:{job_id}"),
                reason=reason,
                before={
                    "kind": job.kind.value,
                    "state": JobState.QUEUED.value,
                    "digest": job.digest,
                    "run": job.run_id,
                },
                after={"state": now.state.value},
            )
    except ServiceError as problem:
        note_refusal(service, actor, _ACTION, f"job:{job_id}", problem.sentence)
        raise
    return now


def may_cancel(actor: Actor, job: Job) -> bool:
    """Return whether somebody may cancel a job as it stands; whether it began meanwhile is looked at when he does."""
    return job.state is JobState.QUEUED and actor.may({Role.OPERATOR}, job.sites)


def _check_operates(actor: Actor, job: Job) -> None:
    if not actor.may({Role.OPERATOR}, job.sites):
        where = told_sites(job.sites) if job.sites else "all sites"
        raise Forbidden(f"job: expected an operator at {where} to cancel it", hint="Ask a colleague with that role")


def _begun(job: Job) -> ServiceError:
    if job.is_open:
        told, hint = f"is {job.state}: expected one that is queued", "Stop its run where it has one"
    else:
        told, hint = "has come to its end", "Look at what came of it: GET /api/v1/jobs/ID"
    return Conflict(f"job {job.job_id} {told}", hint=hint)

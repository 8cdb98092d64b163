"""A queued job cancelled by an operator at its sites. One statement decides whether it was cancelled or started."""

from __future__ import annotations

from flashferry.service.auditing import note, note_refusal
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, ServiceError
from flashferry.service.jobs.submit import seen_job
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.offering import sites_text
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobState, cancel_job, job_of

_ACTION = "job.cancel"


def cancel(service: Service, actor: Actor, job_id: str, reason: str) -> Job:
    """Cancel a queued job and return it; a reason is required.

    Raises:
        NotFound, Forbidden: The caller may not see it, or does not operate its sites.
        InvalidRequest: No reason.
        Conflict: It started, or ended.
    """
    with service.database.reading() as database:
        job = seen_job(database, actor, job_id)
    try:
        _check_operates(actor, job)
        if not (reason := checked_comment(reason)):
            raise InvalidRequest(
                "reason: expected a few words, found none",
                hint="Give a reason; it is in the audit and shown with the job",
            )
        with service.database.writing() as database:
            sentence = f"cancelled by {actor.name}: {reason}"
            is_ours = cancel_job(database, job_id, at=moment(service.now()), sentence=sentence)
            now = job_of(database, job_id) or job
            if not is_ours:
                raise _started(now)
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
    """Return whether a caller may cancel a job in its present state."""
    return job.state is JobState.QUEUED and actor.may({Role.OPERATOR}, job.sites)


def _check_operates(actor: Actor, job: Job) -> None:
    if not actor.may({Role.OPERATOR}, job.sites):
        where = sites_text(job.sites) if job.sites else "all sites"
        raise Forbidden(f"job: expected an operator at {where} to cancel it", hint="Ask a colleague with that role")


def _started(job: Job) -> ServiceError:
    if job.is_open:
        details, hint = f"is {job.state}: expected one that is queued", "Stop its run where it has one"
    else:
        details, hint = "has ended", "See its result"
    return Conflict(f"job {job.job_id} {details}", hint=hint)

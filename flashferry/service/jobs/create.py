"""Insertion of jobs into the queue: who may request them, and when they can still start."""

from __future__ import annotations

import secrets
import sqlite3
from datetime import datetime

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.core.redaction import masked
from flashferry.model.fleet_plan import PlanWindow, WindowState
from flashferry.reports import words
from flashferry.service.errors import (
    Conflict,
    Forbidden,
    NotFound,
    TooMany,
    invalid_from,
    listed,
)
from flashferry.service.jobs.job_spec import JobSpec, command_line
from flashferry.service.jobs.queue_order import why_not_queued
from flashferry.service.plans.eligibility import database_obstacle, resume_obstacle
from flashferry.service.principal import ANY_ROLE, Actor, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobKind, JobState, add_job, jobs_in, jobs_of_plan, jobs_of_run
from flashferry.store.service.plans import StoredPlan, plan_of, window_of

_ACTIONS = {
    JobKind.STAGE: "run.start",
    JobKind.RESUME: "run.resume",
    JobKind.RECOVER: "run.recover",
    JobKind.PLAN: "plan.make",
    JobKind.NIGHTLY: "nightly.start",
}

_OF_ONE_RUN = frozenset({JobKind.RESUME, JobKind.RECOVER})


def action_of(kind: JobKind) -> str:
    """Return the audit action of requesting a job."""
    return _ACTIONS.get(kind, f"{kind.value}.start")


def request_job(service: Service, database: sqlite3.Connection, actor: Actor, spec: JobSpec) -> Job:
    """Insert a job and return it; it starts within a second or two after the commit.

    `actor` is an operator at all sites of the job, or the service itself.

    Raises:
        ServiceError: The caller is not allowed, the plan is unknown or not approved, a job for it is open, or the
            user has too many queued jobs. The caller rolls back and records the refusal (`note_refusal`).
    """
    plan = _plan(service, database, actor, spec)
    sites = plan.sites if plan is not None else spec.sites
    _check_actor(actor, spec, sites)
    _check_free(database, spec)
    _check_share(database, actor, spec)
    not_before = spec.not_before
    if plan is not None and spec.kind is JobKind.STAGE:
        not_before = _not_before(window_of(database, plan), service.now(), not_before)
    job_id = f"j{service.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    try:
        line = command_line(spec, service.settings.runs, service.state, JobFolder.of(service.state, job_id))
    except ConfigInvalid as error:
        raise invalid_from(error) from None
    job = Job(
        job_id=job_id,
        kind=spec.kind,
        digest=spec.digest,
        run_id=spec.run_id,
        parent=spec.parent,
        attempt=spec.attempt,
        words=line,
        rules=spec.rules,
        sites=sites,
        requested_by=actor.name,
        via=actor.via.value,
        reason=masked(spec.reason),
        not_before=None if not_before is None else moment(not_before),
        until=None if spec.until is None else moment(spec.until),
        created_at=service.moment(),
    )
    add_job(database, job)
    details = {
        "kind": job.kind.value,
        "digest": job.digest,
        "run": job.run_id,
        "sites": list(sites),
        "words": list(line),
    }
    details |= {name: at for name, at in (("not_before", job.not_before), ("until", job.until)) if at is not None}
    service.note(database, actor, action_of(job.kind), f"job:{job_id}", reason=job.reason, after=details)
    return job


def _not_before(window: PlanWindow, now: datetime, asked: datetime | None) -> datetime | None:
    """Return the earliest start of a run: not before its plan's window opens."""
    if window.state(now) is not WindowState.BEFORE or window.opens_at is None:
        return asked
    return window.opens_at if asked is None else max(asked, window.opens_at)


def job_obstacle(service: Service, database: sqlite3.Connection, job: Job) -> str:
    """Return why a waiting job can no longer start, in the caller's transaction; empty if it can."""
    plan = plan_of(database, job.digest) if job.digest is not None else None
    if plan is not None and (why := _job_obstacle(service, database, job.kind, plan)):
        return why
    if job.until is not None and job.until <= service.moment():
        return f"it waited too long: it was to end by {words.moment(job.until)}"
    return ""


def _job_obstacle(service: Service, database: sqlite3.Connection, kind: JobKind, plan: StoredPlan) -> str:
    if kind is JobKind.STAGE:
        return database_obstacle(database, plan, service.now())
    return resume_obstacle(plan, service.now()) if kind is JobKind.RESUME else ""


def _plan(service: Service, database: sqlite3.Connection, actor: Actor, spec: JobSpec) -> StoredPlan | None:
    if spec.digest is None:
        return None
    plan = plan_of(database, spec.digest)
    if plan is None or not (actor.via is Via.SYSTEM or actor.may(ANY_ROLE, plan.sites)):
        raise NotFound(f"no plan {spec.digest[:12]}… is known here", hint=listed("plans"))
    if why := _job_obstacle(service, database, spec.kind, plan):
        hint = "Have it approved, or create a new plan"
        raise Conflict(f"plan {plan.digest[:12]}… cannot start: {why}", hint=hint)
    return plan


def _check_actor(actor: Actor, spec: JobSpec, sites: tuple[str, ...]) -> None:
    if actor.via is Via.SYSTEM or actor.may({Role.OPERATOR}, sites):
        return
    where = ", ".join(sites) if sites else "all sites"
    raise Forbidden(
        f"{spec.kind}: expected the role operator for {where}; {actor.name} does not have it for all of them",
        hint="Name only sites that you operate, or ask an administrator for the role",
    )


def _check_free(database: sqlite3.Connection, spec: JobSpec) -> None:
    """Refuse a second job for a plan or a run while another is open."""
    found: list[Job] = []
    if spec.kind is JobKind.STAGE and spec.digest is not None:
        found = [job for job in jobs_of_plan(database, spec.digest) if job.kind in (JobKind.STAGE, JobKind.RESUME)]
    elif spec.kind in _OF_ONE_RUN and spec.run_id is not None:
        found = jobs_of_run(database, spec.run_id)
    if other := next((job for job in found if job.is_open), None):
        raise Conflict(
            f"job {other.job_id} ({other.kind}) is {other.state} for the same "
            f"{'plan' if spec.kind is JobKind.STAGE else 'run'}",
            hint="Wait for its end, or stop its run",
            job=other.job_id,
        )


def _check_share(database: sqlite3.Connection, actor: Actor, spec: JobSpec) -> None:
    """Refuse another job of a user who has too many queued; jobs of the service and of schedules are exempt."""
    if actor.via is Via.SYSTEM:
        return
    if why := why_not_queued(spec.kind, jobs_in(database, {JobState.QUEUED}), actor.name):
        hint = "Ask again when some of them have ended, or cancel those that are not needed any more"
        raise TooMany(why, hint=hint)

"""Asking for a job: its row, and its line in the audit, in the transaction of whoever asks. Nothing is started here.

What a run needs to be allowed is looked at in that same transaction: an approval that was taken back a moment before
is none.
"""

from __future__ import annotations

import secrets
import sqlite3
from datetime import datetime

from flashferry.service.errors import Conflict, Forbidden, NotFound, TooMany, invalid_from, listed
from flashferry.core.apart.folder import JobFolder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import masked
from flashferry.model.plan_window import PlanWindow, WindowState
from flashferry.reports import words
from flashferry.service.auditing import note
from flashferry.service.jobs.job_spec import JobWish, words_of
from flashferry.service.jobs.queue import why_not_queued
from flashferry.service.plans.eligibility import why_not_begun, why_not_gone_on_with
from flashferry.service.principal import LOOKS, Actor, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import (
    Job,
    JobKind,
    JobState,
    add_job,
    jobs_in,
    jobs_of_plan,
    jobs_of_run,
)
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
    """Return what asking for a job of a kind is called in the audit."""
    return _ACTIONS.get(kind, f"{kind.value}.start")


def request_job(service: Service, database: sqlite3.Connection, actor: Actor, wish: JobWish) -> Job:
    """Enter a job and return it; it is begun within a second or two after the transaction is on disk.

    Args:
        service: The service.
        database: The connection of the caller's transaction, which is to be `service.database.writing()`.
        actor: Who asks; he needs the role of an operator for all sites that the job touches. The service itself does
            what it was told to do beforehand.
        wish: What is wanted.

    Raises:
        ServiceError: He may not, the plan is unknown or not approved, something for it is under way already, or too many
            jobs of his are queued (429). The transaction should be undone then; that it was refused goes into the audit
            by `note_refusal`, behind it.
    """
    plan = _plan(service, database, actor, wish)
    sites = plan.sites if plan is not None else wish.sites
    _check_actor(actor, wish, sites)
    _check_free(database, wish)
    _check_share(database, actor, wish)
    not_before = wish.not_before
    if plan is not None and wish.kind is JobKind.STAGE:
        not_before = _not_before(window_of(database, plan), service.now(), not_before)
    job_id = f"j{service.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    try:
        line = words_of(wish, service.settings.runs, service.state, JobFolder.of(service.state, job_id))
    except ConfigInvalid as error:
        raise invalid_from(error) from None
    job = Job(
        job_id=job_id,
        kind=wish.kind,
        digest=wish.digest,
        run_id=wish.run_id,
        parent=wish.parent,
        attempt=wish.attempt,
        words=line,
        rules=wish.rules,
        sites=sites,
        requested_by=actor.name,
        via=actor.via.value,
        reason=masked(wish.reason),
        not_before=None if not_before is None else moment(not_before),
        until=None if wish.until is None else moment(wish.until),
        created_at=moment(service.now()),
    )
    add_job(database, job)
    told = {"kind": job.kind.value, "digest": job.digest, "run": job.run_id, "sites": list(sites), "words": list(line)}
    told |= {name: at for name, at in (("not_before", job.not_before), ("until", job.until)) if at is not None}
    note(service, database, actor, action_of(job.kind), f"job:{job_id}", reason=job.reason, after=told)
    return job


def _not_before(window: PlanWindow, now: datetime, asked: datetime | None) -> datetime | None:
    """Return when a run may start at the earliest: not before its plan's window opens."""
    if window.state(now) is not WindowState.BEFORE or window.opens_at is None:
        return asked
    return window.opens_at if asked is None else max(asked, window.opens_at)


def why_not_now(service: Service, database: sqlite3.Connection, job: Job) -> str:
    """Return why a job that waits may not begin any more, as it stands in this transaction; empty where it may."""
    plan = plan_of(database, job.digest) if job.digest is not None else None
    if plan is not None and (why := _why_not_now(service, database, job.kind, plan)):
        return why
    if job.until is not None and job.until <= moment(service.now()):
        return f"its time has passed while it waited: it was to end by {words.moment(job.until)}"
    return ""


def _why_not_now(service: Service, database: sqlite3.Connection, kind: JobKind, plan: StoredPlan) -> str:
    if kind is JobKind.STAGE:
        return why_not_begun(database, plan, service.now())
    return why_not_gone_on_with(plan, service.now()) if kind is JobKind.RESUME else ""


def _plan(service: Service, database: sqlite3.Connection, actor: Actor, wish: JobWish) -> StoredPlan | None:
    if wish.digest is None:
        return None
    plan = plan_of(database, wish.digest)
    if plan is None or not (actor.via is Via.SYSTEM or actor.may(LOOKS, plan.sites)):
        raise NotFound(f"no plan {wish.digest[:12]}… is known here", hint=listed("plans"))
    if why := _why_not_now(service, database, wish.kind, plan):
        hint = "Have it approved, or make it anew and have that approved"
        raise Conflict(f"plan {plan.digest[:12]}… cannot be carried out: {why}", hint=hint)
    return plan


def _check_actor(actor: Actor, wish: JobWish, sites: tuple[str, ...]) -> None:
    if actor.via is Via.SYSTEM or actor.may({Role.OPERATOR}, sites):
        return
    where = ", ".join(sites) if sites else "all sites"
    raise Forbidden(
        f"{wish.kind}: expected the role operator for {where}; {actor.name} has it not for all of that",
        hint="Name only sites that you operate, or ask an administrator for the role",
    )


def _check_free(database: sqlite3.Connection, wish: JobWish) -> None:
    """Refuse a second job for a plan, or for a run, while one is open."""
    found: list[Job] = []
    if wish.kind is JobKind.STAGE and wish.digest is not None:
        found = [job for job in jobs_of_plan(database, wish.digest) if job.kind in (JobKind.STAGE, JobKind.RESUME)]
    elif wish.kind in _OF_ONE_RUN and wish.run_id is not None:
        found = jobs_of_run(database, wish.run_id)
    if other := next((job for job in found if job.is_open), None):
        raise Conflict(
            f"job {other.job_id} ({other.kind}) is {other.state} for the same "
            f"{'plan' if wish.kind is JobKind.STAGE else 'run'}",
            hint="Wait for its end, or stop its run",
            job=other.job_id,
        )


def _check_share(database: sqlite3.Connection, actor: Actor, wish: JobWish) -> None:
    """Refuse another job of a person who has many queued; the service and its schedules are not held to that."""
    if actor.via is Via.SYSTEM:
        return
    if why := why_not_queued(wish.kind, jobs_in(database, {JobState.QUEUED}), actor.name):
        hint = "Ask again when some of them have ended, or cancel those that are not needed any more"
        raise TooMany(why, hint=hint)

"""Operator actions on runs and jobs, each with a reason: pause, continue, stop, recover, resume, cancel."""

from __future__ import annotations

import sqlite3

from flashferry import api
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.model.states import RunState
from flashferry.service.entered_text import checked_comment, sites_text
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, ServiceError, not_delivered
from flashferry.service.jobs.create import ask
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import seen_job, seen_run, sites_of_run
from flashferry.service.service import Service
from flashferry.store.control import ControlRequest, control_request
from flashferry.store.control_requests import Asker, SteerKind
from flashferry.store.service.answers import Once
from flashferry.store.service.jobs import Job, JobKind, JobState, cancel_job, job_of
from flashferry.store.service.plans import plan_of
from flashferry.store.stored_run import StoredRun

_ACTION = "job.cancel"
CANCELLED = "cancelled by "
"""Start of the sentence of a cancelled job; the canceller's name and reason follow."""


def cancel(service: Service, actor: Actor, job_id: str, reason: str) -> Job:
    """Cancel a queued job and return it.

    Raises:
        NotFound, Forbidden: The caller may not see the job, or does not operate its sites.
        InvalidRequest: There is no reason.
        Conflict: The job has started or ended.
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
            sentence = f"{CANCELLED}{actor.name}: {reason}"
            is_ours = cancel_job(database, job_id, at=service.moment(), sentence=sentence)
            now = job_of(database, job_id) or job
            if not is_ours:
                raise _started(now)
            service.note(
                *(database, actor, _ACTION, f"job:{job_id}"),
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
        service.note_refusal(actor, _ACTION, f"job:{job_id}", problem.sentence)
        raise
    return now


def may_cancel(actor: Actor, job: Job) -> bool:
    """Return whether the caller can cancel a job now."""
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


_CHECK_STATE = "See its state on the page of the run"


def steer(service: Service, actor: Actor, run_id: str, what: SteerKind, reason: str) -> ControlRequest:
    """Pause, continue, or stop and restore a running run; return its control state. Needs a reason.

    Raises:
        NotFound, Forbidden: The caller may not see the run, or is not operator at all its sites.
        InvalidRequest: There is no reason.
        Conflict: The run is not running; or not paused, for `continue`.
        Unavailable, DiskFull: Its journal cannot be written.
    """
    run, object_, action = seen_run(service.state, run_id, actor).whole, f"run:{run_id}", f"run.{what.value}"
    try:
        reason = _operated(run, actor, reason)
        if run.state is not RunState.ALIVE:
            raise _conflict(f"run {run_id} is {run.state}: expected one that is running")
        if what is SteerKind.CONTINUE and not control_request(service.state, run_id).paused:
            raise _conflict(f"run {run_id} is not paused: expected one that is, to continue it")
    except ServiceError as problem:
        service.note_refusal(actor, action, object_, problem.sentence)
        raise
    with service.database.writing() as database:
        service.note(database, actor, action, object_, outcome="asked", reason=reason)
    asker = Asker(actor=actor.name, via=actor.via.value, reason=reason)
    paused = {SteerKind.PAUSE: True, SteerKind.CONTINUE: False}.get(what)
    stopping = True if what is SteerKind.STOP else None
    try:
        control = api.steer(run_id, paused=paused, stopping=stopping, asker=asker, state=service.state).control
    except ConfigInvalid as error:
        # The job ended meanwhile.
        service.note_outcome(actor, action, object_, outcome="refused", reason=error.message)
        raise _conflict(error.message) from None
    except (FlashferryError, OSError, sqlite3.Error) as error:
        untold = not_delivered(error)
        service.note_outcome(actor, action, object_, outcome="failed", reason=untold.sentence)
        raise untold from None
    service.note_outcome(actor, action, object_, outcome="done", reason=reason)
    return control


def restore(service: Service, actor: Actor, run_id: str, reason: str, once: Once | None = None) -> Job:
    """Request a recovery of the devices that a run left changed. Raises as `steer`; `Conflict` if there are none."""
    run = seen_run(service.state, run_id, actor).whole
    spec = JobSpec(kind=JobKind.RECOVER, run_id=run_id, sites=sites_of_run(run), reason=reason)
    _check_asker(service, actor, run, spec)
    if run.state is RunState.ALIVE or not any(device.is_held for device in run.devices):
        why = "is running" if run.state is RunState.ALIVE else "left no device to restore"
        return _refused(service, actor, spec, f"run {run_id} {why}")
    return ask(service, actor, spec, once, about=f"run:{run_id}")


def go_on(service: Service, actor: Actor, run_id: str, reason: str, once: Once | None = None) -> Job:
    """Request the resume of a run that died or was stopped; its devices are restored first.

    Raises:
        ServiceError: As `steer`; `Conflict` if the run is running, does not stage, or has no approved plan of this
            service.
    """
    run = seen_run(service.state, run_id, actor).whole
    sites = sites_of_run(run)
    spec = JobSpec(kind=JobKind.RESUME, run_id=run_id, digest=run.plan_digest, sites=sites, reason=reason)
    _check_asker(service, actor, run, spec)
    with service.database.reading() as database:
        has_plan = run.plan_digest is not None and plan_of(database, run.plan_digest) is not None
    if run.state is RunState.ALIVE or run.verb != "stage":
        why = "is running" if run.state is RunState.ALIVE else f"is a {run.verb}, which cannot be resumed"
        return _refused(service, actor, spec, f"run {run_id} {why}")
    if not has_plan:
        return _refused(service, actor, spec, f"run {run_id} was not started from a plan approved here")
    return ask(service, actor, spec, once, about=f"run:{run_id}")


def _check_asker(service: Service, actor: Actor, run: StoredRun, spec: JobSpec) -> None:
    """Check role and reason of the caller before an error can reveal anything about the run."""
    try:
        _operated(run, actor, spec.reason)
    except ServiceError as problem:
        service.note_refusal(actor, f"run.{spec.kind}", f"run:{run.run_id}", problem.sentence)
        raise


def _refused(service: Service, actor: Actor, spec: JobSpec, why: str) -> Job:
    service.note_refusal(actor, f"run.{spec.kind}", f"run:{spec.run_id}", why)
    raise _conflict(why)


def _operated(run: StoredRun, actor: Actor, reason: str) -> str:
    """Check that the caller operates a run; return the checked reason. Raises `Forbidden` or `InvalidRequest`."""
    sites = sites_of_run(run)
    if not actor.may({Role.OPERATOR}, sites):
        raise Forbidden(
            f"run: expected an operator at {sites_text(sites)} to steer it", hint="Ask a colleague with that role"
        )
    if not (found := checked_comment(reason)):
        raise InvalidRequest(
            "reason: expected a few words, found none", hint="Give a reason; it is in the audit and shown with the run"
        )
    return found


def _conflict(why: str) -> ServiceError:
    return Conflict(why, hint=_CHECK_STATE)

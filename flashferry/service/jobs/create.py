"""Requests for jobs: who may make them, in which order they start, one answer per idempotency key."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.core.redaction import masked
from flashferry.model.fleet_plan import PlanWindow, WindowState
from flashferry.reports import words
from flashferry.service.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServiceError,
    TooMany,
    invalid_from,
    listed,
)
from flashferry.service.jobs.job_spec import SELECTS, JobSpec, command_line
from flashferry.service.known_names import check_names, site_filters
from flashferry.service.plans.eligibility import database_obstacle, resume_obstacle
from flashferry.service.principal import ANY_ROLE, Actor, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.answers import Once, answer_of, keep_answer
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import (
    RUNS,
    Job,
    JobKind,
    JobState,
    add_job,
    job_of,
    jobs_in,
    jobs_of_plan,
    jobs_of_run,
)
from flashferry.store.service.plans import StoredPlan, plan_of, window_of
from inventory.selection import Selection

MOST_SERVING = 8
"""Serving jobs at once with a depot."""
MOST_TESTING = 4
"""Of those, speed tests and checks; the other slots are kept for runs."""
MOST_CHECKING = 4
"""Jobs at once that do not serve."""
MOST_OF_A_PERSON = 20
"""Queued jobs of one user that need no approval."""
_NEEDS_NO_APPROVAL = SELECTS
_TESTS = frozenset({JobKind.PROBE, JobKind.CHECK})
_SERVES = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE, JobKind.NIGHTLY})
_REACH = "--reach"


def serves(job: Job) -> bool:
    """Return whether a job's process serves files to devices."""
    return job.kind in _SERVES or (job.kind is JobKind.CHECK and _REACH in job.words)


def why_not_queued(kind: JobKind, queued: Sequence[Job], person: str) -> str:
    """Return why a user cannot queue another job of a kind; empty if they can.

    Runs of an approved plan are limited by their plans; recoveries are never refused.
    """
    if kind not in _NEEDS_NO_APPROVAL:
        return ""
    theirs = sum(job.requested_by == person and job.kind in _NEEDS_NO_APPROVAL for job in queued)
    if theirs < MOST_OF_A_PERSON:
        return ""
    return f"{kind}: expected fewer than {MOST_OF_A_PERSON} queued jobs of {person}, found {theirs}"


def waiting(queued: Sequence[Job], running: Sequence[Job], *, has_depot: bool, now: str) -> Iterator[tuple[Job, str]]:
    """Yield queued jobs in starting order, each with what it waits for; empty: it can start now.

    `queued` is oldest first; `has_depot` says that one depot serves all jobs; `now` is in the format of the tables.
    """
    ready: list[Job] = []
    for job in queued:
        if job.not_before is not None and job.not_before > now:
            # A job that has to wait for a time blocks no other.
            yield job, f"waits until {words.moment(job.not_before)}"
        else:
            ready.append(job)
    started = list(running)
    for job in _in_turn(ready, running):
        why = _why(job, started, has_depot=has_depot)
        yield job, why
        # A waiting job keeps its place: no later one of its kind overtakes it.
        started.append(job)


def _in_turn(ready: Sequence[Job], running: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs in starting order: by rank, then in turns between users and sites, then by age."""
    equals: dict[tuple[object, ...], deque[tuple[int, Job]]] = {}
    for number, job in enumerate(ready):
        equals.setdefault(_key(job), deque()).append((number, job))
    turns = Counter(share for job in running for share in _shares(job))

    def rank(key: tuple[object, ...]) -> tuple[bool, int, int]:
        number, job = equals[key][0]
        return _is_test(job), max(turns[share] for share in _shares(job)), number

    while equals:
        key = min(equals, key=rank)
        _, job = equals[key].popleft()
        if not equals[key]:
            del equals[key]
        turns.update(_shares(job))
        yield job


def _key(job: Job) -> tuple[object, ...]:
    return _places(job), _is_test(job), job.requested_by, job.sites


def _shares(job: Job) -> Iterable[tuple[str, str, str]]:
    """Return the users and sites whose slots a job takes."""
    places = _places(job)
    return {(places, "person", job.requested_by), *((places, "site", site) for site in job.sites)}


def _places(job: Job) -> str:
    if job.kind is JobKind.RECOVER:
        return "recovering"
    return "serving" if serves(job) else "looking"


def _is_test(job: Job) -> bool:
    """Return whether a job serves files without an approved plan or a schedule."""
    return job.kind in _TESTS and serves(job)


def _why(job: Job, others: Sequence[Job], *, has_depot: bool) -> str:
    rivals = [one for one in others if _places(one) == _places(job)]
    if job.kind is JobKind.RECOVER:
        most, what = 1, "one recovery runs at a time"
    elif not serves(job):
        most, what = MOST_CHECKING, f"at most {MOST_CHECKING} jobs look at once"
    elif not has_depot:
        most, what = 1, "without a depot one job serves at a time"
    else:
        tests = [one for one in rivals if _is_test(one)]
        if _is_test(job) and len(tests) >= MOST_TESTING:
            rivals, most, what = tests, MOST_TESTING, f"at most {MOST_TESTING} speed tests serve at once"
        else:
            most, what = MOST_SERVING, f"at most {MOST_SERVING} jobs serve at once"
    if len(rivals) < most:
        return ""
    return f"waits for {rivals[0].job_id} ({rivals[0].kind}): {what}"


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
        found = [job for job in jobs_of_plan(database, spec.digest) if job.kind in RUNS]
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


MOST_KEY = 200
"""Characters of an `Idempotency-Key`."""


def once_of(key: str | None, what: str, content: object) -> Once | None:
    """Return an idempotency key with a hash of the request; None without a key. Raises `InvalidRequest`."""
    if key is None:
        return None
    if not 0 < len(key) <= MOST_KEY or not key.isprintable():
        raise InvalidRequest(
            f"Idempotency-Key: expected 1 to {MOST_KEY} characters, found {len(key)}",
            hint="Send a random key for each request, such as a UUID",
        )
    text = json.dumps([what, content], sort_keys=True)
    return Once(key=key, request=hashlib.sha256(text.encode()).hexdigest())


def asked_before(database: sqlite3.Connection, actor: Actor, once: Once | None) -> Job | None:
    """Return the job of an earlier request with the same key, or None.

    Raises:
        InvalidRequest: The key was used for another request.
    """
    before = answer_of(database, actor.name, once.key) if once is not None else None
    if before is None or once is None:
        return None
    if before.request != once.request:
        raise InvalidRequest(
            "Idempotency-Key: expected one for this request, found one that was sent with another",
            hint="Send a new key for each request",
        )
    return job_of(database, before.answer)


def request_once(
    service: Service, database: sqlite3.Connection, actor: Actor, once: Once | None, spec: Callable[[], JobSpec]
) -> Job:
    """Request a job in the caller's transaction, unless an earlier request had the same key; return the job.

    Raises:
        ServiceError: As `request_job` and `asked_before`.
    """
    if (before := asked_before(database, actor, once)) is not None:
        return before
    job = request_job(service, database, actor, spec())
    if once is not None:
        keep_answer(database, actor.name, once, answer=job.job_id, at=service.moment())
    return job


def ask(service: Service, actor: Actor, spec: JobSpec, once: Once | None = None, *, about: str = "") -> Job:
    """Request a job and return it, or the job of an earlier request with the same key.

    `about` is the audit object of a refusal; empty: by the kind of the job.

    Raises:
        ServiceError: As `request_job`, `asked_before` and `check_devices`; the refusal is in the audit.
    """
    try:
        check_devices(service, actor, spec)
        with service.database.writing() as database:
            return request_once(service, database, actor, once, lambda: spec)
    except ServiceError as problem:
        service.note_refusal(actor, action_of(spec.kind), about or f"job:{spec.kind.value}", problem.sentence)
        raise


def check_devices(service: Service, actor: Actor, spec: JobSpec) -> None:
    """Check device names against the inventory, outside of a transaction: reading an inventory takes a second.

    Skipped for callers who do not operate the sites: `request_job` refuses them. Raises `InvalidRequest`.
    """
    if actor.via is Via.SYSTEM or not actor.may({Role.OPERATOR}, spec.sites):
        return
    devices = spec.devices
    filters = (*devices.filters, *site_filters(spec.sites))
    if spec.digest is None and spec.kind in SELECTS:
        check_names(service, Selection(hosts=devices.hosts, groups=devices.groups, filters=filters))

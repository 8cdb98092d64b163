"""Jobs requested: specification and command line, queue order, row and audit entry in the caller's transaction."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs.processes import JobFolder
from flashferry.core.redaction import masked
from flashferry.model.fleet_plan import PlanWindow, WindowState
from flashferry.model.policy import Chosen, as_options
from flashferry.reports import words
from flashferry.service.auditing import note, note_refusal
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
from flashferry.service.known_names import check_names, site_filters
from flashferry.service.plans.eligibility import database_obstacle, resume_obstacle
from flashferry.service.principal import ANY_ROLE, Actor, Role, Via
from flashferry.service.run_visibility import job_seen
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings
from flashferry.store.service.answers import Once, answer_of, keep_answer
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import (
    Job,
    JobKind,
    JobState,
    add_job,
    job_of,
    jobs_in,
    jobs_of_plan,
    jobs_of_run,
    latest_jobs,
)
from flashferry.store.service.plans import StoredPlan, plan_of, window_of
from inventory.selection import Selection

_IMAGE = re.compile(r"[A-Za-z0-9][\w.+-]{0,254}", re.ASCII)

_SITE = "site"

_WITH_EVENTS = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE})

SELECTS = frozenset({JobKind.CHECK, JobKind.PROBE, JobKind.DRY_RUN, JobKind.READY, JobKind.PLAN})

"""Kinds whose devices are selected by name, group, filter and site."""

_OF_A_FLEET = SELECTS | {JobKind.STAGE}

_VERBS = {
    JobKind.RESUME: ("stage",),
    JobKind.DRY_RUN: ("stage", "--dry-run"),
    JobKind.NIGHTLY: ("nightly", "run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Selected devices of the inventory; empty: all of the job's sites.

    Attributes:
        filters: `key=value`, as `--filter` takes it; not `site`.
    """

    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job to be run.

    Attributes:
        digest: Plan: approved for `stage`, any for `dry-run`.
        run_id: Run to resume or to recover.
        image: Name in the image folder; empty: none.
        rules: Image rules of a `plan` without an image, as text; empty: those of the inventory.
        sites: Sites that it may touch; empty: all. A plan brings its own.
        words: More options, of checked values.
        not_before: It waits until then; None: for its turn alone.
        until: When its run must have ended; None: no limit.
        parent: The dead job that it follows up.
    """

    kind: JobKind
    digest: str | None = None
    run_id: str | None = None
    devices: Devices = field(default_factory=Devices)
    image: str = ""
    rules: str = ""
    file: Path | None = None
    sites: tuple[str, ...] = ()
    chosen: Chosen = field(default_factory=dict)
    words: tuple[str, ...] = ()
    not_before: datetime | None = None
    until: datetime | None = None
    reason: str = ""
    parent: str | None = None
    attempt: int = 0


def command_line(spec: JobSpec, settings: RunSettings, state: Path, folder: JobFolder) -> tuple[str, ...]:
    """Return the command line of a job after `flashferry`.

    Raises:
        ConfigInvalid: The specification is not valid, or no inventory is configured.
    """
    check_spec(spec)
    return tuple(_words(spec, settings, state, folder))


def check_spec(spec: JobSpec) -> None:
    """Check that a job has what its kind needs. Raises `ConfigInvalid`."""
    for what, is_there in (
        ("the digest of a plan", spec.kind is not JobKind.STAGE or spec.digest),
        ("a run", spec.kind not in (JobKind.RESUME, JobKind.RECOVER) or spec.run_id),
        ("the description of a night", spec.kind is not JobKind.NIGHTLY or spec.file is not None),
        ("an image or a plan", spec.kind is not JobKind.DRY_RUN or spec.image or spec.digest),
    ):
        if not is_there:
            raise ConfigInvalid(f"{spec.kind}: expected {what}, found none", hint="Name it in the request")
    if spec.image and not _IMAGE.fullmatch(spec.image):
        raise ConfigInvalid(
            f"image {spec.image!r}: expected the name of a file in the folder of images, found something else",
            hint="See the list of images",
        )
    for one in spec.devices.filters:
        key, equals, _ = one.partition("=")
        if not equals or key.strip().lower() == _SITE:
            raise ConfigInvalid(
                f"filter {one!r}: expected key=value with another key than 'site'", hint="Give sites as 'sites'"
            )


def _words(spec: JobSpec, settings: RunSettings, state: Path, folder: JobFolder) -> Iterator[str]:
    kind = spec.kind
    yield from _VERBS.get(kind, (kind.value,))
    if kind is JobKind.NIGHTLY:
        yield from ("--state-dir", str(state), "--json", *spec.words, "--", str(spec.file))
        return
    yield from _subject(spec, settings.images or state / "images", folder)
    if kind in _OF_A_FLEET:
        yield from ("--inventory", _inventory(settings))
    elif settings.inventory is not None:
        yield from ("--inventory", settings.inventory)
    if kind in SELECTS and spec.digest is None:
        yield from _selected(spec)
    if kind in _WITH_EVENTS:
        yield from ("--events", str(folder.events))
    yield from ("--state-dir", str(state), "--json")
    is_recovery = kind is JobKind.RECOVER and settings.recover_options is not None
    yield from (settings.recover_options or ()) if is_recovery else settings.options
    yield from (*as_options(spec.chosen), *spec.words)
    if spec.until is not None:
        yield from ("--until", spec.until.astimezone(UTC).isoformat(timespec="seconds"))


def _subject(spec: JobSpec, images: Path, folder: JobFolder) -> Iterator[str]:
    """Yield the options for the plan, run or image of a job, and for its output."""
    if spec.digest is not None and spec.kind in (JobKind.STAGE, JobKind.DRY_RUN):
        yield from ("--plan", str(folder.plan))
    elif spec.kind is JobKind.RESUME:
        yield from ("--resume", str(spec.run_id))
    elif spec.kind is JobKind.RECOVER:
        # Devices of other runs are not touched: their runs may be restoring them.
        yield from ("--run", str(spec.run_id))
    elif spec.image:
        yield from ("--image", str(images / spec.image))
    elif spec.rules:
        yield from ("--image-rules", str(folder.rules))
    if spec.kind is JobKind.PLAN:
        yield from ("--output", str(folder.plan))


def _selected(spec: JobSpec) -> Iterator[str]:
    for option, values in (
        ("--host", spec.devices.hosts),
        ("--group", spec.devices.groups),
        ("--filter", (*spec.devices.filters, *(f"{_SITE}={site}" for site in spec.sites))),
    ):
        # With `=`, for a name may begin with a dash.
        yield from (f"{option}={value}" for value in values)


def _inventory(settings: RunSettings) -> str:
    if settings.inventory is None:
        raise ConfigInvalid(
            "no inventory is configured, which jobs on devices need",
            hint="Name it in service.toml: inventory under [runs]",
        )
    return settings.inventory


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
    """Return whether devices fetch from a job's process."""
    return job.kind in _SERVES or (job.kind is JobKind.CHECK and _REACH in job.words)


def why_not_queued(kind: JobKind, queued: Sequence[Job], person: str) -> str:
    """Return why a user cannot queue another job of a kind; empty if they can.

    Runs of an approved plan are limited by their plans, and recoveries are never refused.
    """
    if kind not in _NEEDS_NO_APPROVAL:
        return ""
    theirs = sum(job.requested_by == person and job.kind in _NEEDS_NO_APPROVAL for job in queued)
    if theirs < MOST_OF_A_PERSON:
        return ""
    return f"{kind}: expected fewer than {MOST_OF_A_PERSON} queued jobs of {person}, found {theirs}"


def waiting(queued: Sequence[Job], under_way: Sequence[Job], *, has_depot: bool, now: str) -> Iterator[tuple[Job, str]]:
    """Yield each queued job in starting order, with what it waits for; empty if it can start now.

    Args:
        queued: The oldest first.
        under_way: Running jobs.
        has_depot: Whether a depot serves all of them.
        now: The time, as the tables store it.
    """
    ready: list[Job] = []
    for job in queued:
        if job.not_before is not None and job.not_before > now:
            # It holds no place until then.
            yield job, f"waits until {words.moment(job.not_before)}"
        else:
            ready.append(job)
    started = list(under_way)
    for job in _in_turn(ready, under_way):
        why = _why(job, started, has_depot=has_depot)
        yield job, why
        # One that waits keeps its place: none of its kind passes it.
        started.append(job)


def _in_turn(ready: Sequence[Job], under_way: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs in starting order. Jobs for the same slots, of the same rank, user and sites differ only in age."""
    equals: dict[tuple[object, ...], deque[tuple[int, Job]]] = {}
    for number, job in enumerate(ready):
        equals.setdefault(_key(job), deque()).append((number, job))
    turns = Counter(share for job in under_way for share in _shares(job))

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
    """Return what a job takes a turn of: its user's and each of its sites' slots."""
    places = _places(job)
    return {(places, "person", job.requested_by), *((places, "site", site) for site in job.sites)}


def _places(job: Job) -> str:
    if job.kind is JobKind.RECOVER:
        return "recovering"
    return "serving" if serves(job) else "looking"


def _is_test(job: Job) -> bool:
    """Return whether it serves without an approved plan or a schedule."""
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

    Args:
        service: The service.
        database: A connection of `service.database.writing()`.
        actor: An operator at all sites of the job, or the service itself.
        spec: The job.

    Raises:
        ServiceError: Not allowed, the plan is unknown or not approved, a job for it is open, or the user has too many
            queued jobs. The caller rolls back and records the refusal (`note_refusal`).
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
        created_at=moment(service.now()),
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
    note(service, database, actor, action_of(job.kind), f"job:{job_id}", reason=job.reason, after=details)
    return job


def _not_before(window: PlanWindow, now: datetime, asked: datetime | None) -> datetime | None:
    """Return the earliest start of a run: not before its plan's window opens."""
    if window.state(now) is not WindowState.BEFORE or window.opens_at is None:
        return asked
    return window.opens_at if asked is None else max(asked, window.opens_at)


def job_obstacle(service: Service, database: sqlite3.Connection, job: Job) -> str:
    """Return why a waiting job may not start any more, in this transaction; empty if it may."""
    plan = plan_of(database, job.digest) if job.digest is not None else None
    if plan is not None and (why := _job_obstacle(service, database, job.kind, plan)):
        return why
    if job.until is not None and job.until <= moment(service.now()):
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
    """Refuse a second job for a plan, or for a run, while one is open."""
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
    """Refuse another job of a user with many queued; the service and its schedules are exempt."""
    if actor.via is Via.SYSTEM:
        return
    if why := why_not_queued(spec.kind, jobs_in(database, {JobState.QUEUED}), actor.name):
        hint = "Ask again when some of them have ended, or cancel those that are not needed any more"
        raise TooMany(why, hint=hint)


MOST_KEY = 200

"""Characters of an `Idempotency-Key`."""


def once_of(key: str | None, what: str, content: object) -> Once | None:
    """Return the idempotency key of a request with a hash of its content; None without a key.

    Raises:
        InvalidRequest: The key is not valid.
    """
    if key is None:
        return None
    if not 0 < len(key) <= MOST_KEY or not key.isprintable():
        raise InvalidRequest(
            f"Idempotency-Key: expected 1 to {MOST_KEY} signs, found {len(key)}",
            hint="Send a random key for each request, such as a UUID",
        )
    text = json.dumps([what, content], sort_keys=True)
    return Once(key=key, request=hashlib.sha256(text.encode()).hexdigest())


def asked_before(database: sqlite3.Connection, actor: Actor, once: Once | None) -> Job | None:
    """Return the job that was requested with the same key, or None.

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


def ask(service: Service, actor: Actor, spec: JobSpec, once: Once | None = None, *, about: str = "") -> Job:
    """Request a job and return it, or the one that was requested with the same key.

    `about` is the audit object of a refusal; empty: by the kind of the job.

    Raises:
        ServiceError: As `request_job`, `asked_before` and `check_devices`; the refusal is in the audit.
    """
    try:
        check_devices(service, actor, spec)
        with service.database.writing() as database:
            if (before := asked_before(database, actor, once)) is not None:
                return before
            job = request_job(service, database, actor, spec)
            if once is not None:
                keep_answer(database, actor.name, once, answer=job.job_id, at=moment(service.now()))
            return job
    except ServiceError as problem:
        note_refusal(service, actor, action_of(spec.kind), about or f"job:{spec.kind.value}", problem.sentence)
        raise


def check_devices(service: Service, actor: Actor, spec: JobSpec) -> None:
    """Check names against the inventory, before the transaction: reading an inventory takes a second.

    Callers who may not operate the sites are refused for that first, by `request_job`. Raises `InvalidRequest`.
    """
    if actor.via is Via.SYSTEM or not actor.may({Role.OPERATOR}, spec.sites):
        return
    devices = spec.devices
    filters = (*devices.filters, *site_filters(spec.sites))
    if spec.digest is None and spec.kind in SELECTS:
        check_names(service, Selection(hosts=devices.hosts, groups=devices.groups, filters=filters))


def seen_job(database: sqlite3.Connection, actor: Actor, job_id: str) -> Job:
    """Return a job that the caller may see. Raises `NotFound`."""
    job = job_of(database, job_id)
    if job is None or job_seen(actor, job) is None:
        raise NotFound(
            f"job: expected one that you may see, found {job_id[:60]!r}",
            hint="The pages of plans and runs show their jobs",
        )
    return job


def latest_seen(database: sqlite3.Connection, actor: Actor, most: int, before: str | None) -> tuple[list[Job], str]:
    """Return the newest jobs that the caller may see, of so many at most, and the time before which there are more."""
    found = latest_jobs(database, most, before=before)
    seen = [one for job in found if (one := job_seen(actor, job)) is not None]
    return seen, found[-1].created_at if len(found) == most else ""

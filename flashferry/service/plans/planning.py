"""Plans created by a job, started, and rehearsed."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from flashferry.core.jobs.processes import JobFolder
from flashferry.core.state_folder import open_private
from flashferry.model.fleet_plan import PlanWindow
from flashferry.reports import words
from flashferry.service.auditing import deciding, note_refusal
from flashferry.service.background import PeriodicTask
from flashferry.service.errors import Conflict, InvalidRequest, ServiceError
from flashferry.service.images.golden import golden_rules
from flashferry.service.jobs.create import Devices, JobSpec, action_of, ask, asked_before, check_devices, request_job
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.eligibility import MOST_BYTES, checked_title, found, image_obstacle, offer
from flashferry.service.plans.serializers import object_of
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.answers import Once, keep_answer
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobKind, plan_jobs_to_offer, plans_being_made, set_plan_made
from flashferry.store.service.people import ACTIVE, grants_of, person
from flashferry.store.service.plans import window_of

_WINDOW = re.compile(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d", re.ASCII)

_EVERY_S = 2.0

_SHOWN = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSpec:
    """A plan to be created.

    Attributes:
        image: Name of an image for all devices; empty: by the inventory's image rules.
        golden: Use the golden image of each model instead of those rules.
        sites: Empty: all, which needs the role everywhere.
        window: `22:00-05:00` by the clock of the service's host; empty: at once, no end.
    """

    title: str = ""
    image: str = ""
    golden: bool = False
    sites: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    window: str = ""
    chosen: Mapping[str, object] = field(default_factory=dict)


def make_plan(service: Service, actor: Actor, spec: PlanSpec, once: Once | None = None) -> Job:
    """Request a plan; it is offered when its job has ended.

    Raises:
        ServiceError: The caller is no operator at the sites, a value is not valid, or the golden images cannot plan
            these sites.
    """
    if spec.window and not _WINDOW.fullmatch(spec.window):
        raise InvalidRequest(
            f"window: expected two times of day such as 22:00-05:00, found {spec.window[:40]!r}",
            hint="Leave it out for a run that has no end",
        )
    if spec.golden and spec.image:
        raise InvalidRequest(
            "golden: expected the golden images of models, or one image for all, found both",
            hint="Leave one of them out",
        )
    words = ("--window", spec.window) if spec.window else ()
    if not spec.image:
        words = (*words, "--image-dir", str(service.images))
    job = JobSpec(
        kind=JobKind.PLAN,
        image=spec.image,
        sites=spec.sites,
        devices=Devices(hosts=spec.hosts, groups=spec.groups),
        chosen=spec.chosen,
        words=words,
        reason=checked_title(spec.title),
    )
    check_devices(service, actor, job)
    with deciding(service, actor, action_of(JobKind.PLAN), "plan") as database:
        if (before := asked_before(database, actor, once)) is not None:
            return before
        rules = golden_rules(database, spec.sites) if spec.golden else ""
        made = request_job(service, database, actor, replace(job, rules=rules))
        if once is not None:
            keep_answer(database, actor.name, once, answer=made.job_id, at=moment(service.now()))
        return made


def being_made(service: Service, database: sqlite3.Connection, actor: Actor) -> list[Job]:
    """Return the plan jobs of the last day, running or failed, that the caller may see, the newest first."""
    since = moment(service.now() - _SHOWN)
    return [job for job in plans_being_made(database, since) if actor.may(Role, job.sites)]


@dataclass(frozen=True, slots=True)
class PlanJobs:
    """Offers the plans of ended jobs, each once."""

    _tried: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run_once(self, service: Service) -> None:
        """Offer the plans of jobs that have ended."""
        with service.database.reading() as database:
            ended = plan_jobs_to_offer(database)
        for job in ended:
            if job.job_id not in self._tried:
                with self._lock:
                    self._tried.add(job.job_id)
                offer_made(service, job)


TASK = PeriodicTask(name="plans", every_s=_EVERY_S, run=PlanJobs().run_once)


def offer_made(service: Service, job: Job) -> None:
    """Offer the plan of a job for its requester, with the requester's present grants."""
    try:
        with open_private(JobFolder.of(service.state, job.job_id).plan, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return
    with service.database.reading() as database:
        asker = person(database, job.requested_by)
        given = grants_of(database, job.requested_by) if asker is not None and asker.state == ACTIVE else ()
    has = frozenset(Grant(role=Role(one.role), site=one.site) for one in given)
    maker = Actor(name=job.requested_by, via=Via.SYSTEM, grants=has)
    try:
        stored, _ = offer(service, maker, content, job.reason)
    except ServiceError as problem:
        digest, sentence = None, f"its plan was not accepted: {problem.sentence}"
    else:
        digest, sentence = stored.digest, f"made plan {stored.digest[:12]}…, which waits for approval"
    with service.database.writing() as database:
        set_plan_made(database, job.job_id, digest, sentence)


def begin(
    service: Service,
    actor: Actor,
    digest: str,
    *,
    reason: str = "",
    not_before: datetime | None = None,
    until: datetime | None = None,
    chosen: Mapping[str, object] | None = None,
    rehearse: bool = False,
    once: Once | None = None,
) -> Job:
    """Request the run of a plan, or its rehearsal.

    Args:
        service: The service.
        actor: An operator at each of its sites.
        digest: The plan; for a run, a startable one.
        reason: For the audit.
        not_before: Earliest start, besides the plan's window and the queue.
        until: Latest end, if earlier than the plan's.
        chosen: Settings of the run besides the plan's.
        rehearse: Only show what a run would do; for any plan.
        once: Idempotency key.

    Raises:
        NotFound, Forbidden: The caller may not see or start it.
        Conflict: Its state, an image or another run does not allow it.
        InvalidRequest: The times leave no time.
    """
    kind = JobKind.DRY_RUN if rehearse else JobKind.STAGE
    with service.database.reading() as database:
        plan = found(database, digest, actor)
        window = window_of(database, plan)
        if (before := asked_before(database, actor, once)) is not None:
            return before
    try:
        if not rehearse and (why := image_obstacle(service, digest)):
            raise Conflict(
                f"plan {digest[:12]}… cannot start: {why}",
                hint="Restore the image, or create a new plan and have it approved",
            )
        not_before, until = _checked_times(window, service.now(), not_before, until)
        spec = JobSpec(
            kind=kind,
            digest=digest,
            chosen=chosen or {},
            reason=checked_comment(reason),
            not_before=not_before,
            until=until,
        )
    except ServiceError as problem:
        note_refusal(service, actor, action_of(kind), object_of(digest), problem.sentence)
        raise
    return ask(service, actor, spec, once, about=object_of(digest))


def _checked_times(
    window: PlanWindow, now: datetime, not_before: datetime | None, until: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Return earliest start and latest end of a run, within its plan."""
    begins, ends = _in_utc("not_before", not_before), _in_utc("until", until)
    plan_ends = None if window.ends_at is None else window.ends_at.astimezone(UTC)
    if begins is not None and plan_ends is not None and begins >= plan_ends:
        raise _no_time("not_before", f"before the plan's end, {_in_words(plan_ends)}", begins)
    if ends is not None and ends <= (earliest := max(now, begins or now, window.opens_at or now)):
        raise _no_time("until", f"after {_in_words(earliest)}", ends)
    return begins, ends if ends is None or plan_ends is None else min(ends, plan_ends)


def _in_utc(name: str, at: datetime | None) -> datetime | None:
    if at is None:
        return None
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise _no_time(name, "of this millennium", at) from None


def _no_time(name: str, expected: str, at: datetime) -> ServiceError:
    return InvalidRequest(
        f"{name}: expected a time {expected}, found {_in_words(at) if at.tzinfo is UTC else at.isoformat()}",
        hint="Give times as ISO 8601 with their offset from UTC: 2026-11-30T22:00:00+01:00",
    )


def _in_words(at: datetime) -> str:
    return words.moment(at.isoformat())

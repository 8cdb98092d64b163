"""Creation of plans by jobs; start and rehearsal of plans."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec import field as struct_field
from msgspec.structs import replace

from flashferry.core.jobs import JobFolder
from flashferry.core.state_folder import open_private
from flashferry.model.fleet_plan import PlanWindow
from flashferry.reports import words
from flashferry.service.entered_text import checked_comment, checked_title
from flashferry.service.errors import Conflict, InvalidRequest, ServiceError
from flashferry.service.images.golden import golden_rules
from flashferry.service.jobs.create import action_of, ask, asked_before, check_devices, request_once
from flashferry.service.jobs.job_spec import Devices, JobSpec
from flashferry.service.plans.eligibility import MOST_BYTES, found, image_obstacle, offer
from flashferry.service.plans.serializers import object_of
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.answers import Once
from flashferry.store.service.jobs import Job, JobKind, plan_jobs_to_offer, plans_being_made, set_plan_made
from flashferry.store.service.people import ACTIVE, grants_of, person
from flashferry.store.service.plans import window_of

_WINDOW = re.compile(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d", re.ASCII)


_SHOWN = timedelta(days=1)


class PlanSpec(Struct, frozen=True, kw_only=True):
    """A plan to be created.

    Attributes:
        image: Name of an image for all devices; empty: by the inventory's image rules.
        golden: Use the golden image of each model instead of those rules.
        sites: Empty: all, which needs the role at all sites.
        window: `22:00-05:00` in local time of the service's host; empty: at once, no end.
    """

    title: str = ""
    image: str = ""
    golden: bool = False
    sites: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    window: str = ""
    chosen: Mapping[str, object] = struct_field(default_factory=dict)


def make_plan(service: Service, actor: Actor, spec: PlanSpec, once: Once | None = None) -> Job:
    """Request a job that creates a plan; the plan is stored when the job has ended.

    Raises:
        ServiceError: The caller is not an operator at the sites, a value is not valid, or golden images do not
            cover the sites.
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
    with service.deciding(actor, action_of(JobKind.PLAN), "plan") as database:

        def with_rules() -> JobSpec:
            return replace(job, rules=golden_rules(database, spec.sites)) if spec.golden else job

        return request_once(service, database, actor, once, with_rules)


def being_made(service: Service, database: sqlite3.Connection, actor: Actor) -> list[Job]:
    """Return the visible plan jobs of the last day that are running or failed, newest first."""
    since = service.moment(-_SHOWN)
    return [job for job in plans_being_made(database, since) if actor.may(Role, job.sites)]


@dataclass(frozen=True, slots=True)
class PlanJobs:
    """Background task that stores the plans of ended jobs, each once."""

    _tried: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run_once(self, service: Service) -> None:
        """Store the plans of jobs that ended."""
        with service.database.reading() as database:
            ended = plan_jobs_to_offer(database)
        for job in ended:
            if job.job_id not in self._tried:
                with self._lock:
                    self._tried.add(job.job_id)
                offer_made(service, job)


def offer_made(service: Service, job: Job) -> None:
    """Store the plan of a job on behalf of its requester, with the requester's present grants."""
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
        digest, sentence = stored.digest, f"made plan {stored.digest[:12]}…"
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
    """Request the run of a plan that can start, or the rehearsal of any plan.

    `not_before` and `until` narrow the plan's own times; `chosen` are settings of the run besides the plan's.

    Raises:
        NotFound, Forbidden: The caller may not see it, or is not operator at each of its sites.
        Conflict: Its state, an image or another run does not allow it.
        InvalidRequest: The times leave no time for a run.
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
        service.note_refusal(actor, action_of(kind), object_of(digest), problem.sentence)
        raise
    return ask(service, actor, spec, once, about=object_of(digest))


def _checked_times(
    window: PlanWindow, now: datetime, not_before: datetime | None, until: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Check and return earliest start and latest end of a run, within the plan's window."""
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

"""Plans created by the service: a job runs `flashferry plan`, and its plan is offered for its requester.

The requester must be an operator at the sites, becomes the maker, and cannot approve the plan.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from flashferry.core.apart.folder import JobFolder
from flashferry.core.state_folder import open_private
from flashferry.service.auditing import deciding
from flashferry.service.background import PeriodicTask
from flashferry.service.errors import InvalidRequest, ServiceError
from flashferry.service.images.golden import golden_rules
from flashferry.service.jobs.create import action_of, request_job
from flashferry.service.jobs.job_spec import Devices, JobSpec
from flashferry.service.jobs.submit import asked_before, check_devices
from flashferry.service.plans.offering import MOST_BYTES, checked_title, offer
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.answers import Once, keep_answer
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobKind, plan_jobs_to_offer, plans_being_made, set_plan_made
from flashferry.store.service.people import ACTIVE, grants_of, person

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

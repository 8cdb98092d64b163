"""Plans that the service itself makes: a job runs `flashferry plan`, and what it wrote is offered for who asked.

The job looks at devices, so it takes an operator at its sites, and is a process of its own like all others. Its plan is
a draft like any other: whoever asked for it is its maker and cannot approve it.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from flashferry.service.errors import InvalidRequest, ServiceError
from flashferry.core.apart.folder import JobFolder
from flashferry.core.state_folder import open_private
from flashferry.service.auditing import deciding
from flashferry.service.background import PeriodicTask
from flashferry.service.images.golden import golden_rules
from flashferry.service.jobs.create import action_of, request_job
from flashferry.service.jobs.job_spec import Devices, JobWish
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
class PlanWish:
    """A plan that somebody wants to have made.

    Attributes:
        title: What it is to be called.
        image: Name of an image in the service's folder for all devices; empty: by the inventory's image rules.
        golden: Whether each device is to have the golden image of its model, in place of the inventory's image rules.
        sites: The sites it is for; none: all, which takes the role everywhere.
        hosts: Devices of those sites, any of them; none: all.
        groups: Groups, likewise.
        window: When the run may be at work, `22:00-05:00` by the clock of the service's host; empty: at once, no end.
        chosen: Settings of its run, by name.
    """

    title: str = ""
    image: str = ""
    golden: bool = False
    sites: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    window: str = ""
    chosen: Mapping[str, object] = field(default_factory=dict)


def make_plan(service: Service, actor: Actor, wish: PlanWish, once: Once | None = None) -> Job:
    """Ask for a plan to be made; it is offered when its job has ended.

    Args:
        service: The service.
        actor: Who asks.
        wish: What he wants.
        once: Under which key, if under any.

    Raises:
        ServiceError: He is no operator at the sites, something of the wish is not as it must be, or golden images were asked
            for and are none by which these sites can be planned.
    """
    if wish.window and not _WINDOW.fullmatch(wish.window):
        raise InvalidRequest(
            f"window: expected two times of day such as 22:00-05:00, found {wish.window[:40]!r}",
            hint="Leave it out for a run that has no end",
        )
    if wish.golden and wish.image:
        raise InvalidRequest(
            "golden: expected the golden images of models, or one image for all, found both",
            hint="Leave one of them out",
        )
    words = ("--window", wish.window) if wish.window else ()
    if not wish.image:
        words = (*words, "--image-dir", str(service.images))
    job = JobWish(
        kind=JobKind.PLAN,
        image=wish.image,
        sites=wish.sites,
        devices=Devices(hosts=wish.hosts, groups=wish.groups),
        chosen=wish.chosen,
        words=words,
        reason=checked_title(wish.title),
    )
    check_devices(service, actor, job)
    with deciding(service, actor, action_of(JobKind.PLAN), "plan") as database:
        if (before := asked_before(database, actor, once)) is not None:
            return before
        rules = golden_rules(database, wish.sites) if wish.golden else ""
        made = request_job(service, database, actor, replace(job, rules=rules))
        if once is not None:
            keep_answer(database, actor.name, once, answer=made.job_id, at=moment(service.now()))
        return made


def being_made(service: Service, database: sqlite3.Connection, actor: Actor) -> list[Job]:
    """Return the jobs of the last day that make a plan, or failed to, and that somebody may see, the newest first."""
    since = moment(service.now() - _SHOWN)
    return [job for job in plans_being_made(database, since) if actor.may(Role, job.sites)]


@dataclass(frozen=True, slots=True)
class PlanJobs:
    """Offers what jobs of the kind `plan` wrote, each once; one that wrote none, or cannot be offered, says why."""

    _tried: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, service: Service) -> None:
        """Offer the plans of jobs that have ended."""
        with service.database.reading() as database:
            ended = plan_jobs_to_offer(database)
        for job in ended:
            if job.job_id not in self._tried:
                with self._lock:
                    self._tried.add(job.job_id)
                offer_made(service, job)


KEEPER = PeriodicTask(name="plans", every_s=_EVERY_S, look=PlanJobs().look)


def offer_made(service: Service, job: Job) -> None:
    """Offer the plan that a job wrote as who asked for it, with what he may do now; the job tells what came of it."""
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
        digest, sentence = None, f"the plan that it made was not taken: {problem.sentence}"
    else:
        digest, sentence = stored.digest, f"made plan {stored.digest[:12]}…, which waits for approval"
    with service.database.writing() as database:
        set_plan_made(database, job.job_id, digest, sentence)

"""Everything that a plan still needs for an approval and for its start, as the caller's page shows it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from msgspec import Struct

from flashferry.model.fleet_plan import WindowState
from flashferry.service.entered_text import sites_text
from flashferry.service.plans.deciding import who_may
from flashferry.service.plans.eligibility import decision_obstacles, image_obstacles
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.jobs import JobKind, jobs_of_plan
from flashferry.store.service.plans import PlanState, StoredPlan, window_of

_RUNS = frozenset({JobKind.STAGE, JobKind.RESUME})


class Obstacle(Struct, frozen=True, kw_only=True):
    """One missing condition, and the page where it can be met (empty `path`: none).

    Attributes:
        waits: The plan can start nevertheless; its run waits for the condition.
    """

    sentence: str
    path: str = ""
    link: str = ""
    waits: bool = False


class Obstacles(Struct, frozen=True, kw_only=True):
    """Conditions missing for an approval, and for the start; both empty for a plan that is over."""

    approval: tuple[Obstacle, ...] = ()
    start: tuple[Obstacle, ...] = ()


def obstacles(service: Service, actor: Actor, plan: StoredPlan) -> Obstacles:
    """Return what a plan still needs, for this caller; changed image files are hashed."""
    if plan.state not in (PlanState.DRAFT, PlanState.APPROVED):
        return Obstacles()
    images = image_obstacles(service, plan.digest)
    with service.database.reading() as database:
        of_plan = (*_of_decisions(decision_obstacles(database, plan, service.now())), *_of_images(images))
        start = tuple(_of_start(service, database, actor, plan))
    if plan.state is PlanState.APPROVED:
        return Obstacles(start=(*of_plan, *start))
    return Obstacles(approval=(*of_plan, *_of_approver(actor, plan)), start=start)


def _of_decisions(whys: Iterable[str]) -> Iterator[Obstacle]:
    for why in whys:
        yield Obstacle(sentence=f"{why}: create a new plan", path="/plans#make", link="Create a plan")


def _of_images(whys: Mapping[str, str]) -> Iterator[Obstacle]:
    for name, why in whys.items():
        yield Obstacle(sentence=why, path=f"/images/{quote(name, safe='')}", link="The image's page")


def _of_approver(actor: Actor, plan: StoredPlan) -> Iterator[Obstacle]:
    if actor.name == plan.made_by:
        yield Obstacle(sentence=f"you made this plan; an approver at {sites_text(plan.sites)} must approve it")
    elif expected := who_may(actor, "approve", plan):
        yield Obstacle(sentence=f"approving it needs {expected}", path="/me", link="Your roles")


def _of_start(service: Service, database: sqlite3.Connection, actor: Actor, plan: StoredPlan) -> Iterator[Obstacle]:
    if plan.state is PlanState.DRAFT:
        yield Obstacle(sentence="it is a draft; it needs an approval first")
    if not actor.may({Role.OPERATOR}, plan.sites):
        yield Obstacle(
            sentence=f"starting it needs an operator at {sites_text(plan.sites)}", path="/me", link="Your roles"
        )
    if service.settings.runs.inventory is None:
        yield Obstacle(sentence="the service has no inventory: an admin sets inventory under [runs] in service.toml")
    for job in jobs_of_plan(database, plan.digest):
        if job.is_open and job.kind in _RUNS:
            yield Obstacle(sentence=f"its job is {job.state}", path=f"/jobs/{job.job_id}", link="The job")
    window = window_of(database, plan)
    if window.state(service.now()) is WindowState.BEFORE:
        yield Obstacle(sentence=f"{window.why_closed(service.now())}: a run that is started now waits", waits=True)

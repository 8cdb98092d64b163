"""Decisions: approve, deny and withdraw plans; approve waves of runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal
from urllib.parse import quote

from msgspec import Struct

from flashferry import api
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.model.fleet_plan import WindowState
from flashferry.reports import words
from flashferry.service.entered_text import checked_comment, sites_text
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, not_delivered
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.eligibility import (
    approval_obstacle,
    decision_obstacles,
    found,
    image_obstacle,
    image_obstacles,
    resume_obstacle,
)
from flashferry.service.plans.serializers import object_of
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import seen_run, sites_of_run
from flashferry.service.service import Service
from flashferry.store.control import control_request, may_approve, waiting_waves
from flashferry.store.control_requests import Asker
from flashferry.store.reader import is_run_alive
from flashferry.store.service import plans as store
from flashferry.store.service.jobs import RUNS, jobs_of_plan
from flashferry.store.service.plans import (
    Decision,
    PlanState,
    StoredPlan,
    WaveApproval,
    add_waiting_wave,
    add_wave_approval,
    plan_of,
    wave_approval,
    window_of,
)
from flashferry.store.stored_run import StoredRun, read_run

Verb = Literal["approve", "deny", "withdraw"]

_STATEMENTS: dict[Verb, Callable[[sqlite3.Connection, Decision], bool]] = {
    "approve": store.approve,
    "deny": store.deny,
    "withdraw": store.withdraw,
}


def approve(service: Service, actor: Actor, digest: str, comment: str = "") -> StoredPlan:
    """Approve a draft that could start: by an approver at each of its sites who did not make it.

    Raises:
        Forbidden, NotFound: The caller may not approve or see the plan.
        Conflict: Its state or an image does not allow it.
    """
    # Hash before the transaction, which blocks all other writers; a run hashes its images again at its start.
    with service.database.reading() as database:
        found(database, digest, actor)
    why = image_obstacle(service, digest)
    return _decide(service, actor, "approve", digest, comment, why)


def deny(service: Service, actor: Actor, digest: str, comment: str) -> StoredPlan:
    """Deny a draft permanently. Raises as `approve`; `InvalidRequest` without a reason."""
    return _decide(service, actor, "deny", digest, _details(comment))


def withdraw(service: Service, actor: Actor, digest: str, reason: str) -> StoredPlan:
    """Withdraw a plan permanently: by its maker, or an operator or approver at each of its sites.

    A run of it continues. Raises as `deny`.
    """
    return _decide(service, actor, "withdraw", digest, _details(reason))


def _decide(service: Service, actor: Actor, verb: Verb, digest: str, comment: str, why: str = "") -> StoredPlan:
    comment = checked_comment(comment)
    with service.deciding(actor, f"plan.{verb}", object_of(digest), unnoted=(NotFound,)) as database:
        before = found(database, digest, actor)
        _check(service, database, actor, verb, before, why)
        decision = Decision(digest=digest, by=actor.name, at=service.moment(), comment=comment)
        if not _STATEMENTS[verb](database, decision):
            raise _conflict(verb, f"it is {before.state}")
        after = found(database, digest)
        service.note(
            *(database, actor, f"plan.{verb}", object_of(digest)),
            reason=comment,
            before={"state": before.state.value},
            after={"state": after.state.value},
        )
    return after


def who_may(actor: Actor, verb: Verb, plan: StoredPlan) -> str:
    """Return who may decide on a plan if the caller may not; empty if the caller may."""
    if verb == "withdraw":
        if actor.name != plan.made_by and not actor.may({Role.OPERATOR, Role.APPROVER}, plan.sites):
            return f"an operator or approver at {sites_text(plan.sites)}"
    elif actor.name == plan.made_by:
        return f"someone else than {plan.made_by}, who made it"
    elif not actor.may({Role.APPROVER}, plan.sites):
        return f"an approver at {sites_text(plan.sites)}"
    return ""


def may_be_decided(verb: Verb, plan: StoredPlan) -> bool:
    """Return whether a plan's state allows a decision."""
    return plan.state is PlanState.DRAFT or (verb == "withdraw" and plan.state is PlanState.APPROVED)


def _check(
    service: Service, database: sqlite3.Connection, actor: Actor, verb: Verb, plan: StoredPlan, why: str
) -> None:
    if expected := who_may(actor, verb, plan):
        raise _forbidden(verb, expected)
    if not may_be_decided(verb, plan):
        raise _conflict(verb, _state(plan))
    if verb == "approve" and (fallen := approval_obstacle(database, plan, service.now()) or why):
        raise _conflict(verb, fallen)


def _state(plan: StoredPlan) -> str:
    if plan.state is PlanState.WITHDRAWN:
        return f"it was withdrawn by {plan.withdrawn_by} at {words.moment(plan.withdrawn_at)}"
    return f"it was {plan.state} by {plan.decided_by} at {words.moment(plan.decided_at)}"


def _forbidden(verb: str, who: str) -> ServiceError:
    hint = "Ask a colleague with that role, or withdraw the plan"
    comma = "," if ", " in who else ""
    return Forbidden(f"plan: expected {who}{comma} to {verb} it", hint=hint)


def _conflict(verb: str, why: str) -> ServiceError:
    return Conflict(
        f"plan: it cannot be {_PAST[verb]}: {why}",
        hint="Load the plan again: its state has changed; a new plan can be decided",
    )


_PAST = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"}


def _details(comment: str) -> str:
    if not comment.strip():
        raise InvalidRequest(
            "comment: expected a reason, found none",
            hint="Give a reason in a sentence; it is in the audit and shown with the plan",
        )
    return comment


_ACTION = "wave.approve"


def approve_wave(
    service: Service, actor: Actor, run_id: str, wave: int, *, digest: str = "", comment: str = ""
) -> WaveApproval:
    """Approve the waves of a run up to `wave`, counted from 0.

    `digest` is the plan that the approver read; empty for a run without one.

    Raises:
        NotFound, Forbidden: The caller may not see or approve it.
        Conflict: The approver read another plan, the plan was withdrawn or is past its end, the run is not running,
            or the wave is approved already.
    """
    comment = checked_comment(comment)
    run = seen_run(service.state, run_id, actor).whole
    object_ = f"run:{run_id}"
    approval = WaveApproval(
        run_id=run_id, wave=wave, digest=digest, by=actor.name, at=service.moment(), comment=comment
    )
    with service.deciding(actor, _ACTION, object_) as database:
        _check_approver(service, database, actor, run, approval)
        is_first = add_wave_approval(database, approval)
        after = {"wave": wave, "digest": digest, "is_told_again": not is_first}
        service.note(database, actor, _ACTION, object_, reason=comment, after=after)
    try:
        api.approve(
            run_id,
            wave,
            asker=Asker(actor=actor.name, via=actor.via.value, reason=comment),
            state=service.state,
        )
    except ConfigInvalid as error:
        service.note_refusal(actor, _ACTION, object_, error.message)
        raise _wave_conflict(error.message) from None
    except (FlashferryError, OSError, sqlite3.Error) as error:
        # The approval is stored; the next approval sends it again.
        untold = not_delivered(error)
        service.note_outcome(actor, _ACTION, object_, outcome="failed", reason=untold.sentence)
        raise untold from None
    return approval


def run_once(service: Service) -> None:
    """Send one notice for each wave that waits for an approval."""
    for run_id, wave in waiting_waves(service.state).items():
        with service.database.writing() as database:
            if add_waiting_wave(database, run_id, wave, service.moment()):
                announce(
                    *(service, database, NoticeKind.APPROVAL_NEEDED, f"run:{run_id}"),
                    f"run {run_id}: wave {wave} waits for approval",
                    {"run": run_id, "wave": wave},
                    path=f"/runs/{run_id}",
                    sites=sites_of_run(read_run(service.state, run_id, with_transfers=False)),
                )


def _check_approver(
    service: Service, database: sqlite3.Connection, actor: Actor, run: StoredRun, approval: WaveApproval
) -> None:
    sites, requested = sites_of_run(run), run.plan_digest or ""
    plan = plan_of(database, requested) if requested else None
    if not actor.may({Role.APPROVER}, sites):
        raise _wave_forbidden(f"an approver at {sites_text(sites)}")
    if plan is not None and plan.made_by == actor.name:
        raise _wave_forbidden(f"someone else than {actor.name}, who made its plan")
    if approval.digest != requested:
        found = f"plan {approval.digest[:12]}…" if approval.digest else "none"
        plan_text = f"plan {requested[:12]}…" if requested else "no plan"
        raise _wave_conflict(f"it carries out {plan_text}, and {found} was read")
    if plan is not None and (why := resume_obstacle(plan, service.now())):
        raise _wave_conflict(f"of its plan, {why}")
    if not is_run_alive(service.state, run.run_id):
        raise _wave_conflict("it is not running")
    _check_wave(service, database, run, approval)


def _check_wave(service: Service, database: sqlite3.Connection, run: StoredRun, approval: WaveApproval) -> None:
    control = control_request(service.state, run.run_id)
    try:
        may_approve(run, control, approval.wave)
    except ConfigInvalid as error:
        raise InvalidRequest(error.message, hint="See the waves on the page of the run") from None
    if control.approved_wave < approval.wave:
        return
    before = wave_approval(database, run.run_id, approval.wave)
    who = f" by {before.by} at {words.moment(before.at)}" if before is not None else ""
    raise _wave_conflict(f"it was approved{who} up to wave {control.approved_wave}")


def _wave_forbidden(who: str) -> ServiceError:
    return Forbidden(f"run: expected {who} to approve a wave of it", hint="Ask a colleague with that role")


def _wave_conflict(why: str) -> ServiceError:
    return Conflict(f"run: its wave cannot be approved: {why}", hint="Load the run again: its state has changed")


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
        if job.is_open and job.kind in RUNS:
            yield Obstacle(sentence=f"its job is {job.state}", path=f"/jobs/{job.job_id}", link="The job")
    window = window_of(database, plan)
    if window.state(service.now()) is WindowState.BEFORE:
        yield Obstacle(sentence=f"{window.why_closed(service.now())}: a run that is started now waits", waits=True)

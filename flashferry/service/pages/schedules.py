"""Schedules for people: what is due next, what became of what was due, and what may be done about it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from flashferry.service.errors import InvalidRequest
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.pages.frame import link, view_page
from flashferry.service.plans.offering import told_sites
from flashferry.service.principal import LOOKS, Actor, Role
from flashferry.service.schedules import making
from flashferry.service.schedules.calendar import HINT
from flashferry.service.schedules.making import ScheduleWish, Step
from flashferry.service.schedules.telling import told_schedule, told_whole
from flashferry.service.service import Service
from flashferry.service.texts import FormName, FormProse
from flashferry.store.service.plans import PlanState
from flashferry.store.service.plans import plans as stored_plans
from flashferry.store.service.schedules import Schedule, ScheduleKind, ScheduleState
from flashferry.store.service.schedules import schedules as stored_schedules

router = APIRouter(include_in_schema=False)

_PATH = "/schedules"
_TONES = {ScheduleState.ACTIVE: "good", ScheduleState.HELD: "warn", ScheduleState.ENDED: ""}
_STEPS = {
    ScheduleState.ACTIVE: (Step.HOLD, Step.OWN, Step.REMOVE),
    ScheduleState.HELD: (Step.RELEASE, Step.OWN, Step.REMOVE),
    ScheduleState.ENDED: (),
}
_WORDS = {Step.HOLD: "Hold", Step.OWN: "Take over", Step.RELEASE: "Let go on", Step.REMOVE: "Remove"}
_HOUR_S = 3600


@view_page(router, _PATH, "schedules.html")
def schedules(service: TheService, actor: TheActor, plan: str = "", ended: bool = False) -> object:
    """Return the schedules that one may see, those due next first, and what one more could begin."""
    with service.database.reading() as database:
        seen = [one for one in stored_schedules(database, with_ended=ended) if actor.may(LOOKS, one.sites)]
        rows = [_row(one) | told_schedule(database, one, service.now()) for one in seen]
        offered = [
            one
            for one in stored_plans(database)
            if one.state in {PlanState.DRAFT, PlanState.APPROVED} and actor.may({Role.OPERATOR}, one.sites)
        ]
    return {
        "schedules": rows,
        "with_ended": ended,
        "plans": [{"digest": one.digest, "name": one.title or one.digest[:12], "state": one.state} for one in offered],
        "chosen": plan,
        "may_nightly": actor.may({Role.OPERATOR}, ()) and service.settings.runs.nights is not None,
        "time_zone": seen[0].time_zone if seen else "UTC",
        "hint": HINT,
    }


@router.post(_PATH)
def make(
    service: TheService,
    actor: TheActor,
    calendar: FormName,
    time_zone: FormName,
    hours: Annotated[float, Form(ge=0, le=168, allow_inf_nan=False)],
    plan: FormName = "",
    night: FormName = "",
    title: FormName = "",
) -> Response:
    """Make a schedule of a plan, or of a night in a lab."""
    if bool(plan) is bool(night.strip()):
        raise InvalidRequest(
            "schedule: expected a plan or the description of a night, found " + ("both" if plan else "neither"),
            hint="Choose one of them",
        )
    wish = ScheduleWish(
        title=title,
        kind=ScheduleKind.PLAN if plan else ScheduleKind.NIGHTLY,
        subject=plan or night.strip(),
        calendar=calendar,
        time_zone=time_zone.strip(),
        window_s=round(hours * _HOUR_S),
    )
    return _back(making.make_schedule(service, actor, wish).schedule_id)


@view_page(router, f"{_PATH}/{{schedule_id}}", "schedule.html")
def schedule(service: TheService, actor: TheActor, schedule_id: str) -> object:
    """Return all of a schedule."""
    with service.database.reading() as database:
        found = making.found(database, schedule_id, actor)
        told = told_whole(database, found, service.now())
    may = actor.may({Role.OPERATOR}, found.sites)
    return _row(found) | told | {"steps": [_step_row(one) for one in _STEPS[found.state]] if may else []}


@router.post(f"{_PATH}/{{schedule_id}}/own")
def own(service: TheService, actor: TheActor, schedule_id: str, reason: FormProse = "") -> Response:
    """Answer for a schedule from now on."""
    return _stepped(service, actor, schedule_id, Step.OWN, reason)


@router.post(f"{_PATH}/{{schedule_id}}/hold")
def hold(service: TheService, actor: TheActor, schedule_id: str, reason: FormProse = "") -> Response:
    """Have a schedule begin nothing until it is let go on."""
    return _stepped(service, actor, schedule_id, Step.HOLD, reason)


@router.post(f"{_PATH}/{{schedule_id}}/release")
def release(service: TheService, actor: TheActor, schedule_id: str, reason: FormProse = "") -> Response:
    """Let a schedule go on."""
    return _stepped(service, actor, schedule_id, Step.RELEASE, reason)


@router.post(f"{_PATH}/{{schedule_id}}/remove")
def remove(service: TheService, actor: TheActor, schedule_id: str, reason: FormProse = "") -> Response:
    """End a schedule for good."""
    return _stepped(service, actor, schedule_id, Step.REMOVE, reason)


def _stepped(service: Service, actor: Actor, schedule_id: str, what: Step, reason: str) -> Response:
    making.step(service, actor, schedule_id, what, reason)
    return _back(schedule_id)


def _step_row(what: Step) -> dict[str, str]:
    return {"what": what.value, "word": _WORDS[what]}


def _row(found: Schedule) -> dict[str, object]:
    sites = told_sites(found.sites) if found.sites else "what its description says"
    return {
        "tone": _TONES[found.state],
        "told_sites": sites,
        "what": f"plan {found.subject[:12]}" if found.kind is ScheduleKind.PLAN else found.subject,
    }


def _back(schedule_id: str) -> Response:
    return RedirectResponse(link(_PATH, schedule_id), HTTPStatus.SEE_OTHER)

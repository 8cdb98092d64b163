"""Schedule pages: next due times, past outcomes, and actions."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.depends import FormName, FormProse, TheActor, TheService
from flashferry.service.entered_text import sites_text
from flashferry.service.errors import InvalidRequest
from flashferry.service.pages.frame import link, view_page
from flashferry.service.principal import ANY_ROLE, Role
from flashferry.service.schedules import scheduler
from flashferry.service.schedules.calendar import HINT
from flashferry.service.schedules.scheduler import ScheduleSpec, Step, schedule_details_json, schedule_json
from flashferry.store.service.jobs import Schedule, ScheduleKind, ScheduleState
from flashferry.store.service.jobs import schedules as stored_schedules
from flashferry.store.service.plans import PlanState
from flashferry.store.service.plans import plans as stored_plans

router = APIRouter(include_in_schema=False)
_PATH = "/schedules"
_TONES = {ScheduleState.ACTIVE: "good", ScheduleState.HELD: "warn", ScheduleState.ENDED: ""}
_STEPS = {
    ScheduleState.ACTIVE: (Step.HOLD, Step.OWN, Step.REMOVE),
    ScheduleState.HELD: (Step.RELEASE, Step.OWN, Step.REMOVE),
    ScheduleState.ENDED: (),
}
_WORDS = {Step.HOLD: "Hold", Step.OWN: "Take over", Step.RELEASE: "Release", Step.REMOVE: "Remove"}
_HOUR_S = 3600


@view_page(router, _PATH, "schedules.html")
def schedules(service: TheService, actor: TheActor, plan: str = "", ended: bool = False) -> object:
    """Return the visible schedules, next due first, and the plans that can be scheduled."""
    with service.database.reading() as database:
        seen = [one for one in stored_schedules(database, with_ended=ended) if actor.may(ANY_ROLE, one.sites)]
        rows = [_row(one) | schedule_json(database, one, service.now()) for one in seen]
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
    """Create a schedule of a plan, or of a lab night."""
    if bool(plan) is bool(night.strip()):
        raise InvalidRequest(
            "schedule: expected a plan or the description of a night, found " + ("both" if plan else "neither"),
            hint="Choose one of them",
        )
    spec = ScheduleSpec(
        title=title,
        kind=ScheduleKind.PLAN if plan else ScheduleKind.NIGHTLY,
        subject=plan or night.strip(),
        calendar=calendar,
        time_zone=time_zone.strip(),
        window_s=round(hours * _HOUR_S),
    )
    return _back(scheduler.make_schedule(service, actor, spec).schedule_id)


@view_page(router, f"{_PATH}/{{schedule_id}}", "schedule.html")
def schedule(service: TheService, actor: TheActor, schedule_id: str) -> object:
    """Return a schedule."""
    with service.database.reading() as database:
        found = scheduler.found(database, schedule_id, actor)
        details = schedule_details_json(database, found, service.now())
    may = actor.may({Role.OPERATOR}, found.sites)
    return _row(found) | details | {"steps": [_step_row(one) for one in _STEPS[found.state]] if may else []}


def _step_form(what: Step) -> Callable[..., Response]:
    """Return a route for a form that applies an action to a schedule."""

    def take(service: TheService, actor: TheActor, schedule_id: str, reason: FormProse = "") -> Response:
        scheduler.step(service, actor, schedule_id, what, reason)
        return _back(schedule_id)

    return take


for _what in Step:
    router.add_api_route(f"{_PATH}/{{schedule_id}}/{_what}", _step_form(_what), methods=["POST"], response_model=None)


def _step_row(what: Step) -> dict[str, str]:
    return {"what": what.value, "word": _WORDS[what]}


def _row(found: Schedule) -> dict[str, object]:
    sites = sites_text(found.sites) if found.sites else "the sites of its description"
    return {
        "tone": _TONES[found.state],
        "sites_text": sites,
        "what": f"plan {found.subject[:12]}" if found.kind is ScheduleKind.PLAN else found.subject,
    }


def _back(schedule_id: str) -> Response:
    return RedirectResponse(link(_PATH, schedule_id), HTTPStatus.SEE_OTHER)

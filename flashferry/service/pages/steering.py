"""Forms on a run's page: pause, continue, stop, recover, resume, approve waves."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse

from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.jobs import steering
from flashferry.service.live.snapshot import RunNow
from flashferry.service.pages.frame import link
from flashferry.service.plans.deciding import approve_wave
from flashferry.service.principal import Actor, Role
from flashferry.service.texts import FormName, FormProse
from flashferry.store.control_requests import SteerKind
from flashferry.store.service.plans import plan_of

router = APIRouter(include_in_schema=False)


def _form(act: Callable[[TheService, Actor, str, str], object]) -> Callable[..., RedirectResponse]:
    """Return a route for a form that applies an action with a reason to a run."""

    def take(service: TheService, actor: TheActor, run_id: str, reason: FormProse = "") -> RedirectResponse:
        act(service, actor, run_id, reason)
        return _back(run_id)

    return take


def _steering(what: SteerKind) -> Callable[[TheService, Actor, str, str], object]:
    return lambda service, actor, run_id, reason: steering.steer(service, actor, run_id, what, reason)


for _path, _act in (
    ("pause", _steering(SteerKind.PAUSE)),
    ("continue", _steering(SteerKind.CONTINUE)),
    ("stop", _steering(SteerKind.STOP)),
    ("recover", steering.restore),
    ("resume", steering.go_on),
):
    router.add_api_route(f"/runs/{{run_id}}/{_path}", _form(_act), methods=["POST"], response_model=None)


@router.post("/runs/{run_id}/approve")
def approve(
    service: TheService,
    actor: TheActor,
    run_id: str,
    wave: Annotated[int, Form(ge=0, le=100_000)],
    digest: FormName = "",
    comment: FormProse = "",
) -> RedirectResponse:
    """Approve the waves of a run up to one, for the plan that the page showed."""
    approve_wave(service, actor, run_id, wave, digest=digest, comment=comment)
    return _back(run_id)


def offered(service: TheService, actor: Actor, run: RunNow) -> dict[str, object]:
    """Return which forms the caller sees on a run's page; the routes check again.

    `run` includes devices that the caller may not see.
    """
    sites = {one.site for one in run.devices}
    operates = actor.may({Role.OPERATOR}, sites)
    approves = actor.may({Role.APPROVER}, sites)
    with service.database.reading() as database:
        plan = plan_of(database, run.plan_digest) if run.plan_digest is not None else None
    is_over = not run.is_alive
    return {
        "steers": operates and run.is_alive,
        "restores": operates and is_over and bool(run.unrestored),
        "resumes": operates and is_over and run.verb == "stage" and plan is not None and bool(run.whole.not_started),
        "approves": approves and run.is_alive and len(run.waves) > 1,
        "says_yes": approves and run.is_alive and run.waiting_wave is not None,
        "is_maker": plan is not None and plan.made_by == actor.name,
        "digest": run.plan_digest or "",
        "waves": [number for number in run.waves if number >= (run.waiting_wave or 0)],
        "waiting_wave": run.waiting_wave,
    }


def _back(run_id: str) -> RedirectResponse:
    return RedirectResponse(link("/runs", run_id), HTTPStatus.SEE_OTHER.value)

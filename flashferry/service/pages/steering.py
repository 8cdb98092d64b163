"""The forms of a run's page: pause, continue, stop, restore, go on, a yes to a wave; and a job that is cancelled."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.responses import RedirectResponse

from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.jobs import steering
from flashferry.service.jobs.cancelling import cancel
from flashferry.service.live.snapshot import RunNow
from flashferry.service.pages.frame import link
from flashferry.service.plans.waves import approve_wave
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.service.texts import FormName, FormProse
from flashferry.store.control_requests import WishKind
from flashferry.store.service.plans import plan_of

router = APIRouter(include_in_schema=False)


@router.post("/runs/{run_id}/pause")
def pause(service: TheService, actor: TheActor, run_id: str, reason: FormProse = "") -> RedirectResponse:
    """Let no further device begin; those under way go on to their end."""
    steering.steer(service, actor, run_id, WishKind.PAUSE, reason)
    return _back(run_id)


@router.post("/runs/{run_id}/continue")
def go_on(service: TheService, actor: TheActor, run_id: str, reason: FormProse = "") -> RedirectResponse:
    """Go on with a run that is paused."""
    steering.steer(service, actor, run_id, WishKind.CONTINUE, reason)
    return _back(run_id)


@router.post("/runs/{run_id}/stop")
def stop(service: TheService, actor: TheActor, run_id: str, reason: FormProse = "") -> RedirectResponse:
    """End what is under way, restore every device and report."""
    steering.steer(service, actor, run_id, WishKind.STOP, reason)
    return _back(run_id)


@router.post("/runs/{run_id}/recover")
def recover(service: TheService, actor: TheActor, run_id: str, reason: FormProse = "") -> RedirectResponse:
    """Restore what a run left tuned."""
    steering.restore(service, actor, run_id, reason)
    return _back(run_id)


@router.post("/runs/{run_id}/resume")
def resume(service: TheService, actor: TheActor, run_id: str, reason: FormProse = "") -> RedirectResponse:
    """Restore what a run left, and go on with it."""
    steering.go_on(service, actor, run_id, reason)
    return _back(run_id)


@router.post("/runs/{run_id}/approve")
def approve(
    service: TheService,
    actor: TheActor,
    run_id: str,
    wave: Annotated[int, Form(ge=0, le=100_000)],
    digest: FormName = "",
    comment: FormProse = "",
) -> RedirectResponse:
    """Let a run begin its waves up to one, for the plan that the page showed."""
    approve_wave(service, actor, run_id, wave, digest=digest, comment=comment)
    return _back(run_id)


@router.post("/jobs/{job_id}/cancel")
def cancel_job(service: TheService, actor: TheActor, job_id: str, reason: FormProse = "") -> RedirectResponse:
    """Take a job that has not begun out of the queue for good; leads to what it was for."""
    job = cancel(service, actor, job_id, reason)
    if job.run_id is not None:
        return _back(job.run_id)
    path = link("/plans", job.digest) if job.digest is not None else "/plans"
    return RedirectResponse(path, HTTPStatus.SEE_OTHER.value)


def offered(service: Service, actor: Actor, run: RunNow) -> dict[str, object]:
    """Return which forms a run's page offers to somebody; the routes look again at what they are sent.

    Args:
        service: The service.
        actor: Who looks.
        run: The run with all its devices, those that he may not see among them.
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
        "resumes": operates and is_over and run.verb == "stage" and plan is not None and bool(run.whole.not_begun),
        "approves": approves and run.is_alive and len(run.waves) > 1,
        "says_yes": approves and run.is_alive and run.waiting_wave is not None,
        "is_maker": plan is not None and plan.made_by == actor.name,
        "digest": run.plan_digest or "",
        "waves": [number for number in run.waves if number >= (run.waiting_wave or 0)],
        "waiting_wave": run.waiting_wave,
    }


def _back(run_id: str) -> RedirectResponse:
    return RedirectResponse(link("/runs", run_id), HTTPStatus.SEE_OTHER.value)

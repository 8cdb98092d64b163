"""Plan pages: list, plan with all actions, and differences between two plans."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Form, UploadFile
from starlette.responses import RedirectResponse, Response

from flashferry.service.api import plans as api
from flashferry.service.api.depends import FormName, FormNames, FormProse, TheActor, TheService
from flashferry.service.chosen import AT_THE_START, WITH_THE_PLAN, carried_rows, chosen_by_form, form_rows
from flashferry.service.entered_text import sites_text
from flashferry.service.images.verification import usable_images
from flashferry.service.known_names import operated_sites
from flashferry.service.pages.frame import link, view_page
from flashferry.service.pages.jobs import job_row
from flashferry.service.plans import deciding
from flashferry.service.plans.deciding import Verb, obstacles
from flashferry.service.plans.eligibility import MOST_BYTES, database_obstacle, found, offer, plan_in
from flashferry.service.plans.planning import PlanSpec, begin, being_made, make_plan
from flashferry.service.plans.serializers import plan_json
from flashferry.service.principal import ANY_ROLE, Actor, Role
from flashferry.service.run_visibility import Unfinished, unfinished_devices
from flashferry.store.service.jobs import RUNS, JobKind, jobs_of_plan
from flashferry.store.service.plans import PlanState, StoredPlan
from flashferry.store.service.plans import plans as stored_plans

router = APIRouter(include_in_schema=False)
_PATH = "/plans"
_TONES = {PlanState.DRAFT: "warn", PlanState.APPROVED: "good", PlanState.DENIED: "bad", PlanState.WITHDRAWN: ""}


@view_page(router, _PATH, "plans.html")
def plans(service: TheService, actor: TheActor, title: str = "", state: str = "", unfinished: str = "") -> object:
    """Return the visible plans, newest first, filtered by title and state.

    `unfinished` is a run whose remaining devices the form for a new plan selects.
    """
    with service.database.reading() as database:
        seen = [one for one in stored_plans(database, title=title or None) if actor.may(ANY_ROLE, one.sites)]
        rows = [
            _summary(one) | {"why_not": database_obstacle(database, one, service.now())}
            for one in seen
            if state in {"", one.state.value}
        ]
        jobs = being_made(service, database, actor)
    rest = unfinished_devices(service.state, actor, unfinished) if unfinished else Unfinished()
    return {
        "plans": rows,
        "being_made": [job_row(one, actor) for one in jobs],
        "title": title,
        "state": state,
        "states": [one.value for one in PlanState],
        "at": service.now().isoformat(),
        "sites": operated_sites(service, actor),
        "is_everywhere": actor.may({Role.OPERATOR}, ()),
        "images": usable_images(service),
        "zone": f"{service.now().astimezone():%Z}",
        "unfinished": unfinished,
        "rest": rest.hosts,
        "refused": rest.refused,
        "image": rest.image,
        "may_offer": actor.has({Role.OPERATOR}),
        "choices": form_rows(WITH_THE_PLAN),
    }


@router.post(_PATH)
def offer_file(service: TheService, actor: TheActor, file: UploadFile, title: FormName = "") -> Response:
    """Store an uploaded plan file as a draft."""
    stored, _ = offer(service, actor, file.file.read(MOST_BYTES + 1), title)
    return _back(stored.digest)


@router.post(f"{_PATH}/make")
def make(
    service: TheService,
    actor: TheActor,
    title: FormName = "",
    image: FormName = "",
    sites: FormNames = [],  # noqa: B006 -- FastAPI makes each request its own
    window: FormName = "",
    unfinished: FormName = "",
    *,
    golden: Annotated[bool, Form()] = False,
    chosen: Annotated[dict[str, object], Depends(chosen_by_form(WITH_THE_PLAN))],
) -> Response:
    """Create a plan by a job that checks the devices; it is stored when the job has ended."""
    names = tuple(name for one in sites for name in one.replace(",", " ").split())
    hosts: tuple[str, ...] = ()
    if unfinished:
        rest = unfinished_devices(service.state, actor, unfinished)
        hosts, names = rest.hosts, rest.sites
    spec = PlanSpec(
        title=title,
        image=image.strip(),
        golden=golden,
        sites=names,
        hosts=hosts,
        window=window.strip(),
        chosen=chosen,
    )
    make_plan(service, actor, spec)
    return RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


# Registered before the page of a plan, so that `DIGEST/diff` matches this route.
@view_page(router, f"{_PATH}/{{digest}}/diff", "plan_diff.html")
def differences(service: TheService, actor: TheActor, digest: str, against: str = "") -> object:
    """Return the differences from another plan, or from the previous one of the same title."""
    with service.database.reading() as database:
        new = found(database, digest, actor)
        others = [one for one in stored_plans(database) if one.digest != digest and actor.may(ANY_ROLE, one.sites)]
    earlier = [one for one in others if one.title == new.title and one.made_at <= new.made_at]
    named = against or (earlier[0].digest if earlier else "")
    details = api.compare(service, actor, digest, named) if named else None
    return {
        "plan": _summary(new),
        "against": named,
        "others": [_summary(one) for one in others[:100]],
        "diff": details,
    }


@view_page(router, f"{_PATH}/{{digest}}", "plan.html")
def plan(service: TheService, actor: TheActor, digest: str) -> object:
    """Return a plan, and the actions that the caller can take."""
    details = api.read_plan(service, actor, digest)
    with service.database.reading() as database:
        stored, content = found(database, digest, actor), plan_in(database, digest)
        jobs = jobs_of_plan(database, digest)
    return {
        "at": service.now().isoformat(),
        "missing": obstacles(service, actor, stored),
        "made_by_job": next((one.job_id for one in jobs if one.kind is JobKind.PLAN), None),
        "jobs": [job_row(one, actor) for one in reversed(jobs) if one.kind in RUNS],
        "rehearsals": [job_row(one, actor) for one in reversed(jobs) if one.kind is JobKind.DRY_RUN],
        "plan": _summary(stored) | {name: details[name] for name in ("is_startable", "why_not")},
        "content": details["plan"],
        "settings": carried_rows(content),
        "may": {verb: _why_not(actor, verb, stored) for verb in ("approve", "deny", "withdraw")},
        "may_start": actor.may({Role.OPERATOR}, stored.sites),
        "choices": form_rows(AT_THE_START),
    }


@router.post(f"{_PATH}/{{digest}}/approve")
def approve(service: TheService, actor: TheActor, digest: str, comment: FormProse = "") -> Response:
    """Approve a plan."""
    deciding.approve(service, actor, digest, comment)
    return _back(digest)


@router.post(f"{_PATH}/{{digest}}/deny")
def deny(service: TheService, actor: TheActor, digest: str, comment: FormProse = "") -> Response:
    """Deny a plan."""
    deciding.deny(service, actor, digest, comment)
    return _back(digest)


@router.post(f"{_PATH}/{{digest}}/withdraw")
def withdraw(service: TheService, actor: TheActor, digest: str, comment: FormProse = "") -> Response:
    """Withdraw a plan."""
    deciding.withdraw(service, actor, digest, comment)
    return _back(digest)


@router.post(f"{_PATH}/{{digest}}/start")
def start(
    service: TheService,
    actor: TheActor,
    digest: str,
    reason: FormProse = "",
    *,
    chosen: Annotated[dict[str, object], Depends(chosen_by_form(AT_THE_START))],
) -> Response:
    """Start the run of a plan."""
    begin(service, actor, digest, reason=reason, chosen=chosen)
    return _back(digest)


@router.post(f"{_PATH}/{{digest}}/rehearse")
def rehearse(service: TheService, actor: TheActor, digest: str) -> Response:
    """Request a job that shows the commands of a run and changes nothing."""
    begin(service, actor, digest, rehearse=True)
    return _back(digest)


def _why_not(actor: Actor, verb: Verb, stored: StoredPlan) -> str:
    """Return why the caller cannot decide on a plan, as a sentence; empty if allowed."""
    if not deciding.may_be_decided(verb, stored):
        return f"The plan is {stored.state.value}."
    expected = deciding.who_may(actor, verb, stored)
    if expected and verb != "withdraw" and actor.name == stored.made_by:
        return f"You made this plan; someone else must {verb} it."
    return f"This needs {expected}." if expected else ""


def _summary(stored: StoredPlan) -> dict[str, object]:
    return plan_json(stored) | {
        "name": stored.title or f"plan {stored.digest[:12]}",
        "sites_text": sites_text(stored.sites),
        "tone": _TONES[stored.state],
    }


def _back(digest: str) -> Response:
    return RedirectResponse(link(_PATH, digest), HTTPStatus.SEE_OTHER)

"""Plans API: offer, list, read, compare, approve, deny and withdraw plans."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from flashferry.core.codec import to_json
from flashferry.service.api.depends import Name, Names, Number, Prose, TheActor, TheService
from flashferry.service.api.jobs import IdempotencyKey, accepted
from flashferry.service.chosen import WITH_THE_PLAN, chosen_in, with_settings
from flashferry.service.errors import NotFound
from flashferry.service.jobs.create import once_of
from flashferry.service.plans import deciding
from flashferry.service.plans.deciding import approve_wave
from flashferry.service.plans.eligibility import MOST_BYTES, database_obstacle, found, offer, plan_in, start_obstacle
from flashferry.service.plans.planning import PlanSpec, make_plan
from flashferry.service.plans.serializers import difference, difference_json, plan_content_json, plan_json
from flashferry.service.principal import ANY_ROLE
from flashferry.store.service.plans import plans as stored_plans
from flashferry.store.service.plans import text_of

router = APIRouter(prefix="/api/v1/plans", tags=["plans"])
waves = APIRouter(prefix="/api/v1/runs", tags=["runs"])
"""Waves of runs, approved for the plan that was read."""
_PLAN = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


@with_settings(WITH_THE_PLAN)
class PlanAsked(BaseModel):
    """Body that asks the service to create a plan."""

    title: Name = Field("", description="Title; plans of one title are compared with each other.")
    image: Name = Field("", description="An image of the service's folder for all; empty: by the inventory's rules.")
    golden: bool = Field(False, description="Each device has the golden image of its model, in place of those rules.")
    sites: Names = Field([], description="For these sites; empty: for all, which takes the role everywhere.")
    hosts: Names = Field([], description="For these devices of them; empty: for all.")
    groups: Names = Field([], description="For these groups; empty: for all.")
    window: Name = Field("", description="When the run may work: 22:00-05:00, by the clock of the service's host.")


class Yes(BaseModel):
    """Body that approves a wave."""

    digest: Name = Field("", description="SHA-256 of the plan that was read; empty if the run has none.")
    comment: Prose = Field("", description="Shown in the audit and with the run.")


class Comment(BaseModel):
    """Body with a comment on a decision."""

    comment: Prose = Field("", description="Shown in the audit and with the plan.")


async def sent(request: Request) -> bytes:
    """Return the request body, read to just above the size limit of a plan."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            break
    return bytes(content)


@router.post("", openapi_extra=_PLAN)
def offer_plan(
    response: Response,
    service: TheService,
    actor: TheActor,
    content: Annotated[bytes, Depends(sent)],
    title: Annotated[str, Query(description="Title; plans of one title are compared with each other.")] = "",
) -> dict[str, object]:
    """Store a file written by `flashferry plan --output` as a draft; 200 if it is stored already."""
    stored, is_new = offer(service, actor, content, title)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    response.headers["Location"] = f"{router.prefix}/{stored.digest}"
    return plan_json(stored)


@router.post("/make", status_code=HTTPStatus.ACCEPTED)
def make(
    response: Response,
    service: TheService,
    actor: TheActor,
    asked: PlanAsked,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, object]:
    """Create a plan by a job that checks the devices; once done, the job's `digest` names the plan."""
    lists = {name: tuple(getattr(asked, name)) for name in ("sites", "hosts", "groups")}
    spec = PlanSpec(
        title=asked.title,
        image=asked.image,
        golden=asked.golden,
        window=asked.window,
        chosen=chosen_in(asked, WITH_THE_PLAN),
        **lists,
    )
    job = make_plan(service, actor, spec, once_of(idempotency_key, "plans/make", asked.model_dump()))
    return accepted(response, job) | {"job": job.job_id}


@router.get("")
def list_plans(service: TheService, actor: TheActor, title: str | None = None) -> dict[str, object]:
    """List the plans that the caller may see, newest first; their images are not checked."""
    with service.database.reading() as database:
        seen = [one for one in stored_plans(database, title=title) if actor.may(ANY_ROLE, one.sites)]
        return {
            "plans": [plan_json(one) | {"why_not": database_obstacle(database, one, service.now())} for one in seen]
        }


@router.get("/{digest}")
def read_plan(service: TheService, actor: TheActor, digest: str) -> dict[str, object]:
    """Return a plan: its content, its decisions, and whether it can start now."""
    with service.database.reading() as database:
        stored, content = found(database, digest, actor), plan_in(database, digest)
    return plan_json(stored, start_obstacle(service, digest)) | {"plan": plan_content_json(content)}


@router.get("/{digest}/file")
def read_file(service: TheService, actor: TheActor, digest: str) -> Response:
    """Return the plan file as it was offered, for `flashferry stage --plan`."""
    with service.database.reading() as database:
        found(database, digest, actor)
        text = text_of(database, digest)
    return Response(text, media_type="application/json")


@router.get("/{digest}/diff")
def compare(service: TheService, actor: TheActor, digest: str, against: str | None = None) -> dict[str, object]:
    """Return the differences from another plan, or from the previous one of the same title."""
    with service.database.reading() as database:
        new = found(database, digest, actor)
        old = found(database, against, actor) if against is not None else None
        if old is None:
            earlier = (one for one in stored_plans(database, title=new.title) if one.made_at <= new.made_at)
            old = next((one for one in earlier if one.digest != digest and actor.may(ANY_ROLE, one.sites)), None)
        if old is None:
            raise NotFound(
                "plan: expected an earlier one of the same title to compare it with, found none",
                hint="Name one: ?against=DIGEST",
            )
        before, after = plan_in(database, old.digest), plan_in(database, digest)
    return difference_json(difference(before, after), old.digest, digest)


@router.post("/{digest}/approve")
def approve(service: TheService, actor: TheActor, digest: str, said: Comment) -> dict[str, object]:
    """Approve exactly this plan text; its maker is refused."""
    return plan_json(deciding.approve(service, actor, digest, said.comment))


@router.post("/{digest}/deny")
def deny(service: TheService, actor: TheActor, digest: str, said: Comment) -> dict[str, object]:
    """Deny a plan permanently, with a reason."""
    return plan_json(deciding.deny(service, actor, digest, said.comment))


@router.post("/{digest}/withdraw")
def withdraw(service: TheService, actor: TheActor, digest: str, said: Comment) -> dict[str, object]:
    """Withdraw a plan permanently, with a reason; a run of it continues."""
    return plan_json(deciding.withdraw(service, actor, digest, said.comment))


@waves.post("/{run_id}/waves/{wave}/approve")
def approve_one(service: TheService, actor: TheActor, run_id: str, wave: Number, said: Yes) -> dict[str, object]:
    """Approve a run's waves up to this one, as an approver at its sites who did not make its plan."""
    return dict(to_json(approve_wave(service, actor, run_id, wave, digest=said.digest, comment=said.comment)))

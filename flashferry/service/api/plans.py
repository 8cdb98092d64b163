"""Plans for programs: offered, listed, read, compared, decided about."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from flashferry.service.errors import NotFound
from flashferry.core.codec import to_json
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.api.jobs import IdempotencyKey, accepted
from flashferry.service.chosen import WITH_THE_PLAN, chosen_in, with_settings
from flashferry.service.jobs.submit import once_of
from flashferry.service.plans import deciding
from flashferry.service.plans.diff import difference
from flashferry.service.plans.eligibility import found, plan_in, why_not_begun, why_not_startable
from flashferry.service.plans.offering import MOST_BYTES, offer
from flashferry.service.plans.planning import PlanWish, make_plan
from flashferry.service.plans.telling import told_content, told_difference, told_plan
from flashferry.service.plans.waves import approve_wave
from flashferry.service.principal import LOOKS
from flashferry.service.texts import Name, Names, Number, Prose
from flashferry.store.service.plans import plans as stored_plans
from flashferry.store.service.plans import text_of

router = APIRouter(prefix="/api/v1/plans", tags=["plans"])

waves = APIRouter(prefix="/api/v1/runs", tags=["runs"])
"""Of runs, whose waves are approved for the plan that was read."""

_PLAN = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


@with_settings(WITH_THE_PLAN)
class PlanAsked(BaseModel):
    """A plan that the service is to make."""

    title: Name = Field("", description="What it is to be called; plans of one title follow each other.")
    image: Name = Field("", description="An image of the service's folder for all; empty: by the inventory's rules.")
    golden: bool = Field(False, description="Each device has the golden image of its model, in place of those rules.")
    sites: Names = Field([], description="For these sites; empty: for all, which takes the role everywhere.")
    hosts: Names = Field([], description="For these devices of them; empty: for all.")
    groups: Names = Field([], description="For these groups; empty: for all.")
    window: Name = Field(
        "", description="When the run may be at work: 22:00-05:00, by the clock of the service's host."
    )


class Yes(BaseModel):
    """A yes to a wave of a run."""

    digest: Name = Field(
        "", description="SHA-256 of the plan that was read; empty where the run was begun without one."
    )
    comment: Prose = Field("", description="For the audit, and for who reads the run.")


class Comment(BaseModel):
    """What somebody says to his decision."""

    comment: Prose = Field("", description="For the audit, and for who reads the plan.")


async def sent(request: Request) -> bytes:
    """Return what was sent, which must not be more than a plan can be.

    Raises:
        ServiceError: It is more.
    """
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
    title: Annotated[str, Query(description="What people call it; plans of one title follow each other.")] = "",
) -> dict[str, object]:
    """Keep the text that `flashferry plan --output FILE` wrote as a draft; 200 where it is here already."""
    stored, is_new = offer(service, actor, content, title)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    response.headers["Location"] = f"{router.prefix}/{stored.digest}"
    return told_plan(stored)


@router.post("/make", status_code=HTTPStatus.ACCEPTED)
def make(
    response: Response,
    service: TheService,
    actor: TheActor,
    asked: PlanAsked,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, object]:
    """Have a plan made by a job of the service, which looks at the devices; the job's `digest` is the plan's then."""
    lists = {name: tuple(getattr(asked, name)) for name in ("sites", "hosts", "groups")}
    wish = PlanWish(
        title=asked.title,
        image=asked.image,
        golden=asked.golden,
        window=asked.window,
        chosen=chosen_in(asked, WITH_THE_PLAN),
        **lists,
    )
    job = make_plan(service, actor, wish, once_of(idempotency_key, "plans/make", asked.model_dump()))
    return accepted(response, job) | {"job": job.job_id}


@router.get("")
def list_plans(service: TheService, actor: TheActor, title: str | None = None) -> dict[str, object]:
    """List the plans that one may see, the newest first; their images are looked at when one is read."""
    with service.database.reading() as database:
        seen = [one for one in stored_plans(database, title=title) if actor.may(LOOKS, one.sites)]
        return {"plans": [told_plan(one) | {"why_not": why_not_begun(database, one, service.now())} for one in seen]}


@router.get("/{digest}")
def read_plan(service: TheService, actor: TheActor, digest: str) -> dict[str, object]:
    """Tell all of a plan: what was decided, whether it may be begun now, and what it says."""
    with service.database.reading() as database:
        stored, content = found(database, digest, actor), plan_in(database, digest)
    return told_plan(stored, why_not_startable(service, digest)) | {"plan": told_content(content)}


@router.get("/{digest}/file")
def read_file(service: TheService, actor: TheActor, digest: str) -> Response:
    """Return the plan's file as it was offered, for `flashferry stage --plan`."""
    with service.database.reading() as database:
        found(database, digest, actor)
        text = text_of(database, digest)
    return Response(text, media_type="application/json")


@router.get("/{digest}/diff")
def compare(service: TheService, actor: TheActor, digest: str, against: str | None = None) -> dict[str, object]:
    """Tell what differs from another plan, or from the one before it of the same title."""
    with service.database.reading() as database:
        new = found(database, digest, actor)
        old = found(database, against, actor) if against is not None else None
        if old is None:
            earlier = (one for one in stored_plans(database, title=new.title) if one.made_at <= new.made_at)
            old = next((one for one in earlier if one.digest != digest and actor.may(LOOKS, one.sites)), None)
        if old is None:
            raise NotFound(
                "plan: expected an earlier one of the same title to compare it with, found none",
                hint="Name one: ?against=DIGEST",
            )
        before, after = plan_in(database, old.digest), plan_in(database, digest)
    return told_difference(difference(before, after), old.digest, digest)


@router.post("/{digest}/approve")
def approve(service: TheService, actor: TheActor, digest: str, said: Comment) -> dict[str, object]:
    """Approve a plan: not one's own, and this very text."""
    return told_plan(deciding.approve(service, actor, digest, said.comment))


@router.post("/{digest}/deny")
def deny(service: TheService, actor: TheActor, digest: str, said: Comment) -> dict[str, object]:
    """Deny a plan for good, and say why."""
    return told_plan(deciding.deny(service, actor, digest, said.comment))


@router.post("/{digest}/withdraw")
def withdraw(service: TheService, actor: TheActor, digest: str, said: Comment) -> dict[str, object]:
    """Take a plan back for good, and say why; a run of it goes on."""
    return told_plan(deciding.withdraw(service, actor, digest, said.comment))


@waves.post("/{run_id}/waves/{wave}/approve")
def approve_one(service: TheService, actor: TheActor, run_id: str, wave: Number, said: Yes) -> dict[str, object]:
    """Let a run begin its waves up to this one: by an approver at its sites who did not make its plan."""
    return dict(to_json(approve_wave(service, actor, run_id, wave, digest=said.digest, comment=said.comment)))

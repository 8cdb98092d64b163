"""Schedules API: create, take over, hold, release and end schedules."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import Name, Number, Prose, TheActor, TheService
from flashferry.service.principal import ANY_ROLE, Actor
from flashferry.service.schedules import scheduler
from flashferry.service.schedules.scheduler import ScheduleSpec, Step, schedule_details_json, schedule_json
from flashferry.service.service import Service
from flashferry.store.service.jobs import ScheduleKind
from flashferry.store.service.jobs import schedules as stored_schedules

router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])


class NewSchedule(BaseModel):
    """Body that describes a new schedule."""

    kind: ScheduleKind = Field(ScheduleKind.PLAN, description="What it begins.")
    subject: Name = Field(description="The digest of a plan, or the path of a night's description in its folder.")
    calendar: Name = Field(description="'once 2026-11-30 22:00', 'daily 22:00', 'mon-fri 22:00', '2nd sat 22:00'.")
    time_zone: Name = Field(description="Of the IANA database: Europe/Amsterdam.")
    window_s: Number = Field(description="Longest time after each due time that the work may last, seconds.")
    title: Name = Field("", description="What people call it; empty: as its plan.")


class Reason(BaseModel):
    """Body with the reason of an action."""

    reason: Prose = Field(description="For the audit, and for who reads the schedule.")


@router.get("")
def list_schedules(service: TheService, actor: TheActor, ended: bool = False) -> dict[str, object]:
    """List the schedules that the caller may see, next due first; `ended=true` includes ended ones."""
    with service.database.reading() as database:
        seen = [one for one in stored_schedules(database, with_ended=ended) if actor.may(ANY_ROLE, one.sites)]
        return {"schedules": [schedule_json(database, one, service.now()) for one in seen]}


@router.post("", status_code=HTTPStatus.CREATED)
def make(response: Response, service: TheService, actor: TheActor, requested: NewSchedule) -> dict[str, object]:
    """Create a schedule, owned by the caller. Its plan can be approved later, up to the due time."""
    made = scheduler.make_schedule(service, actor, ScheduleSpec(**requested.model_dump()))
    response.headers["Location"] = f"{router.prefix}/{made.schedule_id}"
    return _whole(service, actor, made.schedule_id)


@router.get("/{schedule_id}")
def read(service: TheService, actor: TheActor, schedule_id: str) -> dict[str, object]:
    """Return a schedule with its next due times and past outcomes."""
    return _whole(service, actor, schedule_id)


@router.post("/{schedule_id}/own")
def own(service: TheService, actor: TheActor, schedule_id: str, said: Reason) -> dict[str, object]:
    """Take over a schedule; its runs are then started on behalf of the new owner."""
    return _step(service, actor, schedule_id, Step.OWN, said.reason)


@router.post("/{schedule_id}/hold")
def hold(service: TheService, actor: TheActor, schedule_id: str, said: Reason) -> dict[str, object]:
    """Hold a schedule: it starts nothing until it is released."""
    return _step(service, actor, schedule_id, Step.HOLD, said.reason)


@router.post("/{schedule_id}/release")
def release(service: TheService, actor: TheActor, schedule_id: str, said: Reason) -> dict[str, object]:
    """Release a held schedule; due times that passed meanwhile are skipped."""
    return _step(service, actor, schedule_id, Step.RELEASE, said.reason)


@router.delete("/{schedule_id}")
def remove(
    service: TheService,
    actor: TheActor,
    schedule_id: str,
    reason: Annotated[str, Query(description="For the audit.")] = "",
) -> dict[str, object]:
    """End a schedule permanently; jobs that it started continue, and its history stays readable."""
    return _step(service, actor, schedule_id, Step.REMOVE, reason)


def _step(service: Service, actor: Actor, schedule_id: str, what: Step, reason: str) -> dict[str, object]:
    scheduler.step(service, actor, schedule_id, what, reason)
    return _whole(service, actor, schedule_id)


def _whole(service: Service, actor: Actor, schedule_id: str) -> dict[str, object]:
    with service.database.reading() as database:
        return schedule_details_json(database, scheduler.found(database, schedule_id, actor), service.now())

"""Schedules for programs: made, listed, taken over, held, let go on, removed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.principal import LOOKS, Actor
from flashferry.service.schedules import making
from flashferry.service.schedules.making import ScheduleWish, Step
from flashferry.service.schedules.telling import told_schedule, told_whole
from flashferry.service.service import Service
from flashferry.service.texts import Name, Number, Prose
from flashferry.store.service.schedules import ScheduleKind
from flashferry.store.service.schedules import schedules as stored_schedules

router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])


class NewSchedule(BaseModel):
    """A schedule as somebody wants it."""

    kind: ScheduleKind = Field(ScheduleKind.PLAN, description="What it begins.")
    subject: Name = Field(description="The digest of a plan, or the path of a night's description in its folder.")
    calendar: Name = Field(description="'once 2026-11-30 22:00', 'daily 22:00', 'mon-fri 22:00', '2nd sat 22:00'.")
    time_zone: Name = Field(description="Of the IANA database: Europe/Amsterdam.")
    window_s: Number = Field(description="So long behind each due time the work may last, seconds.")
    title: Name = Field("", description="What people call it; empty: as its plan.")


class Reason(BaseModel):
    """Why somebody steps in."""

    reason: Prose = Field(description="For the audit, and for who reads the schedule.")


@router.get("")
def list_schedules(service: TheService, actor: TheActor, ended: bool = False) -> dict[str, object]:
    """List the schedules that one may see, those due next first; with `ended=true` also those that are over."""
    with service.database.reading() as database:
        seen = [one for one in stored_schedules(database, with_ended=ended) if actor.may(LOOKS, one.sites)]
        return {"schedules": [told_schedule(database, one, service.now()) for one in seen]}


@router.post("", status_code=HTTPStatus.CREATED)
def make(response: Response, service: TheService, actor: TheActor, wanted: NewSchedule) -> dict[str, object]:
    """Make a schedule; who makes it owns it. Its plan may be approved later, up to the due time."""
    made = making.make_schedule(service, actor, ScheduleWish(**wanted.model_dump()))
    response.headers["Location"] = f"{router.prefix}/{made.schedule_id}"
    return _whole(service, actor, made.schedule_id)


@router.get("/{schedule_id}")
def read(service: TheService, actor: TheActor, schedule_id: str) -> dict[str, object]:
    """Tell all of a schedule: its next due times, and what became of the last ones."""
    return _whole(service, actor, schedule_id)


@router.post("/{schedule_id}/own")
def own(service: TheService, actor: TheActor, schedule_id: str, said: Reason) -> dict[str, object]:
    """Answer for a schedule from now on: what it begins is begun for the new owner."""
    return _step(service, actor, schedule_id, Step.OWN, said.reason)


@router.post("/{schedule_id}/hold")
def hold(service: TheService, actor: TheActor, schedule_id: str, said: Reason) -> dict[str, object]:
    """Have a schedule begin nothing until it is let go on."""
    return _step(service, actor, schedule_id, Step.HOLD, said.reason)


@router.post("/{schedule_id}/release")
def release(service: TheService, actor: TheActor, schedule_id: str, said: Reason) -> dict[str, object]:
    """Let a schedule go on; due times that passed meanwhile are gone."""
    return _step(service, actor, schedule_id, Step.RELEASE, said.reason)


@router.delete("/{schedule_id}")
def remove(
    service: TheService,
    actor: TheActor,
    schedule_id: str,
    reason: Annotated[str, Query(description="For the audit.")] = "",
) -> dict[str, object]:
    """End a schedule for good; what it began goes on, and what became of its due times stays to be read."""
    return _step(service, actor, schedule_id, Step.REMOVE, reason)


def _step(service: Service, actor: Actor, schedule_id: str, what: Step, reason: str) -> dict[str, object]:
    making.step(service, actor, schedule_id, what, reason)
    return _whole(service, actor, schedule_id)


def _whole(service: Service, actor: Actor, schedule_id: str) -> dict[str, object]:
    with service.database.reading() as database:
        return told_whole(database, making.found(database, schedule_id, actor), service.now())

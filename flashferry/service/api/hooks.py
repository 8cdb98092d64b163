"""Hooks for programs: made, changed, tried, removed; and what became of what they were sent."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from http import HTTPStatus

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.hooks import managing
from flashferry.service.hooks.managing import CHOICES, HookForm, HookWish, told_hook
from flashferry.service.texts import Name, Names
from flashferry.store.service import hooks as rows

router = APIRouter(prefix="/api/v1/hooks", tags=["hooks"])

MOST_NOTICES = 100


class HookInput(BaseModel):
    """A hook as it is to be."""

    name: Name = Field(description="What people call it; no two of a name.")
    form: HookForm = Field(description="In which form it is sent notices.")
    target: Name = Field(description="Where it leads; of Slack and Teams what people call the channel.")
    secret_name: Name = Field("", description="The section [hooks.NAME] of the configuration that has its secret.")
    kinds: Names = Field(description=f"Some of: {', '.join(CHOICES)}.")
    sites: Names = Field([], description="Of what touches one of these sites alone; none: of all.")
    is_paused: bool = Field(False, description="Whether it is sent nothing for now.")

    def wish(self) -> HookWish:
        """Return it as the service takes it."""
        return HookWish(
            name=self.name,
            form=self.form.value,
            target=self.target,
            secret_name=self.secret_name,
            kinds=tuple(self.kinds),
            sites=tuple(self.sites),
            is_paused=self.is_paused,
        )


@router.get("")
def list_hooks(service: TheService) -> dict[str, object]:
    """List hooks by name, with how many of their notices were given up."""
    with service.database.reading() as database:
        dead = rows.dead_counts(database)
        return {"hooks": [told_hook(hook) | {"given_up": dead.get(hook.hook_id, 0)} for hook in rows.hooks(database)]}


@router.post("", status_code=HTTPStatus.CREATED)
def make_hook(service: TheService, actor: TheActor, response: Response, given: HookInput) -> dict[str, object]:
    """Add a hook; it is sent what happens from now on."""
    hook = managing.add_hook(service, actor, given.wish())
    response.headers["Location"] = f"{router.prefix}/{hook.hook_id}"
    return told_hook(hook)


@router.get("/{hook_id}")
def read_hook(service: TheService, hook_id: str) -> dict[str, object]:
    """Tell a hook with its latest notices: sent, waiting, given up and why."""
    with service.database.reading() as database:
        return told_hook(managing.found(database, hook_id)) | {"notices": told_notices(database, hook_id)}


@router.put("/{hook_id}")
def change_hook(service: TheService, actor: TheActor, hook_id: str, given: HookInput) -> dict[str, object]:
    """Put a hook in its place; what waits for it is sent to where it leads then."""
    return told_hook(managing.change_hook(service, actor, hook_id, given.wish()))


@router.delete("/{hook_id}", status_code=HTTPStatus.NO_CONTENT)
def remove_hook(service: TheService, actor: TheActor, hook_id: str) -> None:
    """Remove a hook, and what waits for it."""
    managing.remove_hook(service, actor, hook_id)


@router.post("/{hook_id}/test")
async def test_hook(service: TheService, actor: TheActor, hook_id: str) -> dict[str, object]:
    """Send a hook a notice of its own at once, and tell whether it was taken."""
    failure = await service.outbound.run(managing.TRIAL, partial(managing.test_hook, service, actor, hook_id))
    return {"is_taken": not failure, "sentence": failure or "the receiver took it"}


@router.post("/{hook_id}/again")
def send_again(service: TheService, actor: TheActor, hook_id: str) -> dict[str, object]:
    """Have what was given up of a hook's notices tried for another day."""
    return {"notices": managing.send_again(service, actor, hook_id)}


def told_notices(database: sqlite3.Connection, hook_id: str) -> list[dict[str, object]]:
    """Return what a hook was sent lately, the newest first."""
    return [_told_notice(row) for row in rows.notices_of(database, hook_id, most=MOST_NOTICES)]


def _told_notice(row: rows.OutboxRow) -> dict[str, object]:
    state = "sent" if row.delivered_at else "given up" if row.is_dead else "waits"
    return {
        "notice_id": row.notice_id,
        "kind": row.kind,
        "at": row.at,
        "sentence": json.loads(row.body)["sentence"],
        "state": state,
        "attempts": row.attempts,
        "next_at": row.next_at,
        "delivered_at": row.delivered_at,
        "trouble": row.sentence,
    }

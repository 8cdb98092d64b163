"""Hooks API: create, change, test and remove hooks; list their latest notices."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from http import HTTPStatus

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from flashferry.service.api.depends import Name, Names, TheActor, TheService
from flashferry.service.hooks import managing
from flashferry.service.hooks.managing import CHOICES, HookForm, HookSpec, hook_json
from flashferry.store.service import hooks as rows

router = APIRouter(prefix="/api/v1/hooks", tags=["hooks"])
MOST_NOTICES = 100


class HookInput(BaseModel):
    """Body that describes a hook."""

    name: Name = Field(description="What people call it; no two of a name.")
    form: HookForm = Field(description="In which form it is sent notices.")
    target: Name = Field(description="Where it leads; of Slack and Teams what people call the channel.")
    secret_name: Name = Field("", description="The section [hooks.NAME] of the configuration that has its secret.")
    kinds: Names = Field(description=f"Some of: {', '.join(CHOICES)}.")
    sites: Names = Field([], description="Of what touches one of these sites alone; none: of all.")
    is_paused: bool = Field(False, description="Whether it is sent nothing for now.")

    def spec(self) -> HookSpec:
        """Return the hook specification."""
        return HookSpec(
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
    """List hooks by name, each with the number of its undelivered notices."""
    with service.database.reading() as database:
        dead = rows.dead_counts(database)
        return {"hooks": [hook_json(hook) | {"given_up": dead.get(hook.hook_id, 0)} for hook in rows.hooks(database)]}


@router.post("", status_code=HTTPStatus.CREATED)
def make_hook(service: TheService, actor: TheActor, response: Response, given: HookInput) -> dict[str, object]:
    """Add a hook; it receives notices from now on."""
    hook = managing.add_hook(service, actor, given.spec())
    response.headers["Location"] = f"{router.prefix}/{hook.hook_id}"
    return hook_json(hook)


@router.get("/{hook_id}")
def read_hook(service: TheService, hook_id: str) -> dict[str, object]:
    """Return a hook with its latest notices: sent, waiting, or given up with the reason."""
    with service.database.reading() as database:
        return hook_json(managing.found(database, hook_id)) | {"notices": notices_json(database, hook_id)}


@router.put("/{hook_id}")
def change_hook(service: TheService, actor: TheActor, hook_id: str, given: HookInput) -> dict[str, object]:
    """Replace a hook; waiting notices are sent to the new target."""
    return hook_json(managing.change_hook(service, actor, hook_id, given.spec()))


@router.delete("/{hook_id}", status_code=HTTPStatus.NO_CONTENT)
def remove_hook(service: TheService, actor: TheActor, hook_id: str) -> None:
    """Remove a hook and its waiting notices."""
    managing.remove_hook(service, actor, hook_id)


@router.post("/{hook_id}/test")
async def test_hook(service: TheService, actor: TheActor, hook_id: str) -> dict[str, object]:
    """Send a test notice at once; report whether the receiver accepted it, and what it answered by HTTP."""
    test = await service.outbound.run(managing.TRIAL, partial(managing.test_hook, service, actor, hook_id))
    sentence = test.failure or "the receiver took it"
    return {"is_taken": not test.failure, "sentence": sentence, "answer": test.answer}


@router.post("/{hook_id}/again")
def send_again(service: TheService, actor: TheActor, hook_id: str) -> dict[str, object]:
    """Retry the notices that were given up, for another day."""
    return {"notices": managing.send_again(service, actor, hook_id)}


def notices_json(database: sqlite3.Connection, hook_id: str) -> list[dict[str, object]]:
    """Return the latest notices of a hook, newest first."""
    return [_notice_json(row) for row in rows.notices_of(database, hook_id, most=MOST_NOTICES)]


def _notice_json(row: rows.OutboxRow) -> dict[str, object]:
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

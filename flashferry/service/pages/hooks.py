"""Pages for admins: hooks and the service's health."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from msgspec.structs import replace
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.depends import FormName, FormNames, TheActor, TheService
from flashferry.service.api.hooks import list_hooks, notices_json
from flashferry.service.background import BackgroundTasks, TaskState, checks_of
from flashferry.service.hooks import managing
from flashferry.service.hooks.managing import CHOICES, HookForm, HookSpec, hook_json
from flashferry.service.pages.frame import link, view_page
from flashferry.store.service.database import moment

router = APIRouter(include_in_schema=False)
_HOOKS = "/admin/hooks"


@view_page(router, _HOOKS, "hooks.html")
def hooks(service: TheService) -> object:
    """Return all hooks, and the choices for a new one."""
    return {
        **list_hooks(service),
        **_choices(service.settings.hooks),
        "has_mail": service.settings.mail is not None,
    }


def _spec_of(
    name: FormName,
    form: FormName,
    target: FormName,
    secret_name: FormName = "",
    kinds: FormNames = [],  # noqa: B006 -- FastAPI makes each request its own
    sites: FormName = "",
) -> HookSpec:
    return HookSpec(
        name=name,
        form=form,
        target=target,
        secret_name=secret_name.strip(),
        kinds=tuple(kinds),
        sites=tuple(one.strip() for one in sites.split(",") if one.strip()),
    )


TheSpec = Annotated[HookSpec, Depends(_spec_of)]


@router.post(_HOOKS)
def make(service: TheService, actor: TheActor, spec: TheSpec) -> Response:
    """Add a hook."""
    return _back(managing.add_hook(service, actor, spec).hook_id)


@view_page(router, f"{_HOOKS}/{{hook_id}}", "hook.html")
def hook(service: TheService, hook_id: str) -> object:
    """Return a hook with its latest notices."""
    with service.database.reading() as database:
        found = managing.found(database, hook_id)
        notices = notices_json(database, hook_id)
        tested = managing.last_test(database, found)
    return {
        "hook": hook_json(found),
        "notices": notices,
        "given_up": sum(one["state"] == "given up" for one in notices),
        "tested": tested,
        "answer": managing.answer_of(tested),
        **_choices(service.settings.hooks),
    }


@router.post(f"{_HOOKS}/{{hook_id}}")
def change(service: TheService, actor: TheActor, hook_id: str, spec: TheSpec) -> Response:
    """Change a hook."""
    with service.database.reading() as database:
        is_paused = managing.found(database, hook_id).is_paused
    managing.change_hook(service, actor, hook_id, replace(spec, is_paused=is_paused))
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/test")
async def test(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Send a test notice; its result is in the audit and on the page."""
    await service.outbound.run(managing.TRIAL, partial(managing.test_hook, service, actor, hook_id))
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/again")
def again(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Retry the notices that were given up."""
    managing.send_again(service, actor, hook_id)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/pause")
def pause(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Pause a hook."""
    managing.pause_hook(service, actor, hook_id, is_paused=True)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/continue")
def go_on(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Continue a hook."""
    managing.pause_hook(service, actor, hook_id, is_paused=False)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/remove")
def remove(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Remove a hook and its waiting notices."""
    managing.remove_hook(service, actor, hook_id)
    return RedirectResponse(_HOOKS, HTTPStatus.SEE_OTHER)


@view_page(router, "/admin/health", "health.html")
def health(request: Request, service: TheService) -> object:
    """Return the readiness checks and the state of each background task, with reasons."""
    background_tasks = request.app.state.background_tasks
    disk = shutil.disk_usage(service.state)
    return {
        "version": version("flashferry"),
        "now": service.moment(),
        "checks": checks_of(service),
        "tasks": [_task_row(state) for state in background_tasks.states()]
        if isinstance(background_tasks, BackgroundTasks)
        else [],
        "disk": {"free_bytes": disk.free, "total_bytes": disk.total},
    }


def _task_row(state: TaskState) -> dict[str, object]:
    return {
        "name": state.name,
        "is_good": state.is_good,
        "passes": state.passes,
        "ended_at": moment(state.last_pass_at) if state.last_pass_at is not None else None,
        "failures": state.failures,
        "is_stuck": state.is_stuck,
        "sentence": state.sentence,
    }


def _choices(secrets: Iterable[str]) -> dict[str, object]:
    return {
        "forms": [{"name": form.value, "meaning": form.meaning} for form in HookForm],
        "kinds": [{"name": kind.value, "meaning": kind.meaning} for kind in CHOICES],
        "secrets": sorted(secrets),
    }


def _back(hook_id: str) -> Response:
    return RedirectResponse(link(_HOOKS, hook_id), HTTPStatus.SEE_OTHER)

"""Notices and hooks for admins: where they lead, what they are sent, what was given up; and the service's health."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.api.health import looks_of
from flashferry.service.api.hooks import list_hooks, told_notices
from flashferry.service.background import Keepers, KeeperState
from flashferry.service.hooks import managing
from flashferry.service.hooks.managing import CHOICES, HookForm, HookWish, told_hook
from flashferry.service.pages.frame import link, view_page
from flashferry.service.texts import FormName, FormNames
from flashferry.store.service.database import moment

router = APIRouter(include_in_schema=False)

_HOOKS = "/admin/hooks"


@view_page(router, _HOOKS, "hooks.html")
def hooks(service: TheService) -> object:
    """Return all hooks, and what one can be."""
    return {
        **list_hooks(service),
        **_choices(service.settings.hooks),
        "has_mail": service.settings.mail is not None,
    }


@router.post(_HOOKS)
def make(
    service: TheService,
    actor: TheActor,
    name: FormName,
    form: FormName,
    target: FormName,
    secret_name: FormName = "",
    kinds: FormNames = [],  # noqa: B006 -- FastAPI makes each request its own
    sites: FormName = "",
) -> Response:
    """Add a hook."""
    wish = HookWish(
        name=name,
        form=form,
        target=target,
        secret_name=secret_name.strip(),
        kinds=tuple(kinds),
        sites=_names(sites),
    )
    return _back(managing.add_hook(service, actor, wish).hook_id)


@view_page(router, f"{_HOOKS}/{{hook_id}}", "hook.html")
def hook(service: TheService, hook_id: str, tested: str = "") -> object:
    """Return a hook with its latest notices."""
    with service.database.reading() as database:
        found = managing.found(database, hook_id)
        notices = told_notices(database, hook_id)
    return {
        "hook": told_hook(found),
        "notices": notices,
        "given_up": sum(one["state"] == "given up" for one in notices),
        "tested": tested[:500],
        **_choices(service.settings.hooks),
    }


@router.post(f"{_HOOKS}/{{hook_id}}")
def change(
    service: TheService,
    actor: TheActor,
    hook_id: str,
    name: FormName,
    form: FormName,
    target: FormName,
    secret_name: FormName = "",
    kinds: FormNames = [],  # noqa: B006 -- FastAPI makes each request its own
    sites: FormName = "",
) -> Response:
    """Change a hook."""
    with service.database.reading() as database:
        is_paused = managing.found(database, hook_id).is_paused
    wish = HookWish(
        name=name,
        form=form,
        target=target,
        secret_name=secret_name.strip(),
        kinds=tuple(kinds),
        sites=_names(sites),
        is_paused=is_paused,
    )
    managing.change_hook(service, actor, hook_id, wish)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/test")
async def test(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Send it a notice of its own; what came of it is in the audit and shown."""
    failure = await service.outbound.run(managing.TRIAL, partial(managing.test_hook, service, actor, hook_id))
    return _back(hook_id, tested="failed" if failure else "taken")


@router.post(f"{_HOOKS}/{{hook_id}}/again")
def again(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Have what was given up tried again."""
    managing.send_again(service, actor, hook_id)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/pause")
def pause(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Have it be sent nothing for now."""
    managing.pause_hook(service, actor, hook_id, is_paused=True)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/continue")
def go_on(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Have it be sent notices again."""
    managing.pause_hook(service, actor, hook_id, is_paused=False)
    return _back(hook_id)


@router.post(f"{_HOOKS}/{{hook_id}}/remove")
def remove(service: TheService, actor: TheActor, hook_id: str) -> Response:
    """Remove it, and what waits for it."""
    managing.remove_hook(service, actor, hook_id)
    return RedirectResponse(_HOOKS, HTTPStatus.SEE_OTHER)


@view_page(router, "/admin/health", "health.html")
def health(request: Request, service: TheService) -> object:
    """Return how the service does: what `/readyz` looks at, and why a background thread's last look failed."""
    keepers = request.app.state.keepers
    disk = shutil.disk_usage(service.state)
    return {
        "version": version("flashferry"),
        "now": moment(service.now()),
        "looks": looks_of(service),
        "keepers": [_told_keeper(state) for state in keepers.states()] if isinstance(keepers, Keepers) else [],
        "disk": {"free_bytes": disk.free, "total_bytes": disk.total},
    }


def _names(line: str) -> tuple[str, ...]:
    """Return the names that somebody wrote in one line, by commas."""
    return tuple(name.strip() for name in line.split(",") if name.strip())


def _told_keeper(state: KeeperState) -> dict[str, object]:
    return {
        "name": state.name,
        "is_good": state.is_good,
        "looks": state.looks,
        "looked_at": moment(state.looked_at) if state.looked_at is not None else None,
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


def _back(hook_id: str, *, tested: str = "") -> Response:
    query = f"?tested={tested}" if tested else ""
    return RedirectResponse(link(_HOOKS, hook_id) + query, HTTPStatus.SEE_OTHER)

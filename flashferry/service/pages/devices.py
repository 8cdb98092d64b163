"""Devices of the inventory and of all runs, one with its history, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query
from markupsafe import Markup
from starlette.responses import RedirectResponse

from flashferry.core.codec import to_json
from flashferry.reports.graphs import svg
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.chosen import WITH_THE_PLAN, chosen_by_form, form_rows
from flashferry.service.device_actions import GOLDEN, Act, act, named
from flashferry.service.device_list import NEVER_CHECKED, ListedDevice, alive_runs, listed_devices, state_word
from flashferry.service.images.verification import usable_images
from flashferry.service.listing import listing
from flashferry.service.pages.frame import link, view_page
from flashferry.service.principal import Role
from flashferry.service.run_visibility import is_visible, sites_of
from flashferry.service.texts import FormName, FormNames, FormProse
from flashferry.service.trends import device_graph
from flashferry.store.fleet_view import device_runs
from flashferry.store.history import History
from flashferry.store.service.jobs import Job

router = APIRouter(include_in_schema=False)

_ALL, _ATTENTION, _NOT_RESTORED = "all", "needs attention", "not restored"
_STATES = (_ALL, NEVER_CHECKED, _ATTENTION, _NOT_RESTORED)
Words = Annotated[str, Query(max_length=200)]
Page = Annotated[int, Query(ge=1, le=10_000)]

_COLUMNS: Mapping[str, Callable[[ListedDevice], Any]] = {
    "device": lambda one: one.host,
    "site": lambda one: one.site,
    "model": lambda one: (one.model, one.release),
    "result": lambda one: one.newest.word,
    "ready": lambda one: one.ready.word,
    "speed": lambda one: one.speed_bytes_per_s or 0.0,
    "copied": lambda one: one.copy.at if one.copy is not None else "",
    "checked": lambda one: one.newest.at,
}
"""What each column is sorted by."""


@view_page(router, "/devices", "devices.html")
def devices(
    service: TheService,
    actor: TheActor,
    q: Words = "",
    site: Words = "",
    state: Words = _ALL,
    sort: Words = "",
    page: Page = 1,
) -> object:
    """Return a page of the devices, each with what is known of it, and what the caller may do with them."""
    found = listed_devices(service, actor)
    chosen = [one for one in found.devices if _is_chosen(one, q, site, state)]
    given = {"q": q, "site": site, "state": "" if state == _ALL else state}
    return {
        "list": listing(chosen, _COLUMNS, path="/devices", sort=sort, page=page, given=given),
        "all": len(found.devices),
        "trouble": found.trouble,
        "sites": found.sites,
        "site_names": service.settings.site_names,
        "q": q,
        "site": site,
        "state": state,
        "states": _STATES,
        **_offered(service, actor),
    }


@router.post("/devices")
def act_on_devices(
    service: TheService,
    actor: TheActor,
    what: Annotated[Act, Form()],
    hosts: FormNames = [],  # noqa: B006 -- FastAPI makes each request its own
    image: FormName = "",
    reason: FormProse = "",
    *,
    every: Annotated[bool, Form()] = False,
    q: Words = "",
    site: Words = "",
    state: Words = _ALL,
    chosen: Annotated[dict[str, object], Depends(chosen_by_form(WITH_THE_PLAN))],
) -> RedirectResponse:
    """Check, test, plan or recover the named devices, or every one that the filter of the page shows."""
    seen = listed_devices(service, actor).devices
    picked = [one for one in seen if _is_chosen(one, q, site, state)] if every else named(seen, hosts)
    return _led(act(service, actor, what, picked, image=image, reason=reason, chosen=chosen))


@view_page(router, "/devices/{name:path}", "device.html")
def device(name: str, service: TheService, actor: TheActor) -> object:
    """Return a device: what is known of it, its copies over time, its runs, and what the caller may do with it."""
    (mine,) = named(listed_devices(service, actor).devices, [name])
    sites = sites_of(actor)
    had = [one for one in device_runs(service.state, name) if is_visible(one.site, sites)]
    alive = alive_runs(service, had)
    history, run_ids = History.read(service.state), {one.run_id for one in had}
    copies = [one for one in history.of(name) if one.run_id in run_ids]
    return {
        "device": mine,
        "serial_number": next((one.serial_number for one in had if one.serial_number), ""),
        "site": service.settings.site_names.get(mine.site, mine.site),
        "runs": [to_json(one) | dict(zip(("word", "tone"), state_word(one, alive), strict=True)) for one in had],
        "copies": copies,
        "no_gain": history.shown_not_to_gain(name),
        "graph": Markup(svg(device_graph(copies))),  # noqa: S704 -- svg escapes what it is given
        **_offered(service, actor),
    }


@router.post("/devices/{name:path}")
def act_on_device(
    service: TheService,
    actor: TheActor,
    name: str,
    what: Annotated[Act, Form()],
    image: FormName = "",
    reason: FormProse = "",
    *,
    chosen: Annotated[dict[str, object], Depends(chosen_by_form(WITH_THE_PLAN))],
) -> RedirectResponse:
    """Check, test, plan or recover one device."""
    picked = named(listed_devices(service, actor).devices, [name])
    return _led(act(service, actor, what, picked, image=image, reason=reason, chosen=chosen))


def _offered(service: TheService, actor: TheActor) -> dict[str, object]:
    """Return what the forms of actions offer; the routes check roles again."""
    return {
        "may_act": actor.has({Role.OPERATOR}),
        "images": usable_images(service),
        "golden": GOLDEN,
        "choices": form_rows(WITH_THE_PLAN),
    }


def _led(jobs: Sequence[Job]) -> RedirectResponse:
    """Lead to the job that was requested, or to all of them."""
    path = link("/jobs", jobs[0].job_id) if len(jobs) == 1 else "/jobs"
    return RedirectResponse(path, HTTPStatus.SEE_OTHER.value)


def _is_chosen(one: ListedDevice, words: str, site: str, state: str) -> bool:
    if site not in ("", one.site):
        return False
    if state == NEVER_CHECKED and one.newest.word:
        return False
    if state == _ATTENTION and one.newest.tone not in ("bad", "warn"):
        return False
    if state == _NOT_RESTORED and not one.is_held:
        return False
    image = one.last.image if one.last is not None else None
    details = filter(None, (one.host, one.address, one.site, one.model, one.release, one.newest.word, image))
    text = " ".join(details).casefold()
    return all(word in text for word in words.casefold().split())

"""Devices of the inventory and of all runs, one with its history, what can be done with them, and trends of speeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query
from markupsafe import Markup
from starlette.responses import RedirectResponse

from flashferry.core.codec import to_json
from flashferry.reports.graphs import svg
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.chosen import WITH_THE_PLAN, chosen_by_form, form_rows
from flashferry.service.device_list import (
    NEVER_CHECKED,
    ListedDevice,
    alive_runs,
    listed_devices,
    state_word,
    usable_images,
)
from flashferry.service.errors import Conflict, InvalidRequest, NotFound
from flashferry.service.images.golden import golden_rules
from flashferry.service.jobs.create import Devices, JobSpec, ask
from flashferry.service.jobs.steering import restore
from flashferry.service.pages.frame import link, view_page
from flashferry.service.pages.listing import listing
from flashferry.service.plans.planning import PlanSpec, make_plan
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import is_visible, sites_of
from flashferry.service.service import Service
from flashferry.service.texts import FormName, FormNames, FormProse
from flashferry.service.trends import device_graph, fleet_graph, site_speeds
from flashferry.store.fleet_view import device_runs
from flashferry.store.history import History
from flashferry.store.service.jobs import Job, JobKind

router = APIRouter(include_in_schema=False)

SHOWN_NIGHTS = 30
GOLDEN = "golden:"
"""In place of an image's name: the golden image of each model; no name has a colon."""
_ALL, _ATTENTION, _NOT_RESTORED = "all", "needs attention", "not restored"
_STATES = (_ALL, NEVER_CHECKED, _ATTENTION, _NOT_RESTORED)
_PROBE_S = "8.0"
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


class Act(StrEnum):
    """What can be done with devices."""

    CHECK = "check"
    PROBE = "probe"
    READY = "ready"
    PLAN = "plan"
    RECOVER = "recover"


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
    if every:
        picked = [one for one in seen if _is_chosen(one, q, site, state)]
    else:
        named = {one.host: one for one in seen}
        picked = [_named(named, host) for host in dict.fromkeys(hosts)]
    if not picked:
        raise InvalidRequest("devices: expected at least one, found none", hint="Tick devices, or all that are listed")
    return _led(_act(service, actor, what, picked, image, reason, chosen))


@view_page(router, "/devices/{name:path}", "device.html")
def device(name: str, service: TheService, actor: TheActor) -> object:
    """Return a device: what is known of it, its copies over time, its runs, and what the caller may do with it."""
    mine = _one(service, actor, name)
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
    return _led(_act(service, actor, what, [_one(service, actor, name)], image, reason, chosen))


@view_page(router, "/trends", "trends.html")
def trends(service: TheService, actor: TheActor) -> object:
    """Return speeds by day and by site, and the series of the nights in the lab."""
    site_of = {one.host: one.site for one in listed_devices(service, actor).devices if one.last is not None}
    history = History.read(service.state)
    copies = [one for host in site_of for one in history.of(host)]
    return {
        "sites": [to_json(one) | {"gain": one.gain} for one in site_speeds(copies, site_of)],
        "site_names": service.settings.site_names,
        "fleet_graph": Markup(svg(fleet_graph(copies))),  # noqa: S704 -- svg escapes what it is given
        **_nights(service.state),
    }


def _nights(state: Path) -> dict[str, object]:
    # Late: few look at the nights in a lab, and they bring all that a night is made of.
    from flashferry.nightly.artefacts.page import DRAWN, drawn_series, night_line
    from flashferry.nightly.artefacts.report import series_report
    from flashferry.nightly.history import READ_NIGHTS, by_series, past, stored_nights

    series = [series_report(one) for one in by_series(past(state))]
    return {
        "nights": [night_line(one) for one in reversed(stored_nights(state, last=min(SHOWN_NIGHTS, READ_NIGHTS)))],
        "series": [{"name": one.name, "unit": one.unit, "points": one.points} for one in series],
        "series_graphs": Markup("").join(
            Markup('<figure class="trend">{}</figure>').format(drawn_series(one)) for one in series if one.unit in DRAWN
        ),
    }


def _one(service: Service, actor: Actor, name: str) -> ListedDevice:
    """Return a device that the caller may see. Raises `NotFound`."""
    return _named({one.host: one for one in listed_devices(service, actor).devices}, name)


def _named(devices: Mapping[str, ListedDevice], host: str) -> ListedDevice:
    if (found := devices.get(host)) is None:
        raise NotFound(
            f"device: expected one of the inventory or of a run that you may see, found {host[:60]!r}",
            hint="See the list of devices",
        )
    return found


def _act(
    service: Service,
    actor: Actor,
    what: Act,
    devices: Sequence[ListedDevice],
    image: str,
    reason: str,
    chosen: Mapping[str, object],
) -> list[Job]:
    """Request the jobs of an action on some devices, with the role at each of their sites."""
    if what is Act.RECOVER:
        runs = dict.fromkeys(one.last.run_id for one in devices if one.is_held and one.last is not None)
        if not runs:
            raise Conflict(
                "recover: expected a device that a run left changed, found none among these",
                hint="Filter the list by 'not restored'",
            )
        return [restore(service, actor, run_id, reason) for run_id in runs]
    # A device without a site takes the role everywhere.
    sites = () if any(not one.site for one in devices) else tuple(sorted({one.site for one in devices}))
    hosts = tuple(one.host for one in devices)
    if what is Act.PLAN:
        is_golden = image == GOLDEN
        spec = PlanSpec(
            title=reason, image="" if is_golden else image, golden=is_golden, sites=sites, hosts=hosts, chosen=chosen
        )
        return [make_plan(service, actor, spec)]
    return [ask(service, actor, _job_spec(service, what, Devices(hosts=hosts), sites, image, reason))]


def _job_spec(
    service: Service, what: Act, devices: Devices, sites: tuple[str, ...], image: str, reason: str
) -> JobSpec:
    """Return the specification of a check, a speed test or a readiness check. Raises `InvalidRequest`."""
    rules = ""
    words: tuple[str, ...] = ()
    if image == GOLDEN and what is not Act.READY:
        raise InvalidRequest(
            f"{what}: expected one image, or none, found the golden images", hint="Choose an image, or none"
        )
    if what is Act.READY and image in ("", GOLDEN):
        words = ("--image-dir", str(service.images))
        if image:
            with service.database.reading() as database:
                rules = golden_rules(database, sites)
    elif what is Act.PROBE:
        image, words = "", ("--seconds", _PROBE_S)
    return JobSpec(
        kind=JobKind(what.value),
        devices=devices,
        image="" if image == GOLDEN else image,
        rules=rules,
        sites=sites,
        words=words,
        reason=reason,
    )


def _offered(service: Service, actor: Actor) -> dict[str, object]:
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

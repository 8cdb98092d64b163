"""Pages of devices, and the actions that an operator applies to selected devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query
from markupsafe import Markup
from starlette.responses import RedirectResponse

from flashferry.core.codec import to_json
from flashferry.reports.graphs import svg
from flashferry.service.api.depends import FormName, FormNames, FormProse, TheActor, TheService
from flashferry.service.chosen import WITH_THE_PLAN, chosen_by_form, form_rows
from flashferry.service.device_list import NEVER_CHECKED, ListedDevice, alive_runs, listed_devices, state_word
from flashferry.service.errors import Conflict, InvalidRequest, NotFound
from flashferry.service.images.golden import golden_rules
from flashferry.service.images.verification import usable_images
from flashferry.service.jobs.create import ask
from flashferry.service.jobs.job_spec import Devices, JobSpec
from flashferry.service.jobs.steering import restore
from flashferry.service.listing import listing
from flashferry.service.pages.frame import link, view_page
from flashferry.service.pages.trends import device_graph
from flashferry.service.plans.planning import PlanSpec, make_plan
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import is_visible, sites_of
from flashferry.service.service import Service
from flashferry.store.fleet_view import device_runs
from flashferry.store.history import History
from flashferry.store.service.jobs import Job, JobKind

GOLDEN = "golden:"
"""In place of an image's name: the golden image of each model; no name has a colon."""
_PROBE_S = "8.0"


class Act(StrEnum):
    """Action on devices."""

    CHECK = "check"
    PROBE = "probe"
    READY = "ready"
    PLAN = "plan"
    RECOVER = "recover"


def named(devices: Sequence[ListedDevice], hosts: Iterable[str]) -> list[ListedDevice]:
    """Return the devices with the given names, each once. Raises `NotFound`."""
    known = {one.host: one for one in devices}
    picked = dict.fromkeys(hosts)
    if missing := next((host for host in picked if host not in known), None):
        raise NotFound(
            f"device: expected one of the inventory or of a run that you may see, found {missing[:60]!r}",
            hint="See the list of devices",
        )
    return [known[host] for host in picked]


def act(
    service: Service,
    actor: Actor,
    what: Act,
    devices: Sequence[ListedDevice],
    *,
    image: str,
    reason: str,
    chosen: Mapping[str, object],
) -> list[Job]:
    """Request the jobs of an action on devices (at least one) and return them.

    The caller operates each of their sites; all sites for a device without one. `image` is a name, `GOLDEN`, or empty;
    `reason` becomes the title of a plan; `chosen` are settings of a plan.

    Raises:
        ServiceError: There is no device, the caller is not allowed, or a value does not fit the action.
    """
    if not devices:
        raise InvalidRequest("devices: expected at least one, found none", hint="Tick devices, or all that are listed")
    if what is Act.RECOVER:
        runs = dict.fromkeys(one.last.run_id for one in devices if one.is_held and one.last is not None)
        if not runs:
            raise Conflict(
                "recover: expected a device that a run left changed, found none among these",
                hint="Filter the list by 'not restored'",
            )
        return [restore(service, actor, run_id, reason) for run_id in runs]
    # A device without a site needs the role at all sites.
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
    "copied": lambda one: one.copied_at,
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
    """Return a page of the device list, and the actions that the caller can take."""
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
    """Check, test, plan or recover the chosen devices, or with `every` all that match the page's filter."""
    seen = listed_devices(service, actor).devices
    picked = [one for one in seen if _is_chosen(one, q, site, state)] if every else named(seen, hosts)
    return _led(act(service, actor, what, picked, image=image, reason=reason, chosen=chosen))


@view_page(router, "/devices/{name:path}", "device.html")
def device(name: str, service: TheService, actor: TheActor) -> object:
    """Return a device: latest findings, copies over time, runs, and the actions that the caller can take."""
    (mine,) = named(listed_devices(service, actor).devices, [name])
    sites = sites_of(actor)
    had = [one for one in device_runs(service.state, name) if is_visible(one.site, sites)]
    alive = alive_runs(service, had)
    history, run_ids = History.read(service.state, counts_damaged=False), {one.run_id for one in had}
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
    """Return the choices of the action forms; the routes check the roles again."""
    return {
        "may_act": actor.has({Role.OPERATOR}),
        "images": usable_images(service),
        "golden": GOLDEN,
        "choices": form_rows(WITH_THE_PLAN),
    }


def _led(jobs: Sequence[Job]) -> RedirectResponse:
    """Redirect to the requested job, or to the list if there are several."""
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

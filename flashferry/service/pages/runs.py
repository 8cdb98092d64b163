"""Pages of runs and their steering forms, and the wall screen `/tonight`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import RedirectResponse

from flashferry.core.codec import to_json
from flashferry.model.states import Phase
from flashferry.reports.as_html import device_section
from flashferry.service.api.depends import FormName, FormProse, TheActor, TheService, TheZone
from flashferry.service.api.live import snapshot_reader_of
from flashferry.service.errors import NotFound
from flashferry.service.jobs import steering
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.presenters import (
    DeviceQuery,
    action_items,
    channel_of,
    channel_of_device,
    current_runs,
    device_page,
    device_row,
    run_board,
    run_row,
    tonight_board,
)
from flashferry.service.live.snapshot import RunNow
from flashferry.service.pages.frame import link, view_page
from flashferry.service.pages.jobs import job_row
from flashferry.service.plans.deciding import approve_wave
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import is_open, job_seen, sites_of
from flashferry.store.control_requests import SteerKind
from flashferry.store.history import History
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import RECOVERS, jobs_of_run
from flashferry.store.service.plans import plan_of
from flashferry.store.stored_run import read_run
from inventory.transport_policy import USUAL

router = APIRouter(include_in_schema=False)


def _form(act: Callable[[TheService, Actor, str, str], object]) -> Callable[..., RedirectResponse]:
    """Return a route for a form that applies an action with a reason to a run."""

    def take(
        request: Request, service: TheService, actor: TheActor, run_id: str, reason: FormProse = ""
    ) -> RedirectResponse:
        act(service, actor, run_id, reason)
        return _back(request, run_id)

    return take


def _steering(what: SteerKind) -> Callable[[TheService, Actor, str, str], object]:
    return lambda service, actor, run_id, reason: steering.steer(service, actor, run_id, what, reason)


for _path, _act in (
    ("pause", _steering(SteerKind.PAUSE)),
    ("continue", _steering(SteerKind.CONTINUE)),
    ("stop", _steering(SteerKind.STOP)),
    ("recover", steering.restore),
    ("resume", steering.go_on),
):
    router.add_api_route(f"/runs/{{run_id}}/{_path}", _form(_act), methods=["POST"], response_model=None)


@router.post("/runs/{run_id}/approve")
def approve(
    request: Request,
    service: TheService,
    actor: TheActor,
    run_id: str,
    wave: Annotated[int, Form(ge=0, le=100_000)],
    digest: FormName = "",
    comment: FormProse = "",
) -> RedirectResponse:
    """Approve the waves of a run up to one, for the plan that the page showed."""
    approve_wave(service, actor, run_id, wave, digest=digest, comment=comment)
    return _back(request, run_id)


@router.post("/runs/{run_id}/waves/{wave}/approve")
def approve_one(
    request: Request,
    service: TheService,
    actor: TheActor,
    run_id: str,
    wave: Annotated[int, Path(ge=0, le=100_000)],
    digest: FormName = "",
    comment: FormProse = "",
) -> RedirectResponse:
    """Approve the waves of a run up to one, for the plan that the page showed."""
    approve_wave(service, actor, run_id, wave, digest=digest, comment=comment)
    return _back(request, run_id)


def offered(service: TheService, actor: Actor, run: RunNow) -> dict[str, object]:
    """Return which forms the caller sees on a run's page; the routes check again.

    `run` includes devices that the caller may not see.
    """
    sites = {one.site for one in run.devices}
    operates = actor.may({Role.OPERATOR}, sites)
    approves = actor.may({Role.APPROVER}, sites)
    with service.database.reading() as database:
        plan = plan_of(database, run.plan_digest) if run.plan_digest is not None else None
        jobs = jobs_of_run(database, run.run_id)
    recovery = next((one for one in jobs if one.is_open and one.kind in RECOVERS), None)
    # While a job restores the devices, a second one would be refused.
    is_free = not run.is_alive and recovery is None
    return {
        "steers": operates and run.is_alive,
        "recovery": job_row(seen, actor) if recovery is not None and (seen := job_seen(actor, recovery)) else None,
        "restores": operates and is_free and bool(run.unrestored),
        "resumes": operates and is_free and run.verb == "stage" and plan is not None and run.whole.resumable > 0,
        "approves": approves and bool(run.waves_ahead),
        "says_yes": approves and run.is_alive and run.waiting_wave is not None,
        "is_maker": plan is not None and plan.made_by == actor.name,
        "digest": run.plan_digest or "",
        "waves": list(run.waves_ahead),
        "waiting_wave": run.waiting_wave,
        "wave_labels": {number: run.wave_label(number) for number in run.waves},
    }


def _back(request: Request, run_id: str) -> RedirectResponse:
    """Redirect to a run's page after an action on the run, which the page then shows."""
    snapshot_reader_of(request).renew()
    return RedirectResponse(link("/runs", run_id), HTTPStatus.SEE_OTHER.value)


PAGE_RUNS = 30
"""Runs on a page."""
_STATES = ("all", "not restored", *(phase.label for phase in Phase))
FORMS = ("html", "json", "csv", "xml")
"""Formats of a report."""

Number = Annotated[int, Query(ge=1, le=10_000)]
Words = Annotated[str, Query(max_length=200)]


@view_page(router, "/runs", "runs.html")
def runs(request: Request, service: TheService, actor: TheActor, zone: TheZone, page: Number = 1) -> object:
    """Return a page of runs, the latest first."""
    reader, sites = snapshot_reader_of(request), sites_of(actor)
    ids = reader.identifiers()
    requested = ids[(page - 1) * PAGE_RUNS : page * PAGE_RUNS]
    snapshot = reader.some(requested).seen_from(sites).in_zone(zone)
    return {
        "runs": [figures_of(one) for one in snapshot.runs],
        "shown": {one.run_id: run_row(one, snapshot) for one in snapshot.runs},
        "page": page,
        "pages": max(1, -(-len(ids) // PAGE_RUNS)),
        "at": service.moment(),
    }


@view_page(router, "/runs/{run_id}", "run.html")
def run(
    request: Request,
    run_id: str,
    service: TheService,
    actor: TheActor,
    zone: TheZone,
    state: Words = "all",
    q: Words = "",
    sort: Words = "",
    page: Number = 1,
) -> object:
    """Return a run: sites, waves, a page of devices, and jobs."""
    snapshot, found = seen_run(request, actor, run_id)
    whole = snapshot_reader_of(request).some([run_id]).run(run_id) or found
    with service.database.reading() as database:
        jobs = jobs_of_run(database, run_id)
    shown = device_page(found, DeviceQuery(state=state, words=q, sort=sort, page=page))
    unfinished = sum(is_open(one.phase, one.state) for one in found.devices)
    return {
        "run": figures_of(found) | {"unrestored": list(found.unrestored)},
        "list": shown,
        "jobs": [job_row(seen, actor) for one in jobs if (seen := job_seen(actor, one))],
        "at": moment(snapshot.at),
        "state": state if state in _STATES else "all",
        "states": _STATES,
        "q": q,
        "is_filtered": shown.total != len(found.devices),
        "stream": channel_of(run_id, shown),
        "is_alive": found.is_alive,
        "shown": run_board(found, snapshot.in_zone(zone), service.settings.site_names, shown.rows, shown.total),
        "forms": FORMS,
        "offered": offered(service, actor, whole),
        "unfinished": 0 if found.is_alive or found.verb != "stage" else unfinished,
    }


@view_page(router, "/runs/{run_id}/devices/{host:path}", "device-in-run.html")
def device(request: Request, run_id: str, host: str, service: TheService, actor: TheActor) -> object:
    """Return a device of a run: its state, the steps with evidence, and graphs of its copies."""
    # Late: reports import transports and platforms, which would slow the service's start.
    from flashferry.reports.build import build_report, report_author
    from flashferry.reports.transfers import speeds_before

    snapshot, found = seen_run(request, actor, run_id)
    mine = next((one for one in found.devices if one.host == host), None)
    if mine is None:
        raise NotFound(f"run {run_id} has no device {host!r}", hint="The run's page lists its devices")
    stored = read_run(service.state, run_id, host=host)
    before = speeds_before(
        History.read(service.state), {host: str(stored.devices[0].record.get("transport") or USUAL)}, stored.started_at
    )
    waves = {number: found.wave_label(number) for number in found.waves}
    report = build_report(stored, written_at=moment(snapshot.at), written_by=report_author(), before=before)
    return {
        "run_id": run_id,
        "stream": channel_of_device(run_id, host),
        "at": moment(snapshot.at),
        "is_alive": found.is_alive,
        "device": mine,
        "report": _without_samples(to_json(report.devices[0])),
        "shown": device_row(found, mine, service.settings.site_names),
        "section": device_section(report, report.devices[0], waves if len(waves) > 1 else {}),
    }


def seen_run(request: Request, actor: Actor, run_id: str) -> tuple[Snapshot, RunNow]:
    """Return a snapshot and a run in it, limited to what the caller may see. Raises `NotFound`."""
    snapshot = snapshot_reader_of(request).some([run_id]).seen_from(sites_of(actor))
    found = snapshot.run(run_id)
    if found is None:
        raise NotFound(f"there is no run {run_id!r}", hint="The page of runs lists them")
    return snapshot, found


def figures_of(found: RunNow) -> dict[str, object]:
    """Return a run as JSON types, without its devices."""
    figures = to_json(replace(found, devices=()))
    assert isinstance(figures, dict)
    del figures["devices"]
    return figures


def _without_samples(report: Mapping[str, object]) -> dict[str, object]:
    """Return a device's report without the samples that its graphs are drawn from."""
    transfers = report.get("transfers")
    rows: Sequence[Mapping[str, object]] = transfers if isinstance(transfers, list) else []
    return {**report, "transfers": [{key: one[key] for key in one if key != "samples"} for one in rows]}


@router.get("/")
def first() -> RedirectResponse:
    """Redirect to the wall screen."""
    return RedirectResponse("/tonight", 303)


@view_page(router, "/tonight", "tonight.html")
def tonight(request: Request, service: TheService, actor: TheActor, zone: TheZone) -> object:
    """Return the current state as values and as shown."""
    snapshot = snapshot_reader_of(request).read().seen_from(sites_of(actor)).in_zone(zone)
    return {
        "at": moment(snapshot.at),
        "read_at": moment(snapshot.read_at),
        "trouble": snapshot.trouble,
        "needs": action_items(snapshot),
        "lost": snapshot.lost,
        "current": [one.run_id for one in current_runs(snapshot)],
        "runs": [figures_of(one) for one in snapshot.tonight],
        "shown": tonight_board(snapshot, service.settings.site_names),
        "is_new": not snapshot.runs and not snapshot.lost and not snapshot_reader_of(request).identifiers(),
    }

"""Run pages: list, run with waves and devices, and device in a run with its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request

from flashferry.core.codec import to_json
from flashferry.core.values import replace
from flashferry.model.states import NOT_DONE, Phase
from flashferry.reports.as_html import device_section
from flashferry.service.api.depends import TheActor, TheService, TheZone
from flashferry.service.api.live import snapshot_reader_of
from flashferry.service.errors import NotFound
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.device_page import DeviceQuery, channel_of, channel_of_device, device_page
from flashferry.service.live.presenters import device_row, run_board, run_row
from flashferry.service.live.snapshot import RunNow
from flashferry.service.pages.frame import view_page
from flashferry.service.pages.jobs import job_row
from flashferry.service.pages.steering import offered
from flashferry.service.principal import Actor
from flashferry.service.run_visibility import job_seen, sites_of
from flashferry.store.history import History
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import jobs_of_run
from flashferry.store.stored_run import read_run
from inventory.transport_policy import USUAL

router = APIRouter()
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
    unfinished = sum(one.phase in NOT_DONE for one in found.devices)
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
    report = build_report(stored, written_at=moment(snapshot.at), written_by=report_author(), before=before)
    return {
        "run_id": run_id,
        "stream": channel_of_device(run_id, host),
        "at": moment(snapshot.at),
        "is_alive": found.is_alive,
        "device": mine,
        "report": _without_samples(to_json(report.devices[0])),
        "shown": device_row(found, mine, service.settings.site_names),
        "section": device_section(report, report.devices[0]),
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

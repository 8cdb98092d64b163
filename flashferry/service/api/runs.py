"""Runs API: start, list, read, report and steer runs; states and copies of devices from the journal."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from flashferry import api
from flashferry.api.report_format import ReportFormat
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import as_dict, replace
from flashferry.service.api.depends import Name, Prose, TheActor, TheService
from flashferry.service.api.jobs import IdempotencyKey, Why, accepted
from flashferry.service.api.live import snapshot_reader_of
from flashferry.service.chosen import AT_THE_START, chosen_in, with_settings
from flashferry.service.errors import NotFound, ServiceError
from flashferry.service.jobs import steering
from flashferry.service.jobs.create import once_of
from flashferry.service.jobs.serializers import device_json, run_json, run_row_json
from flashferry.service.plans.planning import begin
from flashferry.service.run_visibility import is_visible, job_seen, seen_run, sites_of, status_seen
from flashferry.store.control import control_request
from flashferry.store.control_requests import SteerKind
from flashferry.store.fleet_view import device_runs, known_devices
from flashferry.store.history import History
from flashferry.store.service.jobs import jobs_of_run

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])
_MOST = 200
_PART = "devices at sites that the requester of this report may not see are left out"


@with_settings(AT_THE_START)
class NewRun(BaseModel):
    """Body that starts a run of a plan."""

    model_config = ConfigDict(extra="forbid")

    plan: Name = Field(description="The digest of a plan that is approved.")
    not_before: AwareDatetime | None = Field(
        None,
        description="Earliest start, before the plan's end; whether it may start is checked again then.",
    )
    until: AwareDatetime | None = Field(None, description="Latest end; the plan's end if that is earlier.")
    reason: Prose = Field("", description="Why, for the audit.")


class Form(StrEnum):
    """Format of a report; the value is its file name extension."""

    HTML = "html"
    JSON = "json"
    CSV = "csv"
    XML = "xml"

    @property
    def media_type(self) -> str:
        """Return the media type."""
        return {"html": "text/html", "json": "application/json", "csv": "text/csv", "xml": "application/xml"}[self]


@router.post("", status_code=HTTPStatus.ACCEPTED)
def start(
    response: Response, service: TheService, actor: TheActor, requested: NewRun, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Start an approved plan; the returned job names its run once the process has started it."""
    once = once_of(idempotency_key, "runs", requested.model_dump(mode="json"))
    job = begin(
        *(service, actor, requested.plan),
        reason=requested.reason,
        not_before=requested.not_before,
        until=requested.until,
        chosen=chosen_in(requested, AT_THE_START),
        once=once,
    )
    return accepted(response, job)


@router.get("")
def list_runs(
    request: Request,
    actor: TheActor,
    last: Annotated[int, Query(ge=1, le=_MOST, description="How many; those that hold a device are there too.")] = 50,
) -> dict[str, object]:
    """List the runs that the caller may see, newest first."""
    found = snapshot_reader_of(request).statuses(last)
    return {"runs": [run_row_json(seen) for run in found if (seen := status_seen(run, actor)) is not None]}


@router.get("/{run_id}")
def read(service: TheService, actor: TheActor, run_id: str) -> dict[str, object]:
    """Return a run: its state, operator actions with their reasons, and its jobs."""
    run = seen_run(service.state, run_id, actor).run
    with service.database.reading() as database:
        jobs = [seen for job in jobs_of_run(database, run_id) if (seen := job_seen(actor, job)) is not None]
    return run_json(run, control_request(service.state, run_id), jobs)


@router.get("/{run_id}/devices")
def devices(service: TheService, actor: TheActor, run_id: str) -> dict[str, object]:
    """Return the devices of a run."""
    return {"devices": [device_json(one) for one in seen_run(service.state, run_id, actor).run.devices]}


@router.get("/{run_id}/report.{form}", response_class=Response)
def report(service: TheService, actor: TheActor, run_id: str, form: Form) -> Response:
    """Return the report of a run as a file: HTML, JSON (docs/report.md), CSV or JUnit XML.

    Callers who may see only some of its sites get the devices there, and a note that there are others.
    """
    # Late: reports import transports and platforms, which would slow the service's start.
    from flashferry.reports.build import report_of

    seen = seen_run(service.state, run_id, actor, with_transfers=True)
    found = report_of(seen.run, service.state)
    if seen.is_part:
        found = replace(found, notes=(*found.notes, _PART))
    text = api.report_text(found, ReportFormat.JUNIT if form is Form.XML else ReportFormat(form.value))
    # As a download: the report has inline style and scripts, which the service's CSP forbids.
    headers = {"Content-Disposition": f'attachment; filename="{seen.run.run_id}.{form}"'}
    return Response(text, media_type=form.media_type, headers=headers)


@router.post("/{run_id}/pause")
def pause(service: TheService, actor: TheActor, run_id: str, why: Why) -> dict[str, object]:
    """Start no further devices; devices being staged finish."""
    return as_dict(steering.steer(service, actor, run_id, SteerKind.PAUSE, why.reason))


@router.post("/{run_id}/continue")
def continue_run(service: TheService, actor: TheActor, run_id: str, why: Why) -> dict[str, object]:
    """Continue a paused run."""
    return as_dict(steering.steer(service, actor, run_id, SteerKind.CONTINUE, why.reason))


@router.post("/{run_id}/stop")
def stop(service: TheService, actor: TheActor, run_id: str, why: Why) -> dict[str, object]:
    """Stop the devices being staged, restore every device and write the report."""
    return as_dict(steering.steer(service, actor, run_id, SteerKind.STOP, why.reason))


@router.post("/{run_id}/resume", status_code=HTTPStatus.ACCEPTED)
def resume(
    response: Response,
    service: TheService,
    actor: TheActor,
    run_id: str,
    why: Why,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, object]:
    """Restore the devices that a run left changed, and resume it; its plan must still be approved."""
    once = once_of(idempotency_key, f"resume {run_id}", why.model_dump())
    return accepted(response, steering.go_on(service, actor, run_id, why.reason, once))


@router.post("/{run_id}/recover", status_code=HTTPStatus.ACCEPTED)
def recover(
    response: Response,
    service: TheService,
    actor: TheActor,
    run_id: str,
    why: Why,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, object]:
    """Restore the devices that a killed run left tuned."""
    once = once_of(idempotency_key, f"recover {run_id}", why.model_dump())
    return accepted(response, steering.restore(service, actor, run_id, why.reason, once))


journal = APIRouter(prefix="/api/v1", tags=["runs"])

MOST_OF_ONE = 2000
"""Copies of one device, the newest."""
MOST_OF_EACH = 100
"""Copies of each when all devices are requested."""
_MOST_RUNS = 200


@journal.get("/status")
def status(
    service: TheService,
    actor: TheActor,
    last: Annotated[
        int, Query(ge=1, le=_MOST_RUNS, description="How many runs; those that hold a device come on top.")
    ] = 5,
) -> dict[str, object]:
    """Return runs, their devices and the devices to be recovered, as `flashferry status --json` does."""
    found = api.status(last, state=service.state)
    runs = tuple(seen for run in found.runs if (seen := status_seen(run, actor)) is not None)
    # The files beside the journal do not have the sites of devices.
    lost = found.lost if sites_of(actor) is None else ()
    return {"status": to_json(replace(found, directory=Path(), runs=runs, lost=lost))}


@journal.get("/history")
def history(
    service: TheService,
    actor: TheActor,
    device: Annotated[str, Query(max_length=300, description="One device, by its name; empty: all.")] = "",
    last: Annotated[int, Query(ge=1, le=MOST_OF_ONE, description="How many of its copies `device` has.")] = 20,
) -> dict[str, object]:
    """Return timed copies of devices; for one device also the expected speed of its next copy."""
    found = History.read(service.state)
    if not device:
        copies = [copy for host in _seen(service, actor) for copy in found.of(host)[-MOST_OF_EACH:]]
        return {"copies": to_json(copies), "damaged": found.damaged}
    found = _of_what_is_seen(service, actor, found, device)
    try:
        details = api.device_history(found, device, last)
    except ConfigInvalid as error:
        raise _no_copy(device) from error
    copies = list(found.of(device)[-MOST_OF_ONE:])
    return {"device": to_json(details), "copies": to_json(copies), "damaged": found.damaged}


def _no_copy(device: str) -> ServiceError:
    sentence = f"no copy of a device {device[:60]!r} is known that you may see"
    return NotFound(sentence, hint="GET /api/v1/history lists them")


def _seen(service: TheService, actor: TheActor) -> tuple[str, ...]:
    sites = sites_of(actor)
    return tuple(one.host for one in known_devices(service.state) if is_visible(one.site, sites))


def _of_what_is_seen(service: TheService, actor: TheActor, found: History, device: str) -> History:
    """Return a device's history without copies at sites that the caller may not see."""
    sites = sites_of(actor)
    if sites is None:
        return found
    mine = {one.run_id for one in device_runs(service.state, device) if is_visible(one.site, sites)}
    copies = [one for one in found.of(device) if one.run_id in mine]
    return found if len(copies) == len(found.of(device)) and copies else History(copies, damaged=found.damaged)

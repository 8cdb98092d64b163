"""Jobs API: request checks, probes and dry runs; read state and result of any job."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import FileResponse

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.service.api.depends import Name, Names, Prose, TheActor, TheService
from flashferry.service.errors import Forbidden, NotFound, Removed, invalid_from
from flashferry.service.jobs.create import ask, once_of
from flashferry.service.jobs.job_spec import Devices, JobSpec
from flashferry.service.jobs.results import is_removed
from flashferry.service.jobs.serializers import JOBS, job_json
from flashferry.service.jobs.steering import cancel
from flashferry.service.known_names import with_devices
from flashferry.service.plans.planning import begin
from flashferry.service.principal import EVERYWHERE, Actor, Role
from flashferry.service.run_visibility import job_seen, latest_seen, seen_job, sees_all_of
from flashferry.store.service.jobs import Job, JobKind

router = APIRouter(prefix="/api/v1", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(description="Send the same again where the answer was lost: the same job is answered, none is made anew."),
]
_MOST = 200


class DeviceSelection(BaseModel):
    """Body that selects the devices of a job."""

    model_config = ConfigDict(extra="forbid")

    sites: Names = Field([], description="Sites; none: all that one operates.")
    hosts: Names = Field([], description="Devices of them, by name; none: all.")
    groups: Names = Field([], description="Groups, likewise.")
    filters: Names = Field([], description="`key=value` over the inventory; not `site`.")
    image: Name = Field("", description="Name of an image in the service's folder.")
    transport: Name = Field("", description="By what devices fetch: a name, several by commas, or `auto`.")
    reason: Prose = Field("", description="Why, for the audit.")


class Check(DeviceSelection):
    """Body of a check."""

    reach: bool = Field(False, description="Whether each device fetches a tiny file to null, too.")


class Probe(DeviceSelection):
    """Body of a speed test."""

    how: Literal["both", "as-is", "tuned"] = Field("both", description="With the settings as they are, tuned, or both.")
    seconds: float = Field(8.0, ge=2, le=60, description="How long a copy should take.")


class DryRun(DeviceSelection):
    """Body of a dry run."""

    plan: Name = Field("", description="The digest of a plan; else an image is named.")


class Why(BaseModel):
    """Body with an operator's reason."""

    model_config = ConfigDict(extra="forbid")

    reason: Prose = Field("", description="A few words: they stand in the audit, and at the run or the job.")


@router.post("/checks", status_code=HTTPStatus.ACCEPTED)
def check(
    response: Response, service: TheService, actor: TheActor, requested: Check, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Request a check of devices; nothing is changed on them."""
    words = ("--reach",) if requested.reach else ()
    spec = _spec(service, actor, JobKind.CHECK, requested, words)
    return accepted(response, ask(service, actor, spec, once_of(idempotency_key, "checks", requested.model_dump())))


@router.post("/probes", status_code=HTTPStatus.ACCEPTED)
def probe(
    response: Response, service: TheService, actor: TheActor, requested: Probe, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Request timed copies to `null:`, untuned and tuned; each device is restored right after its copies."""
    words = ("--seconds", str(requested.seconds), *(() if requested.how == "both" else (f"--{requested.how}",)))
    spec = _spec(service, actor, JobKind.PROBE, requested, words)
    return accepted(response, ask(service, actor, spec, once_of(idempotency_key, "probes", requested.model_dump())))


@router.post("/dry-runs", status_code=HTTPStatus.ACCEPTED)
def dry_run(
    response: Response, service: TheService, actor: TheActor, requested: DryRun, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Request a list of the commands that a run would send, by a plan in any state or for an image."""
    once = once_of(idempotency_key, "dry-runs", requested.model_dump())
    if requested.plan:
        job = begin(service, actor, requested.plan, reason=requested.reason, rehearse=True, once=once)
    else:
        job = ask(service, actor, _spec(service, actor, JobKind.DRY_RUN, requested, ()), once)
    return accepted(response, job)


@router.get("/jobs")
def list_jobs(
    service: TheService,
    actor: TheActor,
    last: Annotated[int, Query(ge=1, le=_MOST, description="How many.")] = 50,
    before: Annotated[str | None, Query(max_length=40, description="Asked for before this time.")] = None,
) -> dict[str, object]:
    """List the jobs that the caller may see, newest first."""
    with service.database.reading() as database:
        found, older = latest_seen(database, actor, last, before)
    return {"jobs": [job_json(job) for job in found], "before": older or None}


@router.get("/jobs/{job_id}")
def read_job(service: TheService, actor: TheActor, job_id: str) -> dict[str, object]:
    """Return the state of a job and, once it ended, the document that it printed, up to 1 MB."""
    with service.database.reading() as database:
        job = seen_job(database, actor, job_id)
    is_visible_to_caller = not job.is_open and sees_all_of(actor, job)
    result = JobFolder.of(service.state, job_id).document() or None if is_visible_to_caller else None
    return job_json(job_seen(actor, job) or job) | {"result": result}


@router.post("/jobs/{job_id}/cancel")
def cancel_queued(service: TheService, actor: TheActor, job_id: str, why: Why) -> dict[str, object]:
    """Cancel a job that has not started."""
    return job_json(cancel(service, actor, job_id, why.reason))


@router.get("/jobs/{job_id}/result", response_class=FileResponse)
def read_result(service: TheService, actor: TheActor, job_id: str) -> FileResponse:
    """Return the document that a job printed, of any size."""
    with service.database.reading() as database:
        job = seen_job(database, actor, job_id)
    if not sees_all_of(actor, job):
        raise Forbidden(
            f"job {job_id}: its output also covers sites that you may not see",
            hint="The run's page and report show your sites",
        )
    if is_removed(service, job):
        days = service.settings.runs.keep_jobs_s / 86400
        raise Removed(
            f"job {job_id}: its output was removed, {days:g} days after its end",
            hint="Its run's report has the results of devices; the job has its exit code",
        )
    path = JobFolder.of(service.state, job_id).result
    if job.is_open or not path.is_file() or path.is_symlink():
        raise NotFound(f"job {job_id}: it has no output, or is still running", hint="Check its state")
    return FileResponse(path, media_type="application/json")


def accepted(response: Response, job: Job) -> dict[str, object]:
    """Return a 202 answer with a job and the address of its state."""
    response.status_code = HTTPStatus.ACCEPTED
    response.headers["Location"] = f"{JOBS}/{job.job_id}"
    return job_json(job)


def _spec(
    service: TheService, actor: Actor, kind: JobKind, requested: DeviceSelection, words: tuple[str, ...]
) -> JobSpec:
    """Return the specification of a job. Raises `InvalidRequest` for an unknown transport."""
    if requested.transport:
        words = (*words, "--transport", _checked_transport(requested.transport))
    return JobSpec(
        kind=kind,
        devices=Devices(hosts=tuple(requested.hosts), groups=tuple(requested.groups), filters=tuple(requested.filters)),
        image=requested.image,
        sites=tuple(dict.fromkeys(requested.sites)) or with_devices(service, _operated(actor)),
        words=words,
        reason=requested.reason,
    )


def _operated(actor: Actor) -> tuple[str, ...]:
    """Return the sites at which the caller is operator; empty: all. Raises `Forbidden` if there are none."""
    sites = sorted({grant.site for grant in actor.grants if grant.role is Role.OPERATOR})
    if not sites:
        raise Forbidden("expected the role operator at a site, found none", hint="Ask an admin for the role")
    return () if EVERYWHERE in sites else tuple(sites)


def _checked_transport(asked: str) -> str:
    # Late: the service starts without the transports and what they bring of platforms.
    from flashferry.transports.transport_selection import check_asked

    try:
        return check_asked(asked, option="transport")
    except ConfigInvalid as error:
        raise invalid_from(error) from None

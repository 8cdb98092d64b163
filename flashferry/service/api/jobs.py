"""Jobs for programs: looks at devices asked for, and what became of whatever was asked for."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import FileResponse

from flashferry.service.errors import Forbidden, NotFound, Removed, invalid_from
from flashferry.core.apart.folder import JobFolder
from flashferry.core.errors import ConfigInvalid
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.jobs.cancelling import cancel
from flashferry.service.jobs.job_spec import Devices, JobWish
from flashferry.service.jobs.serializers import JOBS, told_job
from flashferry.service.jobs.submit import ask, once_of, seen_job
from flashferry.service.jobs.tidying import is_removed
from flashferry.service.known_names import with_devices
from flashferry.service.plans.starting import begin
from flashferry.service.principal import EVERYWHERE, Actor, Role
from flashferry.service.run_visibility import job_seen, sees_all_of
from flashferry.service.service import Service
from flashferry.service.texts import Name, Names, Prose
from flashferry.store.service.jobs import Job, JobKind, latest_jobs

router = APIRouter(prefix="/api/v1", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(description="Send the same again where the answer was lost: the same job is answered, none is made anew."),
]
_MOST = 200


class Looked(BaseModel):
    """Which devices are to be looked at."""

    model_config = ConfigDict(extra="forbid")

    sites: Names = Field([], description="Sites; none: all that one operates.")
    hosts: Names = Field([], description="Devices of them, by name; none: all.")
    groups: Names = Field([], description="Groups, likewise.")
    filters: Names = Field([], description="`key=value` over the inventory; not `site`.")
    image: Name = Field("", description="Name of an image in the service's folder.")
    transport: Name = Field("", description="By what devices fetch: a name, several by commas, or `auto`.")
    reason: Prose = Field("", description="Why, for the audit.")


class Check(Looked):
    """A check."""

    reach: bool = Field(False, description="Whether each device fetches a tiny file to null, too.")


class Probe(Looked):
    """A speed test."""

    how: Literal["both", "as-is", "tuned"] = Field("both", description="With the settings as they are, tuned, or both.")
    seconds: float = Field(8.0, ge=2, le=60, description="How long a copy should take.")


class DryRun(Looked):
    """What a run would do."""

    plan: Name = Field("", description="The digest of a plan; else an image is named.")


class Why(BaseModel):
    """Why somebody steps in."""

    model_config = ConfigDict(extra="forbid")

    reason: Prose = Field("", description="A few words: they stand in the audit, and at the run or the job.")


@router.post("/checks", status_code=HTTPStatus.ACCEPTED)
def check(
    response: Response, service: TheService, actor: TheActor, wanted: Check, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Have devices looked at; nothing is changed."""
    words = ("--reach",) if wanted.reach else ()
    wish = _wish(service, actor, JobKind.CHECK, wanted, words)
    return accepted(response, ask(service, actor, wish, once_of(idempotency_key, "checks", wanted.model_dump())))


@router.post("/probes", status_code=HTTPStatus.ACCEPTED)
def probe(
    response: Response, service: TheService, actor: TheActor, wanted: Probe, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Have copies to null timed, as devices are and tuned; each is put back at once."""
    words = ("--seconds", str(wanted.seconds), *(() if wanted.how == "both" else (f"--{wanted.how}",)))
    wish = _wish(service, actor, JobKind.PROBE, wanted, words)
    return accepted(response, ask(service, actor, wish, once_of(idempotency_key, "probes", wanted.model_dump())))


@router.post("/dry-runs", status_code=HTTPStatus.ACCEPTED)
def dry_run(
    response: Response, service: TheService, actor: TheActor, wanted: DryRun, idempotency_key: IdempotencyKey = None
) -> dict[str, object]:
    """Have it told what would be sent to each device, by a plan in any state or for an image."""
    once = once_of(idempotency_key, "dry-runs", wanted.model_dump())
    if wanted.plan:
        job = begin(service, actor, wanted.plan, reason=wanted.reason, rehearse=True, once=once)
    else:
        job = ask(service, actor, _wish(service, actor, JobKind.DRY_RUN, wanted, ()), once)
    return accepted(response, job)


@router.get("/jobs")
def list_jobs(
    service: TheService,
    actor: TheActor,
    last: Annotated[int, Query(ge=1, le=_MOST, description="How many.")] = 50,
    before: Annotated[str | None, Query(max_length=40, description="Asked for before this time.")] = None,
) -> dict[str, object]:
    """List the jobs that one may see, the newest first."""
    with service.database.reading() as database:
        found = latest_jobs(database, last, before=before)
    next_ = found[-1].created_at if len(found) == last else None
    return {"jobs": [told_job(seen) for job in found if (seen := job_seen(actor, job)) is not None], "before": next_}


@router.get("/jobs/{job_id}")
def read_job(service: TheService, actor: TheActor, job_id: str) -> dict[str, object]:
    """Tell how far a job is and, once it ended, what its verb printed, up to a megabyte."""
    with service.database.reading() as database:
        job = seen_job(database, actor, job_id)
    is_told = not job.is_open and sees_all_of(actor, job)
    result = JobFolder.of(service.state, job_id).document() or None if is_told else None
    return told_job(job_seen(actor, job) or job) | {"result": result}


@router.post("/jobs/{job_id}/cancel")
def cancel_queued(service: TheService, actor: TheActor, job_id: str, why: Why) -> dict[str, object]:
    """Take a job that has not begun out of the queue for good."""
    return told_job(cancel(service, actor, job_id, why.reason))


@router.get("/jobs/{job_id}/result", response_class=FileResponse)
def read_result(service: TheService, actor: TheActor, job_id: str) -> FileResponse:
    """Answer the document that the verb of a job printed, however large it is."""
    with service.database.reading() as database:
        job = seen_job(database, actor, job_id)
    if not sees_all_of(actor, job):
        raise Forbidden(
            f"job {job_id}: what it printed is about sites that you may not see, too",
            hint="Its run's page and report have what is of your sites",
        )
    if is_removed(service, job):
        days = service.settings.runs.keep_jobs_s / 86400
        raise Removed(
            f"job {job_id}: what it printed was removed, {days:g} days after its end",
            hint="Its run's report has what became of devices; the job itself tells its exit code",
        )
    path = JobFolder.of(service.state, job_id).result
    if job.is_open or not path.is_file() or path.is_symlink():
        raise NotFound(f"job {job_id}: it has printed nothing, or is under way", hint="Look at its state")
    return FileResponse(path, media_type="application/json")


def accepted(response: Response, job: Job) -> dict[str, object]:
    """Answer with a job that was asked for: where it is told how far it is."""
    response.status_code = HTTPStatus.ACCEPTED
    response.headers["Location"] = f"{JOBS}/{job.job_id}"
    return told_job(job)


def _wish(service: Service, actor: Actor, kind: JobKind, wanted: Looked, words: tuple[str, ...]) -> JobWish:
    """Return what is wanted as the wish for a job.

    Raises:
        ServiceError: The transport is none.
    """
    if wanted.transport:
        words = (*words, "--transport", _checked_transport(wanted.transport))
    return JobWish(
        kind=kind,
        devices=Devices(hosts=tuple(wanted.hosts), groups=tuple(wanted.groups), filters=tuple(wanted.filters)),
        image=wanted.image,
        sites=tuple(dict.fromkeys(wanted.sites)) or with_devices(service, _operated(actor)),
        words=words,
        reason=wanted.reason,
    )


def _operated(actor: Actor) -> tuple[str, ...]:
    """Return the sites that somebody operates; none: all of them.

    Raises:
        ServiceError: He operates none.
    """
    sites = sorted({grant.site for grant in actor.grants if grant.role is Role.OPERATOR})
    if not sites:
        raise Forbidden("expected the role operator somewhere, found it nowhere", hint="Ask for it")
    return () if EVERYWHERE in sites else tuple(sites)


def _checked_transport(asked: str) -> str:
    # Late: the service starts without the transports and what they bring of platforms.
    from flashferry.transports.choice import check_asked

    try:
        return check_asked(asked, option="transport")
    except ConfigInvalid as error:
        raise invalid_from(error) from None

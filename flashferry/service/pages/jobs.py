"""Job pages: list, and job with state, result, errors and output file."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import RedirectResponse

from flashferry.service.api.depends import FormProse, TheActor, TheService
from flashferry.service.jobs.results import MOST_RESULT_BYTES, device_results, error_of, job_output
from flashferry.service.jobs.steering import cancel, may_cancel
from flashferry.service.listing import listing
from flashferry.service.pages.frame import link, view_page
from flashferry.service.run_visibility import latest_seen, seen_job
from flashferry.store.service.jobs import Job, JobKind, JobState, jobs_after

router = APIRouter(include_in_schema=False)
PAGE_JOBS = 50
"""Jobs on a page of the list."""
_TITLES = {
    JobKind.STAGE: "Run",
    JobKind.RESUME: "Resumed run",
    JobKind.RECOVER: "Recovery",
    JobKind.CHECK: "Check",
    JobKind.PROBE: "Speed test",
    JobKind.DRY_RUN: "Rehearsal",
    JobKind.PLAN: "Plan",
    JobKind.READY: "Readiness check",
    JobKind.NIGHTLY: "Night in a lab",
}
Page = Annotated[int, Query(ge=1, le=10_000)]
Before = Annotated[str, Query(max_length=40)]


@view_page(router, "/jobs", "jobs.html")
def jobs(service: TheService, actor: TheActor, before: Before = "") -> object:
    """Return the jobs that the caller may see, newest first."""
    with service.database.reading() as database:
        seen, older = latest_seen(database, actor, PAGE_JOBS, before or None)
    return {
        "at": service.now().isoformat(),
        "jobs": [job_row(one, actor) for one in seen],
        "before": before,
        "older": older,
    }


@view_page(router, "/jobs/{job_id}", "job.html")
def job(service: TheService, actor: TheActor, job_id: str, page: Page = 1) -> object:
    """Return a job: its state and, once ended, its output."""
    with service.database.reading() as database:
        whole = seen_job(database, actor, job_id)
        after = [one.job_id for one in jobs_after(database, job_id)]
    output = job_output(service, actor, whole)
    found = device_results(output.document)
    return {
        "at": service.now().isoformat(),
        "job": job_row(output.job, actor) | {"sites": output.job.sites, "parent": whole.parent, "after": after},
        "is_open": whole.is_open,
        "sees_all": output.is_whole,
        "tone": _tone(whole),
        "meaning": str(output.document.get("meaning", "")),
        "error": error_of(output.document),
        "has_devices": bool(found),
        "list": listing(found, {}, path=link("/jobs", job_id), page=page),
        "size_bytes": output.size_bytes,
        "is_large": output.size_bytes > MOST_RESULT_BYTES,
        "is_removed": output.is_removed,
        "reported": output.reported,
    }


@router.post("/jobs/{job_id}/cancel")
def cancel_job(service: TheService, actor: TheActor, job_id: str, reason: FormProse = "") -> RedirectResponse:
    """Cancel a queued job."""
    cancel(service, actor, job_id, reason)
    return RedirectResponse(link("/jobs", job_id), HTTPStatus.SEE_OTHER.value)


def job_row(job: Job, actor: TheActor) -> dict[str, object]:
    """Return a job as a row of a table."""
    names = (
        *("job_id", "run_id", "digest", "requested_by", "reason", "created_at", "started_at", "ended_at"),
        *("not_before", "until", "exit_code", "sentence"),
    )
    return {name: getattr(job, name) for name in names} | {
        "kind": job.kind.value,
        "title": _TITLES[job.kind],
        "state": job.state.value,
        "tone": _tone(job),
        "may_cancel": may_cancel(actor, job),
    }


def _tone(job: Job) -> str:
    """Return the tone of a job's state: `bad` if it died, `warn` for an exit code other than 0."""
    if job.state is JobState.DEAD:
        return "bad"
    if job.is_open:
        return "" if job.state is JobState.QUEUED else "good"
    if job.exit_code is None:
        return ""
    return "good" if job.exit_code == 0 else "warn"

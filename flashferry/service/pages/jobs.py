"""Job pages: list, and job with state, result, errors and output file."""

from __future__ import annotations

import sqlite3
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.responses import RedirectResponse

from flashferry.reports.words import as_fields
from flashferry.service.api.depends import FormProse, TheActor, TheService
from flashferry.service.jobs.results import MOST_RESULT_BYTES, device_results, error_of, job_output
from flashferry.service.jobs.steering import CANCELLED, cancel, may_cancel
from flashferry.service.listing import listing
from flashferry.service.pages.frame import link, view_page
from flashferry.service.run_visibility import latest_seen, seen_job
from flashferry.store.service.jobs import Job, JobKind, JobState, jobs_after
from flashferry.store.service.plans import PlanState, plan_of

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
        rows = [job_row(_as_plan_is_now(database, one), actor) for one in seen]
    return {
        "at": service.now().isoformat(),
        "jobs": rows,
        "before": before,
        "older": older,
    }


@view_page(router, "/jobs/{job_id}", "job.html")
def job(service: TheService, actor: TheActor, job_id: str, page: Page = 1) -> object:
    """Return a job: its state and, once ended, its output."""
    with service.database.reading() as database:
        whole = seen_job(database, actor, job_id)
        after = [one.job_id for one in jobs_after(database, job_id)]
        whole = _as_plan_is_now(database, whole)
    output = job_output(service, actor, whole)
    found = device_results(output.document)
    return {
        "at": service.now().isoformat(),
        "job": job_row(output.job, actor) | {"sites": output.job.sites, "parent": whole.parent, "after": after},
        "is_open": whole.is_open,
        "sees_all": output.is_whole,
        "tone": _tone(whole),
        "meaning": as_fields(str(output.document.get("meaning", ""))),
        "error": as_fields(error_of(output.document)),
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
        *("not_before", "until", "exit_code"),
    )
    return {name: getattr(job, name) for name in names} | {
        # The reason of a cancellation is the canceller's own words.
        "sentence": job.sentence if job.sentence.startswith(CANCELLED) else as_fields(job.sentence),
        "kind": job.kind.value,
        "title": _TITLES[job.kind],
        "state": job.state.value,
        "tone": _tone(job),
        "may_cancel": may_cancel(actor, job),
    }


def _as_plan_is_now(database: sqlite3.Connection, job: Job) -> Job:
    """Return a job; where it made a plan, its sentence also has the plan's present state."""
    plan = plan_of(database, job.digest) if job.kind is JobKind.PLAN and job.digest is not None else None
    if plan is None or not job.sentence:
        return job
    state = "waits for approval" if plan.state is PlanState.DRAFT else f"is {plan.state}"
    return replace(job, sentence=f"{job.sentence}, which {state}")


def _tone(job: Job) -> str:
    """Return the tone of a job's state: `bad` if it died, `warn` for an exit code other than 0."""
    if job.state is JobState.DEAD:
        return "bad"
    if job.is_open:
        return "" if job.state is JobState.QUEUED else "good"
    if job.exit_code is None:
        return ""
    return "good" if job.exit_code == 0 else "warn"

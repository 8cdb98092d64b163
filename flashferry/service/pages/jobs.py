"""Jobs: the list, and one with its state, what it found, its errors and its file."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import RedirectResponse

from flashferry.core.apart.processes import JobFolder
from flashferry.core.state_folder import open_private
from flashferry.model.exit_codes import ExitCode
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.jobs.create import seen_job
from flashferry.service.jobs.results import device_results, error_of
from flashferry.service.jobs.steering import cancel, may_cancel
from flashferry.service.jobs.tidying import is_removed
from flashferry.service.pages.frame import link, view_page
from flashferry.service.pages.listing import listing
from flashferry.service.principal import Actor
from flashferry.service.run_visibility import job_seen, sees_all_of
from flashferry.service.texts import FormProse
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobKind, JobState, jobs_after, latest_jobs

router = APIRouter(include_in_schema=False)

PAGE_JOBS = 50
"""Jobs on a page of the list."""
MOST_RESULT_BYTES = 32 << 20
"""A larger result is downloaded, not shown."""
_STDERR_BYTES = 8192
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
    """Return the jobs that the caller may see, the newest first."""
    with service.database.reading() as database:
        found = latest_jobs(database, PAGE_JOBS, before=before or None)
    return {
        "at": moment(service.now()),
        "jobs": [job_row(seen, actor) for one in found if (seen := job_seen(actor, one)) is not None],
        "before": before,
        "older": found[-1].created_at if len(found) == PAGE_JOBS else "",
    }


@view_page(router, "/jobs/{job_id}", "job.html")
def job(service: TheService, actor: TheActor, job_id: str, page: Page = 1) -> object:
    """Return a job: its state, and once it has ended what its verb printed and reported."""
    with service.database.reading() as database:
        whole = seen_job(database, actor, job_id)
        after = [one.job_id for one in jobs_after(database, job_id) if job_seen(actor, one) is not None]
    folder, sees_all = JobFolder.of(service.state, job_id), sees_all_of(actor, whole)
    document = folder.document(MOST_RESULT_BYTES) if sees_all and not whole.is_open else {}
    found = device_results(document)
    size_bytes = _size_of(folder) if sees_all and not whole.is_open else 0
    seen = job_seen(actor, whole) or whole
    return {
        "at": moment(service.now()),
        "job": job_row(seen, actor) | {"sites": seen.sites, "parent": seen.parent, "after": after},
        "is_open": whole.is_open,
        "sees_all": sees_all,
        "tone": _tone(whole),
        "meaning": str(document.get("meaning", "")),
        "error": error_of(document),
        "has_devices": bool(found),
        "list": listing(found, {}, path=link("/jobs", job_id), page=page),
        "size_bytes": size_bytes,
        "is_large": size_bytes > MOST_RESULT_BYTES,
        "is_removed": is_removed(service, whole),
        "reported": _reported(folder) if sees_all else "",
    }


@router.post("/jobs/{job_id}/cancel")
def cancel_job(service: TheService, actor: TheActor, job_id: str, reason: FormProse = "") -> RedirectResponse:
    """Cancel a queued job."""
    cancel(service, actor, job_id, reason)
    return RedirectResponse(link("/jobs", job_id), HTTPStatus.SEE_OTHER.value)


def job_row(job: Job, actor: Actor) -> dict[str, object]:
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
    """Return the tone of a job's state: bad for one that died, warn for an exit code that is not 0."""
    if job.state is JobState.DEAD:
        return "bad"
    if job.is_open:
        return "" if job.state is JobState.QUEUED else "good"
    if job.exit_code is None:
        return ""
    return "good" if job.exit_code == ExitCode.OK else "warn"


def _size_of(folder: JobFolder) -> int:
    """Return the bytes of a job's result that can be downloaded; 0 for none."""
    try:
        return 0 if folder.result.is_symlink() else folder.result.stat().st_size
    except OSError:
        return 0


def _reported(folder: JobFolder) -> str:
    """Return the end of what the verb reported to people, in whole lines; empty for nothing."""
    try:
        with open_private(folder.stderr, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _STDERR_BYTES)
            file.seek(start)
            text = str(file.read(), "utf-8", "replace")
    except OSError:
        return ""
    return (text.partition("\n")[2] if start else text).strip()

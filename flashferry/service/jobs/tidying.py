"""Background task that deletes job folders some time after the job ended, unless they are still needed.

Kept are folders of open jobs, of live runs, and of runs whose devices are not all restored; all folders while the
journal cannot be read. Row and audit entries stay.
"""

from __future__ import annotations

import logging
import os
import shutil
from datetime import timedelta
from pathlib import Path

from flashferry.core.jobs import JobFolder
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.reader import is_run_alive
from flashferry.store.service.jobs import Job, job_of, jobs_of_run
from flashferry.store.status import read_status

_LOG = logging.getLogger("flashferry.service.jobs")
_MOST_AT_ONCE = 500


def tidy(service: Service) -> None:
    """Delete expired folders. Raises `ConfigInvalid` if the journal cannot be read."""
    if not (old := _old(service)):
        return
    unrestored = _unrestored(service.state)
    over = [job for job in old if job.run_id not in unrestored and not _is_in_use(service, job)]
    removed = [job.job_id for job in over[:_MOST_AT_ONCE] if not service.stopping.is_set() and _remove(service, job)]
    if removed:
        days = service.settings.runs.keep_jobs_s / 86400.0
        with service.database.writing() as database:
            service.note(
                *(database, SYSTEM, "jobs.tidied", "jobs"),
                reason=f"their jobs ended over {days:g} days ago",
                after={"folders": removed},
            )


def _old(service: Service) -> list[Job]:
    """Return the jobs with a folder whose retention time is over."""
    try:
        names = sorted(path.name for path in (service.state / "jobs").iterdir() if path.is_dir() and _is_ours(path))
    except FileNotFoundError:
        return []
    before = service.moment(-timedelta(seconds=service.settings.runs.keep_jobs_s))
    with service.database.reading() as database:
        found = (job_of(database, name) for name in names)
        return [job for job in found if job is not None and job.ended_at is not None and job.ended_at < before]


def _unrestored(state: Path) -> frozenset[str]:
    """Return the runs that have devices without proof of a restore."""
    status = read_status(state, 1)
    held = {run.run_id for run in status.runs if any(device.is_held for device in run.devices)}
    return frozenset(held | {one.run_id for one in status.lost})


def _is_in_use(service: Service, job: Job) -> bool:
    if job.is_open:
        return True
    if job.run_id is None:
        return False
    with service.database.reading() as database:
        is_in_hand = any(one.is_open for one in jobs_of_run(database, job.run_id))
    return is_in_hand or is_run_alive(service.state, job.run_id)


def _is_ours(path: Path) -> bool:
    return not path.is_symlink() and path.stat().st_uid == os.getuid()


def _remove(service: Service, job: Job) -> bool:
    try:
        # A link that leads out of the folder is safe: `rmtree` removes the link alone.
        shutil.rmtree(JobFolder.of(service.state, job.job_id).path)
    except OSError as error:
        _LOG.warning("the folder of job %s cannot be removed, tried again in an hour: %s", job.job_id, error)
        return False
    return True

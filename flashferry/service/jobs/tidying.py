"""The keeper of jobs' folders: one is removed a month after its job ended, and never while anybody may need it.

What stays needed: the folder of a job that is open, and those of a run that lives, or whose devices are not all proven
restored, by the journal and by the files beside it; and all of them while the journal cannot be read. A folder that
belongs to no job here is nobody's to remove. The job's row and the audit stay.
"""

from __future__ import annotations

import logging
import os
import shutil
from datetime import timedelta
from pathlib import Path

from flashferry.core.apart.folder import JobFolder
from flashferry.service.auditing import note
from flashferry.service.background import PeriodicTask
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.run_lock import is_run_alive
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, job_of, jobs_of_run
from flashferry.store.status import read_status

_LOG = logging.getLogger("flashferry.service.jobs")
_EVERY_S = 3600.0
_MOST_AT_ONCE = 500


def tidy(service: Service) -> None:
    """Remove the folders whose time is over.

    Raises:
        ConfigInvalid: The journal cannot be read, so nobody knows what is needed.
    """
    if not (old := _old(service)):
        return
    unrestored = _unrestored(service.state)
    over = [job for job in old if job.run_id not in unrestored and not _is_under_way(service, job)]
    removed = [job.job_id for job in over[:_MOST_AT_ONCE] if not service.stopping.is_set() and _remove(service, job)]
    if removed:
        days = service.settings.runs.keep_jobs_s / 86400.0
        with service.database.writing() as database:
            note(
                *(service, database, SYSTEM, "jobs.tidied", "jobs"),
                reason=f"their jobs ended over {days:g} days ago",
                after={"folders": removed},
            )


KEEPER = PeriodicTask(name="job-folders", every_s=_EVERY_S, look=tidy)


def is_removed(service: Service, job: Job) -> bool:
    """Return whether what a job printed was removed with its folder."""
    ended = job.ended_at is not None and job.started_at is not None
    return ended and not JobFolder.of(service.state, job.job_id).path.exists()


def _old(service: Service) -> list[Job]:
    """Return the jobs whose folder is there, and which ended long enough ago."""
    try:
        names = sorted(path.name for path in (service.state / "jobs").iterdir() if path.is_dir() and _is_ours(path))
    except FileNotFoundError:
        return []
    before = moment(service.now() - timedelta(seconds=service.settings.runs.keep_jobs_s))
    with service.database.reading() as database:
        found = (job_of(database, name) for name in names)
        return [job for job in found if job is not None and job.ended_at is not None and job.ended_at < before]


def _unrestored(state: Path) -> frozenset[str]:
    """Return the runs that left devices of which nobody has proven yet that they are restored."""
    status = read_status(state, 1)
    held = {run.run_id for run in status.runs if any(device.is_held for device in run.devices)}
    return frozenset(held | {one.run_id for one in status.lost})


def _is_under_way(service: Service, job: Job) -> bool:
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
        # Not by links that lead out of it: `rmtree` removes a link and leaves what it leads to.
        shutil.rmtree(JobFolder.of(service.state, job.job_id).path)
    except OSError as error:
        _LOG.warning("the folder of job %s cannot be removed, tried again in an hour: %s", job.job_id, error)
        return False
    return True

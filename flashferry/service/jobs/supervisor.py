"""Background task of jobs: starts waiting ones, follows running ones, and follows up dead ones.

Each pass relies on tables, journal and job folders alone: a service that was killed continues with its first pass.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta

from flashferry.core.apart.folder import JobFolder
from flashferry.core.apart.processes import ProcessMark, claim, is_stopped, read_mark
from flashferry.core.errors import ConfigInvalid
from flashferry.service.auditing import note
from flashferry.service.background import PeriodicTask
from flashferry.service.errors import Forbidden, ServiceError
from flashferry.service.jobs.auto_recovery import CARED_FOR_S, RUNS, LeftRun, next_try, starts_again
from flashferry.service.jobs.create import job_obstacle, request_job
from flashferry.service.jobs.ending import announce_start, end, queue_once_more
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.jobs.launching import has_depot, prepare, start, unit_of
from flashferry.service.jobs.queue import waiting
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.control_requests import WishKind
from flashferry.store.reader import reading
from flashferry.store.run_lock import is_run_alive
from flashferry.store.service.answers import forget_answers
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.jobs import (
    UNDER_WAY,
    Job,
    JobState,
    claim_job,
    dead_jobs,
    job_of,
    jobs_after,
    jobs_in,
    jobs_of_run,
    set_run,
    set_running,
    set_sentence,
)
from flashferry.store.tables import held_devices, run_of_job, run_row, wishes_of

_LOG = logging.getLogger("flashferry.service.jobs")

EVERY_S = 0.5

_ANSWERS_KEPT_S = 7 * 24 * 3600.0
_FORGETS_EVERY_S = 3600.0

_BEGINS_WITHIN_S = 120.0
"""A process that did not claim its job by then will not: systemd refused its unit, or the disk is full."""


_STOPPED = "its process {pid} was stopped by a signal; 'kill -CONT {pid}' continues it"

Starter = Callable[[Service, Job], "subprocess.Popen[bytes] | None"]


class Supervisor:
    """Follows the jobs of a service; remembers only its own child processes."""

    def __init__(self, starter: Starter = start) -> None:
        self._starter = starter
        self._forgot_at: datetime | None = None
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def run_once(self, service: Service) -> None:
        """Advance each job that can be."""
        with service.database.reading() as database:
            under_way = jobs_in(database, UNDER_WAY)
        for job in under_way:
            self._follow(service, job)
        self._begin_waiting(service)
        _clean_up(service)
        self._fetch()
        self._forget(service)

    def _begin_waiting(self, service: Service) -> None:
        with service.database.reading() as database:
            queued, under_way = jobs_in(database, {JobState.QUEUED}), jobs_in(database, UNDER_WAY)
        if not queued:
            return
        now = moment(service.now())
        for job, why in waiting(queued, under_way, has_depot=has_depot(service), now=now):
            if why:
                # Without a transaction where nothing is new: hundreds may wait.
                if why != job.sentence:
                    with service.database.writing() as database:
                        set_sentence(database, job.job_id, why, state=JobState.QUEUED)
            elif (claimed := _claimed(service, job)) is not None:
                self._start(service, claimed)

    def _start(self, service: Service, job: Job) -> None:
        """Start a job's process; a failure is retried in the next pass."""
        known = self._children.get(job.job_id)
        if known is not None and known.poll() is None:
            return
        try:
            prepare(service, job)
            child = self._starter(service, job)
        except (ConfigInvalid, OSError) as error:
            with service.database.writing() as database:
                sentence = f"its process could not be started, trying again: {error}"
                set_sentence(database, job.job_id, sentence, state=JobState.STARTING)
            return
        if child is not None:
            self._children[job.job_id] = child

    def _follow(self, service: Service, job: Job) -> None:
        """Handle a job that was started."""
        folder = JobFolder.of(service.state, job.job_id)
        mark = read_mark(folder.begun) or _mark_of(job)
        if mark is None:
            if not _is_given_up(service, job):
                self._start(service, job)
                return
            # From here on no process can take it any more.
            if not claim(folder.begun):
                return
            end(service, job, state=JobState.DEAD, exit_code=None, sentence="its process did not start")
            return
        # Asked before its folder is read: what it wrote before its end is there then.
        lives = mark.is_alive()
        job = _seen(service, job, pid=mark.pid, process_started=mark.started)
        if lives:
            _note_stopped(service, job, mark.pid)
            return
        if (outcome := folder.outcome()) is not None:
            end(service, job, state=JobState.ENDED, exit_code=outcome.exit_code, sentence=outcome.sentence)
            return
        words = folder.last_words()
        sentence = "its process died" + (f"; last output: {words}" if words else " without output")
        deaths, resumes = folder.deaths, service.settings.runs.resumes
        if starts_again(job, deaths=deaths, resumes=resumes, now=service.now()):
            folder.put_aside()
            queue_once_more(service, job, f"{sentence}, before its run was in the journal: queued again")
        else:
            end(service, job, state=JobState.DEAD, exit_code=None, sentence=sentence)

    def _forget(self, service: Service) -> None:
        """Forget idempotency keys after some days."""
        now = service.now()
        if self._forgot_at is None or now - self._forgot_at > timedelta(seconds=_FORGETS_EVERY_S):
            self._forgot_at = now
            with service.database.writing() as database:
                forget_answers(database, moment(now - timedelta(seconds=_ANSWERS_KEPT_S)))

    def _fetch(self) -> None:
        """Reap ended children."""
        for job_id, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[job_id]


def _claimed(service: Service, job: Job) -> Job | None:
    """Take a job out of the queue; None if another pass did, or it may not start any more."""
    unit = unit_of(service.settings.runs.unit, job.job_id)
    with service.database.writing() as database:
        why = job_obstacle(service, database, job)
        if not why:
            is_ours = claim_job(database, job.job_id, at=moment(service.now()), unit=unit)
            return job_of(database, job.job_id) if is_ours else None
    end(service, job, state=JobState.ENDED, exit_code=None, sentence=f"not started: {why}", outcome="refused")
    return None


def _mark_of(job: Job) -> ProcessMark | None:
    """Return the process of a running job from its row, for when its file is gone."""
    if job.state is not JobState.RUNNING or job.pid is None or job.process_started is None:
        return None
    return ProcessMark(pid=job.pid, started=job.process_started)


def _note_stopped(service: Service, job: Job, pid: int) -> None:
    """Report once that a job's process was stopped by a signal, and once that it continues."""
    sentence = _STOPPED.format(pid=pid) if is_stopped(pid) else ""
    if sentence == job.sentence or not (sentence or job.sentence.startswith(_STOPPED.partition("{")[0])):
        return
    with service.database.writing() as database:
        set_sentence(database, job.job_id, sentence, state=JobState.RUNNING)
    _LOG.warning("job %s: %s", job.job_id, sentence or f"its process {pid} goes on")


def _is_given_up(service: Service, job: Job) -> bool:
    started_at = moment_of(job.started_at or job.created_at)
    return service.now() - started_at > timedelta(seconds=_BEGINS_WITHIN_S)


def _seen(service: Service, job: Job, *, pid: int, process_started: str) -> Job:
    """Store process and run of a job, once each; return the job with both."""
    run_id = job.run_id
    if run_id is None and job.kind in RUNS:
        with reading(service.state) as journal:
            run_id = run_of_job(journal, job.job_id) if journal is not None else None
    if job.state is JobState.RUNNING and run_id == job.run_id:
        return job
    with service.database.writing() as database:
        is_new = set_running(database, job.job_id, pid=pid, process_started=process_started)
        is_known = run_id is not None and set_run(database, job.job_id, run_id)
        job = job_of(database, job.job_id) or job
        if is_known or (is_new and job.run_id is not None):
            announce_start(service, database, job)
        return job


def _clean_up(service: Service) -> None:
    """Request what follows the death of runs."""
    since = moment(service.now() - timedelta(seconds=2 * CARED_FOR_S))
    with service.database.reading() as database:
        dead = [(job, jobs_after(database, job.job_id)) for job in dead_jobs(database, since)]
        latest = {job.run_id: jobs_of_run(database, job.run_id)[-1:] for job, _ in dead if job.run_id is not None}
    for job, tries in dead:
        if job.kind not in RUNS or job.run_id is None:
            continue
        if any(job.job_id not in (one.job_id, one.parent) for one in latest[job.run_id]):
            # An operator acted on that run since, and is in charge of it.
            continue
        left = _left(service, job.run_id)
        resumes = service.settings.runs.resumes
        if left is None or (step := next_try(job, tries, left, resumes=resumes, now=service.now())) is None:
            continue
        reason = f"job {(tries[-1] if tries else job).job_id} died" if not tries else f"after job {tries[-1].job_id}"
        spec = JobSpec(
            kind=step.kind,
            digest=job.digest,
            run_id=job.run_id,
            sites=job.sites,
            reason=reason,
            parent=job.job_id,
            attempt=step.attempt,
        )
        _ask(service, job, spec)


def _ask(service: Service, dead: Job, spec: JobSpec) -> None:
    try:
        with service.database.writing() as database:
            request_job(service, database, SYSTEM, spec)
    except ServiceError as problem:
        if isinstance(problem, Forbidden):
            raise
        # Reported once: the next pass finds the same.
        with service.database.writing() as database:
            sentence = f"{dead.sentence.partition(' -- ')[0]} -- {problem.sentence}"
            if set_sentence(database, dead.job_id, sentence, state=JobState.DEAD):
                about = f"job:{dead.job_id}"
                note(service, database, SYSTEM, f"run.{spec.kind}", about, outcome="refused", reason=problem.sentence)


def _left(service: Service, run_id: str) -> LeftRun | None:
    """Return a run by the journal; None if it is not there."""
    with reading(service.state) as journal:
        row = run_row(journal, run_id) if journal is not None else None
        if journal is None or row is None:
            return None
        return LeftRun(
            is_alive=is_run_alive(service.state, run_id),
            is_finished=row.finished_at is not None,
            holds=sum(device.run_id == run_id for device in held_devices(journal)),
            is_stopped=any(one.what == WishKind.STOP for one in wishes_of(journal, run_id)),
        )


TASK = PeriodicTask(name="jobs", every_s=EVERY_S, run=Supervisor().run_once)

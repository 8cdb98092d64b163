"""Background task that starts waiting jobs, follows running ones, and requests recoveries after dead ones."""

from __future__ import annotations

import json
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.jobs import JobFolder, ProcessMark, claim, is_stopped, read_mark
from flashferry.core.redaction import sanitize
from flashferry.core.state_folder import open_private
from flashferry.depot.paths import AUTO, is_served, socket_of
from flashferry.model.exit_codes import ExitCode
from flashferry.service.errors import Forbidden, ServiceError
from flashferry.service.jobs.create import job_obstacle, request_job, waiting
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.notices import NoticeKind, announce, announce_lasting, key_of_unrestored
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.control_requests import SteerKind
from flashferry.store.reader import is_run_alive, reading
from flashferry.store.service.answers import forget_answers
from flashferry.store.service.database import moment_of
from flashferry.store.service.jobs import (
    IN_PROGRESS,
    Job,
    JobKind,
    JobState,
    claim_job,
    dead_jobs,
    end_job,
    job_of,
    jobs_after,
    jobs_in,
    jobs_of_run,
    queue_again,
    set_run,
    set_running,
    set_sentence,
)
from flashferry.store.service.plans import plan_of, text_of
from flashferry.store.tables import held_devices, run_of_job, run_row, steer_requests_of

RECOVERY_PAUSES_S = (0.0, 10.0, 60.0, 300.0)
"""Pauses before each recovery: a device may be unreachable for a while. Then people are needed."""
CARED_FOR_S = 24 * 3600.0
"""How long after its death a job is followed up."""
RUNS = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE})
"""Kinds that change devices."""
_GOES_ON = frozenset({JobKind.STAGE, JobKind.RESUME})


class LeftRun(Struct, frozen=True, kw_only=True):
    """Run of a dead job, as the journal has it.

    Attributes:
        is_alive: Another process resumed the run.
        holds: Devices whose configuration it left changed.
    """

    is_alive: bool
    is_finished: bool
    holds: int
    is_stopped: bool


class NextTry(Struct, frozen=True, kw_only=True):
    """Follow-up job to request: `recover` or `resume`, and its number under the dead job, from 1."""

    kind: JobKind
    attempt: int


def next_try(dead: Job, tries: Sequence[Job], run: LeftRun, *, resumes: int, now: datetime) -> NextTry | None:
    """Return the follow-up job that is due now; None: nothing, or not yet.

    `tries` are the follow-up jobs of the dead one so far, oldest first; `resumes` limits the number of resumes.
    """
    last = tries[-1] if tries else dead
    if last.is_open or run.is_alive or last.ended_at is None:
        return None
    if now - moment_of(last.ended_at) > timedelta(seconds=CARED_FOR_S):
        return None
    if run.holds:
        return _recovery(last, sum(one.kind is JobKind.RECOVER for one in _since_the_last_run(tries)), tries, now)
    resumed = sum(one.kind is JobKind.RESUME for one in tries)
    is_over = run.is_finished or run.is_stopped or (last.kind is JobKind.RESUME and last.state is JobState.ENDED)
    if dead.kind not in _GOES_ON or is_over or resumed >= resumes:
        return None
    return NextTry(kind=JobKind.RESUME, attempt=resumed + 1)


def starts_again(dead: Job, *, deaths: int, resumes: int, now: datetime) -> bool:
    """Return whether to queue a job again whose process died before its run was in the journal.

    Such a run changed no device, so there is nothing to restore. `deaths` is the number of earlier deaths.
    """
    age = now - moment_of(dead.started_at or dead.created_at)
    is_young = age <= timedelta(seconds=CARED_FOR_S)
    return dead.kind in _GOES_ON and dead.run_id is None and deaths < resumes and is_young


def _recovery(last: Job, in_a_row: int, tries: Sequence[Job], now: datetime) -> NextTry | None:
    if in_a_row >= len(RECOVERY_PAUSES_S):
        return None
    assert last.ended_at is not None
    if now < moment_of(last.ended_at) + timedelta(seconds=RECOVERY_PAUSES_S[in_a_row]):
        return None
    return NextTry(kind=JobKind.RECOVER, attempt=sum(one.kind is JobKind.RECOVER for one in tries) + 1)


def _since_the_last_run(tries: Sequence[Job]) -> Sequence[Job]:
    """Return the follow-up jobs after the last resume: recoveries are counted anew after each death."""
    after = next((number for number in range(len(tries), 0, -1) if tries[number - 1].kind in _GOES_ON), 0)
    return tries[after:]


_MOST_SIGNS = 1000


def announce_start(service: Service, database: sqlite3.Connection, job: Job) -> None:
    """Send the notice that a run started, in the caller's transaction."""
    if job.kind in RUNS:
        sentence = f"{job.kind} started, requested by {job.requested_by}" + (f": {job.reason}" if job.reason else "")
        announce(
            service,
            database,
            NoticeKind.RUN_BEGAN,
            _about(job),
            sentence,
            _facts(job),
            path=_path(job),
            sites=job.sites,
        )


def end(
    service: Service, job: Job, *, state: JobState, exit_code: int | None, sentence: str, outcome: str | None = None
) -> bool:
    """Store the end of a job (`ended` or `dead`) and send its notice; return False if the job was closed already.

    `exit_code` None: unknown. `outcome` is for the audit; None: `done`, or `failed` for a dead job.
    """
    text = sanitize(sentence)[:_MOST_SIGNS]
    with service.database.writing() as database:
        at = service.moment()
        if not end_job(database, job.job_id, at=at, state=state, exit_code=exit_code, sentence=text):
            return False
        is_dead = state is JobState.DEAD
        details: dict[str, object] = {"state": state.value, "exit_code": exit_code, "sentence": text, "run": job.run_id}
        action = "job.died" if is_dead else "job.ended"
        outcome = outcome or ("failed" if is_dead else "done")
        service.note(database, SYSTEM, action, f"job:{job.job_id}", outcome=outcome, after=details)
        if exit_code == ExitCode.RESTORE_INCOMPLETE:
            _announce_unrestored(service, database, job, f"{job.kind}: {text}", details)
        for kind, words in _notices(database, job, at, is_dead=is_dead, text=text):
            announce(
                service, database, kind, _about(job), words, _facts(job) | details, path=_path(job), sites=job.sites
            )
    return True


def queue_once_more(service: Service, job: Job, sentence: str) -> None:
    """Queue a job again whose process died. Has no effect if another pass did it."""
    text = sanitize(sentence)[:_MOST_SIGNS]
    with service.database.writing() as database:
        if queue_again(database, job.job_id, text):
            service.note(database, SYSTEM, "job.requeued", f"job:{job.job_id}", reason=text)


def _announce_unrestored(
    service: Service, database: sqlite3.Connection, job: Job, words: str, details: dict[str, object]
) -> None:
    """Send a notice of devices left changed: once per run, later as a reminder."""
    kind, facts = NoticeKind.NOT_RESTORED, _facts(job) | details
    if job.run_id is None:
        announce(service, database, kind, _about(job), words, facts, sites=job.sites)
    else:
        key = key_of_unrestored(job.run_id)
        announce_lasting(service, database, key, kind, _about(job), words, facts, path=_path(job), sites=job.sites)


def _notices(
    database: sqlite3.Connection, job: Job, at: str, *, is_dead: bool, text: str
) -> list[tuple[NoticeKind, str]]:
    if job.kind not in RUNS:
        return []
    found = [(NoticeKind.RUN_DEAD if is_dead else NoticeKind.RUN_ENDED, f"{job.kind}: {text}")]
    plan = plan_of(database, job.digest) if job.digest is not None else None
    if plan is not None and plan.ends_at is not None and plan.ends_at < at:
        found.append((NoticeKind.OUTSIDE_WINDOW, f"{job.kind} ended at {at}, after its end {plan.ends_at}"))
    return found


def _about(job: Job) -> str:
    return f"run:{job.run_id}" if job.run_id is not None else f"job:{job.job_id}"


def _path(job: Job) -> str:
    return f"/runs/{job.run_id}" if job.run_id is not None else ""


def _facts(job: Job) -> dict[str, object]:
    return {
        "job": job.job_id,
        "kind": job.kind.value,
        "run": job.run_id,
        "digest": job.digest,
        "sites": list(job.sites),
        "requested_by": job.requested_by,
        "parent": job.parent,
        "attempt": job.attempt,
    }


_SYSTEMCTL_S = 20.0
_DEPOT = "--depot"
_HAVE_A_PLAN = frozenset({JobKind.STAGE, JobKind.DRY_RUN})


def unit_of(template: str, job_id: str) -> str | None:
    """Return a job's systemd unit: `flashferry-run@j1.service` for the template `flashferry-run@.service`; or None."""
    return template.replace("@.", f"@{job_id}.", 1) if template else None


def prepare(service: Service, job: Job) -> None:
    """Write the files that a job's process needs into its folder. Idempotent.

    Raises:
        ConfigInvalid: The folder belongs to another user.
        OSError: The files cannot be written.
    """
    folder = JobFolder.of(service.state, job.job_id)
    folder.make()
    if job.kind in _HAVE_A_PLAN and job.digest is not None:
        with service.database.reading() as database:
            text = text_of(database, job.digest)
        folder.write(folder.plan, text)
    if job.rules:
        folder.write(folder.rules, job.rules)
    details = {"job": job.job_id, "actor": job.requested_by, "words": list(job.words)}
    folder.write(folder.command, json.dumps(details, indent=1) + "\n")


def start(service: Service, job: Job) -> subprocess.Popen[bytes] | None:
    """Start the process of a prepared job; return it if it is a child of this process.

    Raises:
        ConfigInvalid: systemd does not start its unit.
        OSError: It cannot be started.
    """
    folder = JobFolder.of(service.state, job.job_id)
    if job.unit is not None:
        _start_unit(job.unit)
        return None
    with open_private(folder.stderr, "ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry.service.jobs.child", str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )


def has_depot(service: Service) -> bool:
    """Return whether a depot answers, which serves all runs, so that several can run at once."""
    found = socket_of(depot_option(service), service.state)
    return found is not None and is_served(found)


def depot_option(service: Service) -> str:
    """Return the value of `--depot` for jobs: `auto`, `never`, or the path of a socket."""
    options = service.settings.runs.options
    return next((options[at + 1] for at, word in enumerate(options[:-1]) if word == _DEPOT), AUTO)


def _start_unit(unit: str) -> None:
    try:
        done = subprocess.run(
            ["systemctl", "start", "--no-block", "--", unit],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_started(unit, reason_of(error)) from None
    if done.returncode != 0:
        raise _not_started(unit, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])


def _not_started(unit: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"systemd did not start {unit}: {why}",
        hint="Install the template, and let this user start it (docs/service.md), or take 'unit' out of [runs]",
    )


_LOG = logging.getLogger("flashferry.service.jobs")


_ANSWERS_KEPT_S = 7 * 24 * 3600.0
_FORGETS_EVERY_S = 3600.0
_BEGINS_WITHIN_S = 120.0
"""A process that did not claim its job by then will not: systemd refused its unit, or the disk is full."""
_STOPPED = "its process {pid} was stopped by a signal; 'kill -CONT {pid}' continues it"
Starter = Callable[[Service, Job], "subprocess.Popen[bytes] | None"]


class Supervisor:
    """Starts and follows the jobs of a service; its only state is its own child processes."""

    def __init__(self, starter: Starter = start) -> None:
        self._starter = starter
        self._forgot_at: datetime | None = None
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def run_once(self, service: Service) -> None:
        """Handle each open job once: start, follow or follow up."""
        with service.database.reading() as database:
            running = jobs_in(database, IN_PROGRESS)
        for job in running:
            self._follow(service, job)
        self._begin_waiting(service)
        _clean_up(service)
        self._fetch()
        self._forget(service)

    def _begin_waiting(self, service: Service) -> None:
        with service.database.reading() as database:
            queued, running = jobs_in(database, {JobState.QUEUED}), jobs_in(database, IN_PROGRESS)
        if not queued:
            return
        now = service.moment()
        for job, why in waiting(queued, running, has_depot=has_depot(service), now=now):
            if why:
                # No transaction if nothing changed: hundreds of jobs can wait.
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
                sentence = f"its process could not be started, trying again: {reason_of(error)}"
                set_sentence(database, job.job_id, sentence, state=JobState.STARTING)
            return
        if child is not None:
            self._children[job.job_id] = child

    def _follow(self, service: Service, job: Job) -> None:
        """Update the row of a started job: process, run, end."""
        folder = JobFolder.of(service.state, job.job_id)
        mark = read_mark(folder.mark_file) or _mark_of(job)
        if mark is None:
            if not _is_given_up(service, job):
                self._start(service, job)
                return
            # From here on no process can claim the job.
            if not claim(folder.mark_file):
                return
            end(service, job, state=JobState.DEAD, exit_code=None, sentence="its process did not start")
            return
        # Check the process before its folder: whatever it wrote before its end is then readable.
        lives = mark.is_alive()
        job = _seen(service, job, pid=mark.pid, process_started=mark.started)
        if lives:
            _note_stopped(service, job, mark.pid)
            return
        if (outcome := folder.outcome()) is not None:
            end(service, job, state=JobState.ENDED, exit_code=outcome.exit_code, sentence=outcome.sentence)
            return
        words = folder.last_error_line()
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
                forget_answers(database, service.moment(-timedelta(seconds=_ANSWERS_KEPT_S)))

    def _fetch(self) -> None:
        """Reap child processes that ended."""
        for job_id, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[job_id]


def _claimed(service: Service, job: Job) -> Job | None:
    """Mark a queued job as starting; None if another pass did, or the job can no longer start."""
    unit = unit_of(service.settings.runs.unit, job.job_id)
    with service.database.writing() as database:
        why = job_obstacle(service, database, job)
        if not why:
            is_ours = claim_job(database, job.job_id, at=service.moment(), unit=unit)
            return job_of(database, job.job_id) if is_ours else None
    end(service, job, state=JobState.ENDED, exit_code=None, sentence=f"not started: {why}", outcome="refused")
    return None


def _mark_of(job: Job) -> ProcessMark | None:
    """Return the process of a running job from its row, for when its file is gone."""
    if job.state is not JobState.RUNNING or job.pid is None or job.process_started is None:
        return None
    return ProcessMark(pid=job.pid, started=job.process_started)


def _note_stopped(service: Service, job: Job, pid: int) -> None:
    """Log once that a signal (SIGSTOP) stopped a job's process, and once that it continues."""
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
    """Store the process and the run of a job once known; return the updated job."""
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
    """Request the follow-up jobs of dead runs."""
    since = service.moment(-timedelta(seconds=2 * CARED_FOR_S))
    with service.database.reading() as database:
        dead = [(job, jobs_after(database, job.job_id)) for job in dead_jobs(database, since)]
        latest = {job.run_id: jobs_of_run(database, job.run_id)[-1:] for job, _ in dead if job.run_id is not None}
    for job, tries in dead:
        if job.kind not in RUNS or job.run_id is None:
            continue
        if any(job.job_id not in (one.job_id, one.parent) for one in latest[job.run_id]):
            # An operator has acted on that run since, and is responsible for it.
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
        # Log it once: the next pass finds the same state.
        with service.database.writing() as database:
            sentence = f"{dead.sentence.partition(' -- ')[0]} -- {problem.sentence}"
            if set_sentence(database, dead.job_id, sentence, state=JobState.DEAD):
                about = f"job:{dead.job_id}"
                service.note(database, SYSTEM, f"run.{spec.kind}", about, outcome="refused", reason=problem.sentence)


def _left(service: Service, run_id: str) -> LeftRun | None:
    """Return a run from the journal; None if the journal does not have it."""
    with reading(service.state) as journal:
        row = run_row(journal, run_id) if journal is not None else None
        if journal is None or row is None:
            return None
        return LeftRun(
            is_alive=is_run_alive(service.state, run_id),
            is_finished=row.finished_at is not None,
            holds=sum(device.run_id == run_id for device in held_devices(journal)),
            is_stopped=any(one.what == SteerKind.STOP for one in steer_requests_of(journal, run_id)),
        )

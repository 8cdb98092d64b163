"""Start and end of a job: rows, audit entries and notices in one transaction, once."""

from __future__ import annotations

import sqlite3

from flashferry.core.outside import shown
from flashferry.model.exit_codes import ExitCode
from flashferry.service.auditing import note
from flashferry.service.jobs.auto_recovery import RUNS
from flashferry.service.notices import NoticeKind, announce, announce_lasting, key_of_unrestored
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobState, end_job, queue_again
from flashferry.store.service.plans import plan_of

_MOST_SIGNS = 1000


def announce_start(service: Service, database: sqlite3.Connection, job: Job) -> None:
    """Announce that a run started, in the caller's transaction."""
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
    """Store and announce the end of a job; return whether it was open.

    Args:
        service: The service.
        job: The job.
        state: `ended` or `dead`.
        exit_code: Of its verb; None if there was none.
        sentence: Result.
        outcome: For the audit; None: `done`, or `failed` for a dead one.
    """
    text = shown(sentence)[:_MOST_SIGNS]
    with service.database.writing() as database:
        at = moment(service.now())
        if not end_job(database, job.job_id, at=at, state=state, exit_code=exit_code, sentence=text):
            return False
        is_dead = state is JobState.DEAD
        details: dict[str, object] = {"state": state.value, "exit_code": exit_code, "sentence": text, "run": job.run_id}
        action = "job.died" if is_dead else "job.ended"
        outcome = outcome or ("failed" if is_dead else "done")
        note(service, database, SYSTEM, action, f"job:{job.job_id}", outcome=outcome, after=details)
        if exit_code == ExitCode.RESTORE_INCOMPLETE:
            _announce_unrestored(service, database, job, f"{job.kind}: {text}", details)
        for kind, words in _notices(database, job, at, is_dead=is_dead, text=text):
            announce(
                service, database, kind, _about(job), words, _facts(job) | details, path=_path(job), sites=job.sites
            )
    return True


def queue_once_more(service: Service, job: Job, sentence: str) -> None:
    """Queue a job again whose process died; once."""
    text = shown(sentence)[:_MOST_SIGNS]
    with service.database.writing() as database:
        if queue_again(database, job.job_id, text):
            note(service, database, SYSTEM, "job.requeued", f"job:{job.job_id}", reason=text)


def _announce_unrestored(
    service: Service, database: sqlite3.Connection, job: Job, words: str, details: dict[str, object]
) -> None:
    """Announce devices left changed: once for each run, then as a reminder."""
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

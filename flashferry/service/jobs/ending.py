"""What is told of a job: that it began, and what came of it. Rows, audit and notices in one transaction, once."""

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


def tell_begun(service: Service, database: sqlite3.Connection, job: Job) -> None:
    """Put out that a run began, within the caller's transaction."""
    if job.kind in RUNS:
        sentence = f"{job.kind} began, asked for by {job.requested_by}" + (f": {job.reason}" if job.reason else "")
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
    """Keep what came of a job, tell it, and return whether that is news.

    Args:
        service: The service.
        job: The job.
        state: `ended` or `dead`.
        exit_code: Of its verb; None where it did not get to say.
        sentence: What came of it.
        outcome: What stands in the audit; None: `done`, or `failed` of one that died.
    """
    text = shown(sentence)[:_MOST_SIGNS]
    with service.database.writing() as database:
        at = moment(service.now())
        if not end_job(database, job.job_id, at=at, state=state, exit_code=exit_code, sentence=text):
            return False
        is_dead = state is JobState.DEAD
        told: dict[str, object] = {"state": state.value, "exit_code": exit_code, "sentence": text, "run": job.run_id}
        action = "job.died" if is_dead else "job.ended"
        outcome = outcome or ("failed" if is_dead else "done")
        note(service, database, SYSTEM, action, f"job:{job.job_id}", outcome=outcome, after=told)
        if exit_code == ExitCode.RESTORE_INCOMPLETE:
            _tell_unrestored(service, database, job, f"{job.kind}: {text}", told)
        for kind, words in _notices(database, job, at, is_dead=is_dead, text=text):
            announce(service, database, kind, _about(job), words, _facts(job) | told, path=_path(job), sites=job.sites)
    return True


def queue_once_more(service: Service, job: Job, sentence: str) -> None:
    """Put a job whose process is dead back into the queue, with a line in the audit; once."""
    text = shown(sentence)[:_MOST_SIGNS]
    with service.database.writing() as database:
        if queue_again(database, job.job_id, text):
            note(service, database, SYSTEM, "job.requeued", f"job:{job.job_id}", reason=text)


def _tell_unrestored(
    service: Service, database: sqlite3.Connection, job: Job, words: str, told: dict[str, object]
) -> None:
    """Tell that devices are left changed; once for each run, however many jobs say so, and then as a reminder."""
    kind, facts = NoticeKind.NOT_RESTORED, _facts(job) | told
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
        found.append((NoticeKind.OUTSIDE_WINDOW, f"{job.kind} ended at {at}, and was to end by {plan.ends_at}"))
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

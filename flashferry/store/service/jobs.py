"""The service's jobs: what was asked to be run, which process does it, and what came of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from enum import StrEnum

from flashferry.store.service.database import names_in


class JobKind(StrEnum):
    """What a job runs: a verb of the command line."""

    STAGE = "stage"
    RESUME = "resume"
    RECOVER = "recover"
    CHECK = "check"
    PROBE = "probe"
    DRY_RUN = "dry-run"
    PLAN = "plan"
    NIGHTLY = "nightly"


class JobState(StrEnum):
    """How far a job is."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    DEAD = "dead"


OPEN = frozenset({JobState.QUEUED, JobState.STARTING, JobState.RUNNING})
"""Those that have not come to an end."""

UNDER_WAY = frozenset({JobState.STARTING, JobState.RUNNING})
"""Those that have a process, or are about to get one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A process of its own that the service began, or is to begin.

    Attributes:
        job_id: Its identifier, which is also that of its folder.
        kind: What it runs.
        state: How far it is.
        digest: Of the plan that it carries out; None where there is none.
        run_id: Its run in the journal; None while that is not known, or where its verb makes none.
        parent: The job whose death it cleans up after, or goes on with; None where a person asked for it.
        attempt: Which try of that it is, from 1; 0 where a person asked for it.
        words: Its command line behind `flashferry`; no secret stands in it.
        rules: Image rules that it plans by, as the text of their file; empty: those of the inventory.
        sites: Sites that it touches; none: unknown, so perhaps all.
        requested_by: Who asked for it.
        via: How he showed who he is.
        reason: Why, in his words.
        not_before: It waits until then; None: its turn is now.
        until: By when its run is to have ended; None: the plan's end holds.
        unit: The systemd unit that runs it; None: a process of our own.
        pid: Its process; None while there is none.
        process_started: Boot and clock tick at which that process began: a number alone is given to others later.
        created_at: When it was asked for.
        started_at: When its process began.
        ended_at: When it was seen to have ended.
        exit_code: What its verb ended with; None where it did not get to say.
        sentence: What it waits for, or what came of it.
    """

    job_id: str
    kind: JobKind
    state: JobState = JobState.QUEUED
    digest: str | None = None
    run_id: str | None = None
    parent: str | None = None
    attempt: int = 0
    words: tuple[str, ...]
    rules: str = ""
    sites: tuple[str, ...] = ()
    requested_by: str
    via: str
    reason: str = ""
    not_before: str | None = None
    until: str | None = None
    unit: str | None = None
    pid: int | None = None
    process_started: str | None = None
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    sentence: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether it has not come to an end."""
        return self.state in OPEN


_COLUMNS = tuple(field.name for field in fields(Job))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM jobs"  # noqa: S608 -- our columns
_LISTS = frozenset({"words", "sites"})


def add_job(database: sqlite3.Connection, job: Job) -> None:
    """Enter a job.

    Raises:
        sqlite3.IntegrityError: Its identifier is taken, or this try to clean up after its parent is there already.
    """
    row = {name: json.dumps(value) if name in _LISTS else value for name, value in asdict(job).items()}
    marks = ", ".join(f":{name}" for name in _COLUMNS)
    database.execute(f"INSERT INTO jobs ({', '.join(_COLUMNS)}) VALUES ({marks})", row)  # noqa: S608 -- our columns


def job_of(database: sqlite3.Connection, job_id: str) -> Job | None:
    """Return a job; None where there is none of that identifier."""
    row = database.execute(f"{_SELECT} WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else _job(row)


def jobs_in(database: sqlite3.Connection, states: Collection[JobState]) -> list[Job]:
    """Return the jobs in some states, the oldest first."""
    return _jobs(database, f"WHERE state IN ({_marks(states)}) ORDER BY created_at, rowid", states)


def latest_jobs(database: sqlite3.Connection, most: int, *, before: str | None = None) -> list[Job]:
    """Return so many jobs, the newest first.

    Args:
        database: A connection.
        most: How many at most.
        before: Only those asked for before this time; None: up to now.
    """
    where = "WHERE created_at < ? ORDER BY created_at DESC, rowid DESC LIMIT ?"
    return _jobs(database, where, (before or "9", most))


def jobs_of_run(database: sqlite3.Connection, run_id: str) -> list[Job]:
    """Return the jobs that had a run in hand, the oldest first."""
    return _jobs(database, "WHERE run_id = ? ORDER BY created_at, rowid", (run_id,))


def jobs_of_plan(database: sqlite3.Connection, digest: str) -> list[Job]:
    """Return the jobs for a plan, the oldest first."""
    return _jobs(database, "WHERE digest = ? ORDER BY created_at, rowid", (digest,))


def jobs_after(database: sqlite3.Connection, parent: str) -> list[Job]:
    """Return the jobs that cleaned up after another one's death or went on with it, the oldest first."""
    return _jobs(database, "WHERE parent = ? ORDER BY created_at, rowid", (parent,))


def dead_jobs(database: sqlite3.Connection, since: str) -> list[Job]:
    """Return the jobs that a person asked for and that died since a time, the oldest first."""
    where = "WHERE state = 'dead' AND parent IS NULL AND ended_at >= ? ORDER BY ended_at, rowid"
    return _jobs(database, where, (since,))


def claim_job(database: sqlite3.Connection, job_id: str, *, at: str, unit: str | None) -> bool:
    """Take a job out of the queue to start it; return whether it was ours to take, for it is given once.

    Args:
        database: A connection.
        job_id: The job.
        at: What time it is.
        unit: The systemd unit that is to run it; None: a process of our own.
    """
    return _changed(
        database,
        "UPDATE jobs SET state = 'starting', started_at = ?, unit = ?, sentence = '' "
        "WHERE job_id = ? AND state = 'queued'",
        (at, unit, job_id),
    )


def cancel_job(database: sqlite3.Connection, job_id: str, *, at: str, sentence: str) -> bool:
    """Take a job out of the queue for good; return whether it was still there: of this and `claim_job` one finds it."""
    return _changed(
        database,
        "UPDATE jobs SET state = 'ended', ended_at = ?, sentence = ? WHERE job_id = ? AND state = 'queued'",
        (at, sentence, job_id),
    )


def set_running(database: sqlite3.Connection, job_id: str, *, pid: int, process_started: str) -> bool:
    """Keep which process does a job; return whether it was starting."""
    return _changed(
        database,
        "UPDATE jobs SET state = 'running', pid = ?, process_started = ? WHERE job_id = ? AND state = 'starting'",
        (pid, process_started, job_id),
    )


def queue_again(database: sqlite3.Connection, job_id: str, sentence: str) -> bool:
    """Put a job whose process is dead back into the queue; return whether it was running."""
    return _changed(
        database,
        "UPDATE jobs SET state = 'queued', started_at = NULL, unit = NULL, pid = NULL, process_started = NULL, "
        "sentence = ? WHERE job_id = ? AND state = 'running'",
        (sentence, job_id),
    )


def set_run(database: sqlite3.Connection, job_id: str, run_id: str) -> bool:
    """Keep which run of the journal is a job's; return whether that was not known yet."""
    return _changed(database, "UPDATE jobs SET run_id = ? WHERE job_id = ? AND run_id IS NULL", (run_id, job_id))


def set_sentence(database: sqlite3.Connection, job_id: str, sentence: str, *, state: JobState) -> bool:
    """Write what a job waits for, while it is in that state; return whether that is news."""
    where = "UPDATE jobs SET sentence = ? WHERE job_id = ? AND state = ? AND sentence <> ?"
    return _changed(database, where, (sentence, job_id, state, sentence))


def end_job(
    database: sqlite3.Connection, job_id: str, *, at: str, state: JobState, exit_code: int | None, sentence: str
) -> bool:
    """Keep what came of a job; return whether it was open until now, so that its end is reported once."""
    return _changed(
        database,
        "UPDATE jobs SET state = ?, ended_at = ?, exit_code = ?, sentence = ? "
        "WHERE job_id = ? AND state IN ('queued', 'starting', 'running')",
        (state, at, exit_code, sentence, job_id),
    )


def plan_jobs_to_offer(database: sqlite3.Connection) -> list[Job]:
    """Return the jobs that made a plan and have ended, and whose plan was not offered yet, the oldest first."""
    return _jobs(database, "WHERE kind = 'plan' AND state = 'ended' AND digest IS NULL ORDER BY created_at", ())


def plans_being_made(database: sqlite3.Connection, since: str) -> list[Job]:
    """Return the jobs that make a plan, or failed to, asked for since a time, the newest first."""
    where = "WHERE kind = 'plan' AND digest IS NULL AND created_at >= ? ORDER BY created_at DESC, rowid DESC"
    return _jobs(database, where, (since,))


def set_plan_made(database: sqlite3.Connection, job_id: str, digest: str | None, sentence: str) -> None:
    """Keep which plan a job made, or why it is none."""
    where = "UPDATE jobs SET digest = ?, sentence = ? WHERE job_id = ? AND kind = 'plan'"
    database.execute(where, (digest, sentence, job_id))


def _jobs(database: sqlite3.Connection, behind: str, values: Iterable[object]) -> list[Job]:
    return [_job(row) for row in database.execute(f"{_SELECT} {behind}", tuple(values))]


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    lists = {name: names_in(values[name]) for name in _LISTS}
    return Job(**values | lists | {"kind": JobKind(values["kind"]), "state": JobState(values["state"])})


def _changed(database: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> bool:
    return database.execute(statement, values).rowcount > 0


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))

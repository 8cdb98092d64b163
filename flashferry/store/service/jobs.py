"""Jobs of the service, and the schedules that start them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from enum import StrEnum

from msgspec import Struct

from flashferry.core.values import as_dict, field_names
from flashferry.store.service.database import names_in


class JobKind(StrEnum):
    """The command that a job runs."""

    STAGE = "stage"
    RESUME = "resume"
    RECOVER = "recover"
    CHECK = "check"
    PROBE = "probe"
    DRY_RUN = "dry-run"
    READY = "ready"
    PLAN = "plan"
    NIGHTLY = "nightly"


class JobState(StrEnum):
    """Progress of a job."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    DEAD = "dead"


RUNS = frozenset({JobKind.STAGE, JobKind.RESUME})
"""Kinds that carry out a plan."""

RECOVERS = frozenset({JobKind.RECOVER, JobKind.RESUME})
"""Kinds that restore what a run left changed; a resume does so first."""

OPEN = frozenset({JobState.QUEUED, JobState.STARTING, JobState.RUNNING})
"""States of a job that has not ended."""

IN_PROGRESS = frozenset({JobState.STARTING, JobState.RUNNING})
"""States of a job that has, or is about to get, a process."""


class Job(Struct, frozen=True, kw_only=True):
    """A process that the service starts.

    Attributes:
        job_id: Also the name of its folder.
        digest: Of its plan; None for none.
        run_id: Its run in the journal; None if unknown or if the command makes none.
        parent: The job that it recovers or resumes; None for a user's job.
        attempt: Number of the recovery attempt, from 1; 0 for a user's job.
        words: Command line after `flashferry`, without secrets.
        rules: Image rules as TOML text; empty for those of the inventory.
        sites: Sites that it touches; empty if unknown, so possibly all.
        requested_by: User name.
        via: How the user authenticated.
        reason: The user's reason.
        not_before: Earliest start; None for now.
        until: When its run must have ended; None takes the plan's end.
        unit: Its systemd unit; None for a child process.
        pid: Its process; None for none.
        process_started: Boot and start time of the process, because process numbers are reused; None before it starts.
        created_at: As the tables store times.
        started_at: Start of its process; None before.
        ended_at: When its end was noticed; None before.
        exit_code: Of the command; None if the process was killed.
        sentence: What it waits for, or its result.
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
        """Return whether it has not ended."""
        return self.state in OPEN


_COLUMNS = tuple(field_names(Job))

_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM jobs"  # noqa: S608 -- our columns

_LISTS = frozenset({"words", "sites"})


def add_job(database: sqlite3.Connection, job: Job) -> None:
    """Add a job.

    Raises:
        sqlite3.IntegrityError: The identifier, or this recovery attempt of its parent, exists.
    """
    row = {name: json.dumps(value) if name in _LISTS else value for name, value in as_dict(job).items()}
    marks = ", ".join(f":{name}" for name in _COLUMNS)
    database.execute(f"INSERT INTO jobs ({', '.join(_COLUMNS)}) VALUES ({marks})", row)  # noqa: S608 -- our columns


def job_of(database: sqlite3.Connection, job_id: str) -> Job | None:
    """Return a job by its identifier; None if there is none."""
    row = database.execute(f"{_SELECT} WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else _job(row)


def jobs_in(database: sqlite3.Connection, states: Collection[JobState]) -> list[Job]:
    """Return the jobs in some states, the oldest first."""
    return _jobs(database, f"WHERE state IN ({', '.join('?' * len(states))}) ORDER BY created_at, rowid", states)


def latest_jobs(database: sqlite3.Connection, most: int, *, before: str | None = None) -> list[Job]:
    """Return the newest jobs, the newest first.

    Args:
        database: A connection.
        most: Maximum number.
        before: Only jobs requested before this time; None for all.
    """
    where = "WHERE created_at < ? ORDER BY created_at DESC, rowid DESC LIMIT ?"
    return _jobs(database, where, (before or "9", most))


def jobs_of_run(database: sqlite3.Connection, run_id: str) -> list[Job]:
    """Return the jobs that ran a run, the oldest first."""
    return _jobs(database, "WHERE run_id = ? ORDER BY created_at, rowid", (run_id,))


def jobs_of_plan(database: sqlite3.Connection, digest: str) -> list[Job]:
    """Return the jobs for a plan, the oldest first."""
    return _jobs(database, "WHERE digest = ? ORDER BY created_at, rowid", (digest,))


def jobs_after(database: sqlite3.Connection, parent: str) -> list[Job]:
    """Return the jobs that recovered or resumed another job, the oldest first."""
    return _jobs(database, "WHERE parent = ? ORDER BY created_at, rowid", (parent,))


def dead_jobs(database: sqlite3.Connection, since: str) -> list[Job]:
    """Return the users' jobs that died since a time, the oldest first."""
    where = "WHERE state = 'dead' AND parent IS NULL AND ended_at >= ? ORDER BY ended_at, rowid"
    return _jobs(database, where, (since,))


def claim_job(database: sqlite3.Connection, job_id: str, *, at: str, unit: str | None) -> bool:
    """Take a job from the queue to start it; return whether this caller got it.

    Args:
        database: A connection.
        job_id: The job.
        at: Current time.
        unit: Its systemd unit; None for a child process.
    """
    return _changed(
        database,
        "UPDATE jobs SET state = 'starting', started_at = ?, unit = ?, sentence = '' "
        "WHERE job_id = ? AND state = 'queued'",
        (at, unit, job_id),
    )


def cancel_job(database: sqlite3.Connection, job_id: str, *, at: str, sentence: str) -> bool:
    """Remove a job from the queue; return False if it was claimed or cancelled before."""
    return _changed(
        database,
        "UPDATE jobs SET state = 'ended', ended_at = ?, sentence = ? WHERE job_id = ? AND state = 'queued'",
        (at, sentence, job_id),
    )


def set_running(database: sqlite3.Connection, job_id: str, *, pid: int, process_started: str) -> bool:
    """Store the process of a job; return whether the job was starting."""
    return _changed(
        database,
        "UPDATE jobs SET state = 'running', pid = ?, process_started = ? WHERE job_id = ? AND state = 'starting'",
        (pid, process_started, job_id),
    )


def queue_again(database: sqlite3.Connection, job_id: str, sentence: str) -> bool:
    """Return a job with a dead process to the queue; return whether it was running."""
    return _changed(
        database,
        "UPDATE jobs SET state = 'queued', started_at = NULL, unit = NULL, pid = NULL, process_started = NULL, "
        "sentence = ? WHERE job_id = ? AND state = 'running'",
        (sentence, job_id),
    )


def set_run(database: sqlite3.Connection, job_id: str, run_id: str) -> bool:
    """Store the run of a job; return whether it was unknown."""
    return _changed(database, "UPDATE jobs SET run_id = ? WHERE job_id = ? AND run_id IS NULL", (run_id, job_id))


def set_sentence(database: sqlite3.Connection, job_id: str, sentence: str, *, state: JobState) -> bool:
    """Store what a job in this state waits for; return whether that changed."""
    where = "UPDATE jobs SET sentence = ? WHERE job_id = ? AND state = ? AND sentence <> ?"
    return _changed(database, where, (sentence, job_id, state, sentence))


def end_job(
    database: sqlite3.Connection, job_id: str, *, at: str, state: JobState, exit_code: int | None, sentence: str
) -> bool:
    """Store the result of a job; return whether it was open, so that its end is reported once."""
    return _changed(
        database,
        "UPDATE jobs SET state = ?, ended_at = ?, exit_code = ?, sentence = ? "
        "WHERE job_id = ? AND state IN ('queued', 'starting', 'running')",
        (state, at, exit_code, sentence, job_id),
    )


def plan_jobs_to_offer(database: sqlite3.Connection) -> list[Job]:
    """Return the ended jobs that made a plan which was not offered yet, the oldest first."""
    return _jobs(database, "WHERE kind = 'plan' AND state = 'ended' AND digest IS NULL ORDER BY created_at", ())


def plans_being_made(database: sqlite3.Connection, since: str) -> list[Job]:
    """Return the jobs since a time that have not made their plan, the newest first."""
    where = "WHERE kind = 'plan' AND digest IS NULL AND created_at >= ? ORDER BY created_at DESC, rowid DESC"
    return _jobs(database, where, (since,))


def set_plan_made(database: sqlite3.Connection, job_id: str, digest: str | None, sentence: str) -> None:
    """Store the plan that a job made, or why there is none."""
    where = "UPDATE jobs SET digest = ?, sentence = ? WHERE job_id = ? AND kind = 'plan'"
    database.execute(where, (digest, sentence, job_id))


def _jobs(database: sqlite3.Connection, clauses: str, values: Iterable[object]) -> list[Job]:
    return [_job(row) for row in database.execute(f"{_SELECT} {clauses}", tuple(values))]


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    lists = {name: names_in(values[name]) for name in _LISTS}
    return Job(**values | lists | {"kind": JobKind(values["kind"]), "state": JobState(values["state"])})


def _changed(database: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> bool:
    return database.execute(statement, values).rowcount > 0


class ScheduleKind(StrEnum):
    """What a schedule starts."""

    PLAN = "plan"
    NIGHTLY = "nightly"


class ScheduleState(StrEnum):
    """Whether a schedule starts anything."""

    ACTIVE = "active"
    HELD = "held"
    ENDED = "ended"


class Outcome(StrEnum):
    """Result of a due time."""

    CLAIMED = "claimed"
    STARTED = "started"
    MISSED = "missed"
    REFUSED = "refused"


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule.

    Attributes:
        subject: Digest of a plan, or path of a night's description in its folder.
        calendar: As `flashferry.service.schedules.calendar` writes it.
        time_zone: IANA name.
        window_s: Time allowed after each due time, in seconds.
        sites: Sites that it touches; empty if unknown: a role for all sites is needed.
        owner: Its jobs start in this user's name, and only while the user has the role.
        made_by: Who made it.
        made_at: As the tables store times.
        next_at: Next due time; None for none.
        sentence: Reason of the last change of state, or result of the last due time.
    """

    schedule_id: str
    title: str
    kind: ScheduleKind
    subject: str
    calendar: str
    time_zone: str
    window_s: int
    sites: tuple[str, ...]
    owner: str
    made_by: str
    made_at: str
    next_at: str | None
    state: ScheduleState = ScheduleState.ACTIVE
    sentence: str = ""


class Occasion(Struct, frozen=True, kw_only=True):
    """A due time and its result.

    Attributes:
        due_at: As the tables store times.
        claimed_at: When a process claimed it.
        claimed_by: Process and host.
        job_id: The started job; None for none.
        sentence: Why it was missed or refused, or how late it started.
    """

    schedule_id: str
    due_at: str
    claimed_at: str
    claimed_by: str
    outcome: Outcome = Outcome.CLAIMED
    job_id: str | None = None
    sentence: str = ""


_SCHEDULE_COLUMNS = tuple(field_names(Schedule))

_SELECT_SCHEDULE = f"SELECT {', '.join(_SCHEDULE_COLUMNS)} FROM schedules"  # noqa: S608 -- our columns

_OF_OCCASION = tuple(field_names(Occasion))


def add_schedule(database: sqlite3.Connection, schedule: Schedule) -> None:
    """Add a schedule."""
    row = as_dict(schedule) | {"sites": json.dumps(schedule.sites)}
    marks = ", ".join(f":{name}" for name in _SCHEDULE_COLUMNS)
    database.execute(f"INSERT INTO schedules ({', '.join(_SCHEDULE_COLUMNS)}) VALUES ({marks})", row)  # noqa: S608


def schedule_of(database: sqlite3.Connection, schedule_id: str) -> Schedule | None:
    """Return a schedule by its identifier; None if there is none."""
    row = database.execute(f"{_SELECT_SCHEDULE} WHERE schedule_id = ?", (schedule_id,)).fetchone()
    return None if row is None else _schedule(row)


def schedules(database: sqlite3.Connection, *, with_ended: bool = False) -> list[Schedule]:
    """Return all schedules by their next due time; ended ones with `with_ended`."""
    where = "WHERE ? OR state <> 'ended' ORDER BY next_at IS NULL, next_at, made_at, schedule_id"
    return [_schedule(row) for row in database.execute(f"{_SELECT_SCHEDULE} {where}", (with_ended,))]


def due_schedules(database: sqlite3.Connection, now: str) -> list[Schedule]:
    """Return the due schedules, the longest overdue first."""
    where = "WHERE state = 'active' AND next_at <= ? ORDER BY next_at, schedule_id"
    return [_schedule(row) for row in database.execute(f"{_SELECT_SCHEDULE} {where}", (now,))]


def set_schedule(
    database: sqlite3.Connection,
    schedule_id: str,
    *,
    state: ScheduleState,
    owner: str,
    next_at: str | None,
    sentence: str,
) -> None:
    """Change the mutable fields of a schedule."""
    database.execute(
        "UPDATE schedules SET state = ?, owner = ?, next_at = ?, sentence = ? WHERE schedule_id = ?",
        (state, owner, next_at, sentence, schedule_id),
    )


def claim_occasion(database: sqlite3.Connection, occasion: Occasion) -> bool:
    """Claim a due time; return whether this caller got it."""
    cursor = database.execute(
        "INSERT INTO occasions (schedule_id, due_at, claimed_at, claimed_by, outcome) VALUES (?, ?, ?, ?, 'claimed') "
        "ON CONFLICT (schedule_id, due_at) DO NOTHING",
        (occasion.schedule_id, occasion.due_at, occasion.claimed_at, occasion.claimed_by),
    )
    return cursor.rowcount == 1


def end_occasion(
    database: sqlite3.Connection, occasion: Occasion, outcome: Outcome, *, job_id: str | None, sentence: str
) -> None:
    """Store the result of a claimed due time."""
    database.execute(
        "UPDATE occasions SET outcome = ?, job_id = ?, sentence = ? WHERE schedule_id = ? AND due_at = ?",
        (outcome, job_id, sentence, occasion.schedule_id, occasion.due_at),
    )


def occasions_of(database: sqlite3.Connection, schedule_id: str, *, most: int = 100) -> list[Occasion]:
    """Return a schedule's due times, the newest first."""
    rows = database.execute(
        f"SELECT {', '.join(_OF_OCCASION)} FROM occasions WHERE schedule_id = ? "  # noqa: S608 -- our columns
        "ORDER BY due_at DESC LIMIT ?",
        (schedule_id, most),
    )
    return [Occasion(**dict(row) | {"outcome": Outcome(row["outcome"])}) for row in rows]


def _schedule(row: sqlite3.Row) -> Schedule:
    values = dict(row)
    return Schedule(
        **values
        | {
            "sites": names_in(values["sites"]),
            "kind": ScheduleKind(values["kind"]),
            "state": ScheduleState(values["state"]),
        }
    )

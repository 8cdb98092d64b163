"""Jobs of the service, and the schedules that start them."""

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
    READY = "ready"
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

IN_PROGRESS = frozenset({JobState.STARTING, JobState.RUNNING})

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


def _jobs(database: sqlite3.Connection, clauses: str, values: Iterable[object]) -> list[Job]:
    return [_job(row) for row in database.execute(f"{_SELECT} {clauses}", tuple(values))]


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    lists = {name: names_in(values[name]) for name in _LISTS}
    return Job(**values | lists | {"kind": JobKind(values["kind"]), "state": JobState(values["state"])})


def _changed(database: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> bool:
    return database.execute(statement, values).rowcount > 0


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


class ScheduleKind(StrEnum):
    """What a schedule begins."""

    PLAN = "plan"
    NIGHTLY = "nightly"


class ScheduleState(StrEnum):
    """Whether it begins anything."""

    ACTIVE = "active"
    HELD = "held"
    ENDED = "ended"


class Outcome(StrEnum):
    """What became of a due time."""

    CLAIMED = "claimed"
    STARTED = "started"
    MISSED = "missed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule.

    Attributes:
        schedule_id: Its identifier.
        title: What people call it.
        kind: What it begins.
        subject: The digest of a plan, or the path of a night's description below the folder of such.
        calendar: When, as `flashferry.service.schedules.calendar` writes it.
        time_zone: Where that holds, by the name of the IANA database.
        window_s: So long behind each due time the work may last, seconds.
        sites: Sites that it touches; none: unknown, so a role for all sites is needed.
        owner: Who answers for it: its jobs start in their name, and only while they have the role.
        made_by: Who made it.
        made_at: When, as the tables keep times.
        next_at: When it is due next, likewise; None: not any more, or while it is held.
        state: Whether it begins anything.
        sentence: What was said when that last changed, or what became of its last due time.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """A due time, and what became of it.

    Attributes:
        schedule_id: Of which schedule.
        due_at: When it was due, as the tables keep times.
        claimed_at: When a process took it.
        claimed_by: Which process on which host.
        outcome: What became of it.
        job_id: The job that it began, or None.
        sentence: Why it was missed or refused; how late it began.
    """

    schedule_id: str
    due_at: str
    claimed_at: str
    claimed_by: str
    outcome: Outcome = Outcome.CLAIMED
    job_id: str | None = None
    sentence: str = ""


_SCHEDULE_COLUMNS = tuple(one.name for one in fields(Schedule))

_SELECT_SCHEDULE = f"SELECT {', '.join(_SCHEDULE_COLUMNS)} FROM schedules"  # noqa: S608 -- our columns

_OF_OCCASION = tuple(one.name for one in fields(Occasion))


def add_schedule(database: sqlite3.Connection, schedule: Schedule) -> None:
    """Enter a schedule."""
    row = asdict(schedule) | {"sites": json.dumps(schedule.sites)}
    marks = ", ".join(f":{name}" for name in _SCHEDULE_COLUMNS)
    database.execute(f"INSERT INTO schedules ({', '.join(_SCHEDULE_COLUMNS)}) VALUES ({marks})", row)  # noqa: S608


def schedule_of(database: sqlite3.Connection, schedule_id: str) -> Schedule | None:
    """Return a schedule, or None where there is none of that identifier."""
    row = database.execute(f"{_SELECT_SCHEDULE} WHERE schedule_id = ?", (schedule_id,)).fetchone()
    return None if row is None else _schedule(row)


def schedules(database: sqlite3.Connection, *, with_ended: bool = False) -> list[Schedule]:
    """Return all schedules, those that are due next first; those that ended only where they are asked for."""
    where = "WHERE ? OR state <> 'ended' ORDER BY next_at IS NULL, next_at, made_at, schedule_id"
    return [_schedule(row) for row in database.execute(f"{_SELECT_SCHEDULE} {where}", (with_ended,))]


def due_schedules(database: sqlite3.Connection, now: str) -> list[Schedule]:
    """Return the schedules that are due, the longest first."""
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
    """Change what can change of a schedule; what it begins, and when, never does."""
    database.execute(
        "UPDATE schedules SET state = ?, owner = ?, next_at = ?, sentence = ? WHERE schedule_id = ?",
        (state, owner, next_at, sentence, schedule_id),
    )


def claim_occasion(database: sqlite3.Connection, occasion: Occasion) -> bool:
    """Take a due time; return whether it was there to be taken, for it is given once."""
    cursor = database.execute(
        "INSERT INTO occasions (schedule_id, due_at, claimed_at, claimed_by, outcome) VALUES (?, ?, ?, ?, 'claimed') "
        "ON CONFLICT (schedule_id, due_at) DO NOTHING",
        (occasion.schedule_id, occasion.due_at, occasion.claimed_at, occasion.claimed_by),
    )
    return cursor.rowcount == 1


def end_occasion(
    database: sqlite3.Connection, occasion: Occasion, outcome: Outcome, *, job_id: str | None, sentence: str
) -> None:
    """Keep what became of a due time that was taken."""
    database.execute(
        "UPDATE occasions SET outcome = ?, job_id = ?, sentence = ? WHERE schedule_id = ? AND due_at = ?",
        (outcome, job_id, sentence, occasion.schedule_id, occasion.due_at),
    )


def occasions_of(database: sqlite3.Connection, schedule_id: str, *, most: int = 100) -> list[Occasion]:
    """Return what became of a schedule's due times, the newest first."""
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

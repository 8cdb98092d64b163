"""Schedules and their occasions, as the tables have them. A due time of a schedule is claimed once, by its key."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, fields
from enum import StrEnum

from flashferry.store.service.database import names_in


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

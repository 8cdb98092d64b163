"""Plans and what was decided about them, as the tables have them. Four eyes are one statement, and a rule of the table.

A plan's text never changes once it is here: its digest is its name, and what was approved is what was read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from flashferry.model.fleet_plan import PlanWindow
from flashferry.store.database import moment_of
from flashferry.store.service.database import names_in


class PlanState(StrEnum):
    """What was decided about a plan. Whether an approved one can start is computed each time, never stored."""

    DRAFT = "draft"
    APPROVED = "approved"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """What a plan is, whatever was decided about it.

    Attributes:
        digest: SHA-256 of its content, as `flashferry.model.plan_file` works it out.
        title: What people call it; plans of one title follow each other.
        sites: The sites of all its devices, in order; an empty name stands for devices without a site.
        devices: How many devices it stages.
        images: Names of its images.
        duration_s: How long it takes, by its forecast.
        made_by: Who offers it.
        made_at: When, as the tables keep times.
        ends_at: When it must have ended, likewise; None: no end is given.
    """

    digest: str
    title: str
    sites: tuple[str, ...]
    devices: int
    images: tuple[str, ...]
    duration_s: float
    made_by: str
    made_at: str
    ends_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlan(PlanFacts):
    """A plan that is offered for approval.

    Attributes:
        text: Its file, as it was sent.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan(PlanFacts):
    """A plan in its row, without its text.

    Attributes:
        state: What was decided.
        decided_by: Who approved or denied it; None while it is open.
        decided_at: When.
        comment: What he said to it.
        withdrawn_by: Who took it back, approved or not.
        withdrawn_at: When.
        withdrawn_because: Why.
    """

    state: PlanState
    decided_by: str | None
    decided_at: str | None
    comment: str
    withdrawn_by: str | None
    withdrawn_at: str | None
    withdrawn_because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision about a plan.

    Attributes:
        digest: Of the plan that he read.
        by: Who.
        at: When, as the tables keep times.
        comment: What he says to it.
    """

    digest: str
    by: str
    at: str
    comment: str = ""


_COLUMNS = (
    "digest, title, sites, devices, images, duration_s, made_by, made_at, ends_at, state, decided_by, decided_at, "
    "comment, withdrawn_by, withdrawn_at, withdrawn_because"
)


def add_plan(database: sqlite3.Connection, plan: NewPlan) -> bool:
    """Add a plan as a draft; return whether it is new: a digest is there once, however often it is offered."""
    cursor = database.execute(
        "INSERT INTO plans (digest, text, title, sites, devices, images, duration_s, made_by, made_at, ends_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING",
        (
            *(plan.digest, plan.text, plan.title, json.dumps(plan.sites), plan.devices, json.dumps(plan.images)),
            *(plan.duration_s, plan.made_by, plan.made_at, plan.ends_at),
        ),
    )
    return cursor.rowcount == 1


def plan_of(database: sqlite3.Connection, digest: str) -> StoredPlan | None:
    """Return a plan, or None where it is not here."""
    row = database.execute(f"SELECT {_COLUMNS} FROM plans WHERE digest = ?", (digest,)).fetchone()  # noqa: S608
    return None if row is None else _stored(row)


def window_of(database: sqlite3.Connection, plan: StoredPlan) -> PlanWindow:
    """Return when a plan may be carried out, in the zone in which its text has its start."""
    query = "SELECT json_extract(text, '$.starts_at') FROM plans WHERE digest = ?"
    row = database.execute(query, (plan.digest,)).fetchone()
    opens = None if row is None or row[0] is None else datetime.fromisoformat(row[0])
    ends = None if plan.ends_at is None else moment_of(plan.ends_at)
    if opens is not None and ends is not None:
        ends = ends.astimezone(opens.tzinfo)
    return PlanWindow(opens_at=opens, ends_at=ends)


def text_of(database: sqlite3.Connection, digest: str) -> str:
    """Return the text of a plan's file, as it was sent.

    Raises:
        KeyError: The plan is not here.
    """
    row = database.execute("SELECT text FROM plans WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise KeyError(digest)
    return str(row[0])


def plans(database: sqlite3.Connection, *, title: str | None = None, most: int = 1000) -> Iterator[StoredPlan]:
    """Yield the plans, the newest first.

    Args:
        database: The tables.
        title: Those of this title alone; None: all.
        most: At most so many.
    """
    for row in database.execute(
        f"SELECT {_COLUMNS} FROM plans WHERE ? IS NULL OR title = ? "  # noqa: S608 -- our columns
        "ORDER BY made_at DESC, rowid DESC LIMIT ?",
        (title, title, most),
    ):
        yield _stored(row)


def approve(database: sqlite3.Connection, decision: Decision) -> bool:
    """Approve a plan if it is a draft, not the approver's own and not past its end; return whether it was done.

    One statement: of many who approve at once, one does. The table refuses a maker's own approval besides.
    """
    cursor = database.execute(
        "UPDATE plans SET state = 'approved', decided_by = :by, decided_at = :at, comment = :comment "
        "WHERE digest = :digest AND state = 'draft' AND made_by <> :by AND (ends_at IS NULL OR ends_at > :at)",
        _values(decision),
    )
    return cursor.rowcount == 1


def deny(database: sqlite3.Connection, decision: Decision) -> bool:
    """Deny a plan if it is a draft and not one's own; return whether it was done."""
    cursor = database.execute(
        "UPDATE plans SET state = 'denied', decided_by = :by, decided_at = :at, comment = :comment "
        "WHERE digest = :digest AND state = 'draft' AND made_by <> :by",
        _values(decision),
    )
    return cursor.rowcount == 1


def withdraw(database: sqlite3.Connection, decision: Decision) -> bool:
    """Take a draft or an approved plan back; who approved it stays in its row. Return whether it was done."""
    cursor = database.execute(
        "UPDATE plans SET state = 'withdrawn', withdrawn_by = :by, withdrawn_at = :at, withdrawn_because = :comment "
        "WHERE digest = :digest AND state IN ('draft', 'approved')",
        _values(decision),
    )
    return cursor.rowcount == 1


def _values(decision: Decision) -> dict[str, str]:
    return {"digest": decision.digest, "by": decision.by, "at": decision.at, "comment": decision.comment}


def _stored(row: sqlite3.Row) -> StoredPlan:
    lists = {name: names_in(row[name]) for name in ("sites", "images")}
    return StoredPlan(**dict(row) | lists | {"state": PlanState(row["state"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveApproval:
    """An approval of a wave of a run.

    Attributes:
        run_id: The run.
        wave: Up to this wave, from 0.
        digest: The plan that he read; empty where the run has none.
        by: Who.
        at: When, as the tables keep times.
        comment: What he said to it.
    """

    run_id: str
    wave: int
    digest: str
    by: str
    at: str
    comment: str = ""


def add_wave_approval(database: sqlite3.Connection, approval: WaveApproval) -> bool:
    """Keep a yes to a wave; return whether it is the first one: of many, one counts."""
    cursor = database.execute(
        "INSERT INTO wave_approvals (run_id, wave, digest, by, at, comment) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (run_id, wave) DO NOTHING",
        (approval.run_id, approval.wave, approval.digest, approval.by, approval.at, approval.comment),
    )
    return cursor.rowcount == 1


def wave_approval(database: sqlite3.Connection, run_id: str, wave: int) -> WaveApproval | None:
    """Return who said yes to a wave of a run, or None."""
    row = database.execute(
        "SELECT run_id, wave, digest, by, at, comment FROM wave_approvals WHERE run_id = ? AND wave = ?", (run_id, wave)
    ).fetchone()
    return None if row is None else WaveApproval(**dict(row))


def add_waiting_wave(database: sqlite3.Connection, run_id: str, wave: int, at: str) -> bool:
    """Keep that a wave of a run waits for approval; return whether that is news."""
    cursor = database.execute(
        "INSERT INTO waiting_waves (run_id, wave, at) VALUES (?, ?, ?) ON CONFLICT (run_id, wave) DO NOTHING",
        (run_id, wave, at),
    )
    return cursor.rowcount == 1

"""Plans, their approval by a second person, and approvals of waves.

A plan's text never changes: its digest is its key, so what was approved is what was read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from flashferry.model.fleet_plan import PlanWindow
from flashferry.store.database import moment_of
from flashferry.store.service.database import names_in


class PlanState(StrEnum):
    """Decision about a plan. Whether an approved plan can start is computed, not stored."""

    DRAFT = "draft"
    APPROVED = "approved"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"


class PlanFacts(Struct, frozen=True, kw_only=True):
    """A plan, regardless of decisions.

    Attributes:
        digest: SHA-256 of its content, see `flashferry.model.plan_file`.
        title: Plans of one title succeed each other.
        sites: Sites of its devices; an empty name for devices without one.
        devices: Number of devices.
        images: Names of its images.
        duration_s: By its forecast.
        made_by: Its author.
        made_at: As the tables store times.
        ends_at: When it must have ended; None for no limit.
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


class NewPlan(PlanFacts, frozen=True, kw_only=True):
    """A plan offered for approval.

    Attributes:
        text: Its file, as it was sent.
    """

    text: str


class StoredPlan(PlanFacts, frozen=True, kw_only=True):
    """A stored plan, without its text.

    Attributes:
        decided_by: Who approved or denied it; None while it is a draft.
        decided_at: When it was approved or denied, as the tables store times; None before.
        comment: Comment of the decision.
        withdrawn_by: Who withdrew it; None if it was not.
        withdrawn_at: When it was withdrawn; None if it was not.
        withdrawn_because: Why.
    """

    state: PlanState
    decided_by: str | None
    decided_at: str | None
    comment: str
    withdrawn_by: str | None
    withdrawn_at: str | None
    withdrawn_because: str


class Decision(Struct, frozen=True, kw_only=True):
    """A decision about a plan.

    Attributes:
        digest: Of the plan that was read.
        by: User name.
        at: As the tables store times.
        comment: The user's comment.
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
    """Add a plan as a draft; return False if its digest exists."""
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
    """Return a plan by its digest; None if there is none."""
    row = database.execute(f"SELECT {_COLUMNS} FROM plans WHERE digest = ?", (digest,)).fetchone()  # noqa: S608
    return None if row is None else _stored(row)


def window_of(database: sqlite3.Connection, plan: StoredPlan) -> PlanWindow:
    """Return when a plan can be carried out, in the time zone of its own start."""
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
        KeyError: There is no such plan.
    """
    row = database.execute("SELECT text FROM plans WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise KeyError(digest)
    return str(row[0])


def plans(database: sqlite3.Connection, *, title: str | None = None, most: int = 1000) -> Iterator[StoredPlan]:
    """Yield the plans, the newest first.

    Args:
        database: The tables.
        title: Only plans of this title; None for all.
        most: Maximum number.
    """
    for row in database.execute(
        f"SELECT {_COLUMNS} FROM plans WHERE ? IS NULL OR title = ? "  # noqa: S608 -- our columns
        "ORDER BY made_at DESC, rowid DESC LIMIT ?",
        (title, title, most),
    ):
        yield _stored(row)


def approve(database: sqlite3.Connection, decision: Decision) -> bool:
    """Approve a draft that is not the approver's own and not past its end; return whether it was approved.

    A single statement, so that of concurrent approvals one succeeds; a constraint also refuses the author.
    """
    cursor = database.execute(
        "UPDATE plans SET state = 'approved', decided_by = :by, decided_at = :at, comment = :comment "
        "WHERE digest = :digest AND state = 'draft' AND made_by <> :by AND (ends_at IS NULL OR ends_at > :at)",
        _values(decision),
    )
    return cursor.rowcount == 1


def deny(database: sqlite3.Connection, decision: Decision) -> bool:
    """Deny a draft that is not one's own; return whether it was denied."""
    cursor = database.execute(
        "UPDATE plans SET state = 'denied', decided_by = :by, decided_at = :at, comment = :comment "
        "WHERE digest = :digest AND state = 'draft' AND made_by <> :by",
        _values(decision),
    )
    return cursor.rowcount == 1


def withdraw(database: sqlite3.Connection, decision: Decision) -> bool:
    """Withdraw a draft or an approved plan; return whether it was withdrawn. The approver stays in its row."""
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


class WaveApproval(Struct, frozen=True, kw_only=True):
    """An approval of a wave of a run.

    Attributes:
        wave: Highest approved wave, from 0.
        digest: Of the plan that was read; empty for none.
        by: User name.
        at: As the tables store times.
        comment: The user's comment.
    """

    run_id: str
    wave: int
    digest: str
    by: str
    at: str
    comment: str = ""


def add_wave_approval(database: sqlite3.Connection, approval: WaveApproval) -> bool:
    """Store the approval of a wave; return whether it is the first."""
    cursor = database.execute(
        "INSERT INTO wave_approvals (run_id, wave, digest, by, at, comment) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (run_id, wave) DO NOTHING",
        (approval.run_id, approval.wave, approval.digest, approval.by, approval.at, approval.comment),
    )
    return cursor.rowcount == 1


def wave_approval(database: sqlite3.Connection, run_id: str, wave: int) -> WaveApproval | None:
    """Return the approval of a wave; None for none."""
    row = database.execute(
        "SELECT run_id, wave, digest, by, at, comment FROM wave_approvals WHERE run_id = ? AND wave = ?", (run_id, wave)
    ).fetchone()
    return None if row is None else WaveApproval(**dict(row))


def add_waiting_wave(database: sqlite3.Connection, run_id: str, wave: int, at: str) -> bool:
    """Record that a wave waits for approval; return whether that is new."""
    cursor = database.execute(
        "INSERT INTO waiting_waves (run_id, wave, at) VALUES (?, ?, ?) ON CONFLICT (run_id, wave) DO NOTHING",
        (run_id, wave, at),
    )
    return cursor.rowcount == 1

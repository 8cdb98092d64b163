"""Plans that wait for approval, for the wall screen, which asks every second."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashferry.store.service.database import names_in


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPlan:
    """A plan that waits for approval.

    Attributes:
        digest: Its digest.
        title: What it is called; may be empty.
        sites: The sites that it touches.
        devices: How many devices it stages.
        made_by: Who made it, and may not approve it.
        made_at: Since when it waits, as the tables have times.
        ends_at: After this it cannot be approved any more; None: no end.
        duration_s: How long it takes, by its own forecast.
    """

    digest: str
    title: str
    sites: tuple[str, ...]
    devices: int
    made_by: str
    made_at: str
    ends_at: str | None
    duration_s: float = 0.0


def waiting_plans(database: sqlite3.Connection, now: str) -> tuple[WaitingPlan, ...]:
    """Return the plans that wait for approval, the oldest first.

    Args:
        database: The service's tables.
        now: The time; a plan whose end is past does not wait.
    """
    query = (
        "SELECT digest, title, sites, devices, made_by, made_at, ends_at, duration_s FROM plans "
        "WHERE state = 'draft' AND (ends_at IS NULL OR ends_at > ?) ORDER BY made_at, digest"
    )
    return tuple(
        WaitingPlan(
            digest=row["digest"],
            title=row["title"],
            sites=names_in(row["sites"]),
            devices=row["devices"],
            made_by=row["made_by"],
            made_at=row["made_at"],
            ends_at=row["ends_at"],
            duration_s=row["duration_s"],
        )
        for row in database.execute(query, (now,))
    )


COPIES = "copies"

"""What was counted of the journal's transfers, in the table `counted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFigures:
    """What waits for a hook's receiver.

    Attributes:
        name: The hook.
        waiting: Notices that are to be sent.
        oldest_at: When the first of them was put out, as the tables have times; None where none waits.
        given_up: Notices whose receiver never took them, and that were not sent again.
    """

    name: str
    waiting: int
    oldest_at: str | None
    given_up: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """How much of what there is.

    Attributes:
        jobs: By kind and state, of those that have not ended.
        jobs_ended: By kind and how they ended: `done`, `failed`, `cancelled`, `dead`.
        oldest_queued_at: Since when the job waits that has waited longest; None where none does.
        plans: By state.
        images: By state.
        image_bytes: What has arrived of all of them.
        schedules: By state.
        occasions: By outcome.
        hooks: By hook.
        audit_entries: How many entries the audit has.
    """

    jobs: Mapping[tuple[str, str], int]
    jobs_ended: Mapping[tuple[str, str], int]
    oldest_queued_at: str | None
    plans: Mapping[str, int]
    images: Mapping[str, int]
    image_bytes: int
    schedules: Mapping[str, int]
    occasions: Mapping[str, int]
    hooks: tuple[HookFigures, ...]
    audit_entries: int


def table_figures(database: sqlite3.Connection) -> TableFigures:
    """Return how much of what there is."""
    jobs = "SELECT kind, state, count(*) FROM jobs WHERE state NOT IN ('ended', 'dead') GROUP BY kind, state"
    ended = (
        "SELECT kind, CASE WHEN state = 'dead' THEN 'dead' WHEN exit_code IS NULL THEN 'cancelled' "
        "WHEN exit_code = 0 THEN 'done' ELSE 'failed' END AS how, count(*) FROM jobs "
        "WHERE state IN ('ended', 'dead') GROUP BY kind, how"
    )
    return TableFigures(
        jobs={(row[0], row[1]): row[2] for row in database.execute(jobs)},
        jobs_ended={(row[0], row[1]): row[2] for row in database.execute(ended)},
        oldest_queued_at=_one(database, "SELECT min(created_at) FROM jobs WHERE state = 'queued'"),
        plans=_by_state(database, "SELECT state, count(*) FROM plans GROUP BY state"),
        images=_by_state(database, "SELECT state, count(*) FROM images GROUP BY state"),
        image_bytes=_one(database, "SELECT coalesce(sum(received_bytes), 0) FROM images"),
        schedules=_by_state(database, "SELECT state, count(*) FROM schedules GROUP BY state"),
        occasions=_by_state(database, "SELECT outcome, count(*) FROM occasions GROUP BY outcome"),
        hooks=_hooks(database),
        # Numbers have no gap, and none is taken away.
        audit_entries=_one(database, "SELECT coalesce(max(seq), 0) FROM audit"),
    )


def counted(database: sqlite3.Connection, what: str) -> str | None:
    """Return what was counted so far, as it was kept; None before the first time."""
    found: str | None = _one(database, "SELECT value FROM counted WHERE what = ?", what)
    return found


def keep_counted(database: sqlite3.Connection, what: str, value: str) -> None:
    """Keep what was counted so far."""
    database.execute(
        "INSERT INTO counted (what, value) VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET value = excluded.value",
        (what, value),
    )


def _hooks(database: sqlite3.Connection) -> tuple[HookFigures, ...]:
    query = (
        "SELECT hooks.name, count(outbox.next_at), "
        "min(CASE WHEN outbox.next_at IS NOT NULL THEN outbox.at END), "
        "count(CASE WHEN outbox.next_at IS NULL AND outbox.delivered_at IS NULL THEN outbox.notice_id END) "
        "FROM hooks LEFT JOIN outbox ON outbox.hook_id = hooks.hook_id AND outbox.delivered_at IS NULL "
        "GROUP BY hooks.hook_id ORDER BY hooks.name"
    )
    return tuple(
        HookFigures(name=row[0], waiting=row[1], oldest_at=row[2], given_up=row[3]) for row in database.execute(query)
    )


def _by_state(database: sqlite3.Connection, query: str) -> dict[str, int]:
    return {row[0]: row[1] for row in database.execute(query)}


def _one(database: sqlite3.Connection, query: str, *given: str) -> Any:
    row = database.execute(query, given).fetchone()
    return None if row is None else row[0]

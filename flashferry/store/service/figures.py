"""Figures for the wall screen and the metrics: waiting plans, and counts by table."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from flashferry.store.service.database import names_in


class WaitingPlan(Struct, frozen=True, kw_only=True):
    """A plan that waits for approval.

    Attributes:
        title: May be empty.
        sites: Sites of its devices.
        devices: Number of devices.
        made_by: Its author, who cannot approve it.
        made_at: As the tables store times.
        ends_at: After this it cannot be approved; None for no limit.
        duration_s: By its forecast.
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
    """Return the plans that wait for approval at a time, the oldest first."""
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
"""Key of the transfer counters in the table `counted`."""


class HookFigures(Struct, frozen=True, kw_only=True):
    """Notices of a hook.

    Attributes:
        name: The hook.
        waiting: Notices to be sent.
        oldest_at: When the oldest of them was queued; None for none.
        given_up: Notices that were not accepted and are not sent again.
    """

    name: str
    waiting: int
    oldest_at: str | None
    given_up: int


class TableFigures(Struct, frozen=True, kw_only=True):
    """Counts by table.

    Attributes:
        jobs: Open jobs by kind and state.
        jobs_ended: Ended jobs by kind and result: `done`, `failed`, `cancelled`, `dead`.
        oldest_queued_at: Since when the oldest queued job waits; None for none.
        plans: By state.
        images: By state.
        image_bytes: Received bytes of all images.
        schedules: By state.
        occasions: By outcome.
        hooks: By hook.
        audit_entries: Number of audit entries.
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
    """Count the rows of the tables."""
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
        # Numbers have no gaps, and entries are never deleted.
        audit_entries=_one(database, "SELECT coalesce(max(seq), 0) FROM audit"),
    )


def counted(database: sqlite3.Connection, what: str) -> str | None:
    """Return a stored counter; None for none."""
    found: str | None = _one(database, "SELECT value FROM counted WHERE what = ?", what)
    return found


def keep_counted(database: sqlite3.Connection, what: str, value: str) -> None:
    """Store a counter."""
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

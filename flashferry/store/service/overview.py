"""Plans that wait for approval, for the wall screen, which asks every second."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

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

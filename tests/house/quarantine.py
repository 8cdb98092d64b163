"""The tests that are quarantined: `make test` leaves them out, `make soak` plays them (docs/testing.md)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path

FILE = Path(__file__).parents[1] / "quarantine.toml"
MOST = 15
MOST_DAYS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A test that is known to fail for reasons of its own.

    Attributes:
        node_id: Its name as pytest has it.
        reason: What is wrong with it.
        since: The day on which it was put there.
    """

    node_id: str
    reason: str
    since: date


def quarantine(path: Path = FILE) -> tuple[Quarantined, ...]:
    """Return the quarantined tests.

    Raises:
        ValueError: An entry has other keys than `id`, `reason` and `since`, or no reason.
    """
    found = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("test", []):
        if set(entry) != {"id", "reason", "since"} or not entry["reason"] or not isinstance(entry["since"], date):
            raise ValueError(f"{path}: expected id, reason and since (a date) of each test, found {entry}")
        found.append(Quarantined(node_id=entry["id"], reason=entry["reason"], since=entry["since"]))
    return tuple(found)

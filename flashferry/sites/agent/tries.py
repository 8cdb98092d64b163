"""What follows the death of a run of an order: its devices are restored, then it is gone on with. Pure.

Each try is a job of its own, `ORDER`, `ORDER.1`, `ORDER.2` ..., whose folder is there before its process is: what was
tried is known from disk alone, whichever process was killed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

PAUSES_S = (0.0, 10.0, 60.0, 300.0)
"""So long before each recovery in a row: a device may be away for a while. Then people are needed."""


class TryKind(StrEnum):
    """What a try does, by its verb."""

    STAGE = "stage"
    RECOVER = "recover"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A try that is over.

    Attributes:
        kind: What it did.
        is_dead: Whether its process died before it said anything.
        is_interrupted: Whether the agent ended it, for the agent itself was to end.
    """

    kind: TryKind
    is_dead: bool = False
    is_interrupted: bool = False


def job_of_try(order_id: str, number: int) -> str:
    """Return the job of a try, counted from 0."""
    return f"{order_id}.{number}" if number else order_id


def next_kind(tries: Sequence[Try], *, has_run: bool, holds: bool, is_stopped: bool, resumes: int) -> TryKind | None:
    """Return what is to be tried next; None: the order is through, as far as it goes.

    Args:
        tries: What was tried, the first first.
        has_run: Whether any of them entered a run in the journal: before, no device was touched.
        holds: Whether devices are left in the run's hands.
        is_stopped: Whether it was to stop.
        resumes: How often at most a run that died is gone on with.
    """
    if not tries:
        return TryKind.STAGE
    if has_run and holds:
        return TryKind.RECOVER if recoveries_in_a_row(tries) < len(PAUSES_S) else None
    runs = [one for one in tries if one.kind is not TryKind.RECOVER]
    dead = sum(one.is_dead for one in runs)
    if not (runs[-1].is_dead or runs[-1].is_interrupted) or is_stopped or dead > resumes:
        return None
    return TryKind.RESUME if has_run else TryKind.STAGE


def recoveries_in_a_row(tries: Sequence[Try]) -> int:
    """Return how many recoveries stand at the end: each death has its own."""
    count = 0
    for one in reversed(tries):
        if one.kind is not TryKind.RECOVER:
            break
        count += 1
    return count

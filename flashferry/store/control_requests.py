"""Requests to steer a run, and its origin: who, when and why. Values that the journal stores."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from flashferry.store.tables import SteerRow


class SteerKind(StrEnum):
    """What can be requested of a live run."""

    PAUSE = "pause"
    CONTINUE = "continue"
    STOP = "stop"
    APPROVE = "approve"


class Asker(Struct, frozen=True, kw_only=True):
    """Who makes a request.

    Attributes:
        actor: User name; empty if unknown.
        via: `command-line`, `session`, `token`, `system`, ...; empty if unknown.
        reason: Their reason.
    """

    actor: str = ""
    via: str = ""
    reason: str = ""


class SteerRequest(Struct, frozen=True, kw_only=True):
    """A stored request to steer a run.

    Attributes:
        at: ISO 8601, UTC.
        what: A value of `SteerKind`.
        wave: With `approve`: the highest approved wave.
        actor: User name; empty if unknown.
        via: As in `Asker`.
        reason: Their reason.
    """

    at: str
    what: str
    wave: int | None
    actor: str
    via: str
    reason: str

    @classmethod
    def of(cls, row: SteerRow) -> SteerRequest:
        """Make it from a row."""
        return cls(at=row.at, what=row.what, wave=row.wave, actor=row.actor, via=row.via, reason=row.reason)


class Origin(Struct, frozen=True, kw_only=True):
    """Where a run comes from.

    Attributes:
        job: The service's job; None if it was started by hand.
        events: File of its events; None for none.
        actor: Who started it; None if unknown.
    """

    job: str | None = None
    events: str | None = None
    actor: str | None = None

"""Requests to steer a run, and its origin: who, when and why. Values that the journal stores."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from msgspec import Struct


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


class SteerRequest(Struct, frozen=True):
    """A stored request to steer a run.

    Attributes:
        at: ISO 8601, UTC.
        what: A value of `SteerKind`.
        wave: With `approve`: the highest approved wave; else None.
        actor: User name; empty if unknown.
        via: As in `Asker`.
        reason: Their reason.
    """

    TABLE: ClassVar = "steer_requests"
    at: str
    what: str
    wave: int | None
    actor: str
    via: str
    reason: str


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

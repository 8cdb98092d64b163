"""Who began a run, and who wanted what of it while it ran, when, and why. Values only; the journal keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flashferry.store.tables import SteerRow


class SteerKind(StrEnum):
    """What may be wanted of a run that is under way."""

    PAUSE = "pause"
    CONTINUE = "continue"
    STOP = "stop"
    APPROVE = "approve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who wants something of a run.

    Attributes:
        actor: Their name; empty where unknown.
        via: How they came: `command-line`, `session`, `token`, `system`, ...; empty where unknown.
        reason: Why, in his words.
    """

    actor: str = ""
    via: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteerRequest:
    """A request to steer a run, as it is recorded.

    Attributes:
        at: When, ISO 8601, UTC.
        what: What, by the words of `SteerKind`.
        wave: With `approve`: up to which wave.
        actor: Who.
        via: How he came.
        reason: Why, in his words.
    """

    at: str
    what: str
    wave: int | None
    actor: str
    via: str
    reason: str

    @classmethod
    def of(cls, row: SteerRow) -> SteerRequest:
        """Return what stands in a row."""
        return cls(at=row.at, what=row.what, wave=row.wave, actor=row.actor, via=row.via, reason=row.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """From where a run comes.

    Attributes:
        job: The job of a service that it is; None where a person began it by himself.
        events: The file of its events; None for none.
        actor: Who started it; None where unknown.
    """

    job: str | None = None
    events: str | None = None
    actor: str | None = None

"""What an operator at another terminal wants of a run that is under way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunControl:
    """The wishes that a run looks at about once a second.

    Attributes:
        paused: No device may begin; those under way go on to their end.
        stopping: As Ctrl-C: end what is under way, restore, report.
        approved_wave: Highest number of a wave that may begin where waves are approved; -1 where none was.
        waiting_wave: Number of the wave that waits for approval, as the run itself says; None where none does.
    """

    paused: bool = False
    stopping: bool = False
    approved_wave: int = -1
    waiting_wave: int | None = None

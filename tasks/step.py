"""What the rest of the product has to know of a step, stated once in the step's own file.

The run takes from it a step's name, state and record field; the forecast its cost; progress, metrics and reports its
label and what its end means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nornir.core.task import Result, Task

    from flashferry.images.image import Image

ACTIVATE_WORD, CHECK_WORD, COPY_WORD = "activate", "check", "pull"
"""Words of steps that are known beyond them."""

FATAL_STEPS = frozenset({"connect", "check", "snapshot"})
"""The words of all steps with `Step.is_fatal`, written out: who follows a run or reports of it, as the service does,
starts without the steps and what they bring to talk to devices."""


class CostPhase(Enum):
    """Which phase of a device's run a step's cost belongs to; its copy and its hash have rates of their own."""

    CHECK = auto()
    SET_UP = auto()
    RESTORE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What a step between journal and restore may know.

    Attributes:
        target: Where the image goes, for example `bootflash:image.bin`, or `null:`.
        interrupted: Whether the operator wants to stop.
    """

    image: Image
    target: str
    interrupted: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a device's run.

    Attributes:
        word: Its name: in events, in errors and in a record's `seconds_by_step`; contract, never changed.
        label: What happens in it, a clause for the table of the documentation.
        doing: What metrics call it; None: not counted by itself.
        state: The device's state after it, by the words of `flashferry.model.states.State`; None: as before.
        record_field: The field of `DeviceRecord` that keeps what it returns; None: nothing is kept.
        seconds: What it takes by itself, for the forecast; >= 0.
        round_trips: Round trips on top of that; >= 0.
        stretch: What its cost is part of; None: it costs nothing, or has a rate of its own.
        is_delivery: Whether it stands between journal and restore of a device that is staged, in the list's order.
        is_fatal: Whether a device that fails in it never comes to a later step, not even to a restore.
        runs_when_stopping: Whether it is also done where the operator stops the run.
        task: The Nornir task of a delivery's step that needs no more than `Delivered`; else None.
    """

    word: str
    label: str
    doing: str | None = None
    state: str | None = None
    record_field: str | None = None
    seconds: float = 0.0
    round_trips: float = 0.0
    stretch: CostPhase | None = None
    is_delivery: bool = False
    is_fatal: bool = False
    runs_when_stopping: bool = False
    task: Callable[[Task, Delivered], Result] | None = None

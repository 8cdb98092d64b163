"""What the house has to know of a step, said once, in the step's own file.

The run takes from it how a step is told, kept and moved on behind; the forecast what it costs; progress, metrics and
reports what to call it and what its end means.
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

ENDS_WAY = frozenset({"connect", "check", "snapshot"})
"""The words of all steps with `Step.is_fatal`, written out: who follows a run or reports of it, as the service does,
starts without the steps and what they bring to talk to devices."""


class CostPhase(Enum):
    """Which part of a device's way a step's cost belongs to; its copy and its hash are reckoned by their own rates."""

    CHECK = auto()
    SET_UP = auto()
    RESTORE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What a step between journal and restore may know.

    Attributes:
        image: The image that the device gets.
        target: Where it goes, for example `bootflash:image.bin`, or `null:`.
        interrupted: Whether the operator wants to stop.
    """

    image: Image
    target: str
    interrupted: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a device's way.

    Attributes:
        word: Its name: in events, in errors and in a record's `seconds_by_step`; contract, never changed.
        label: What happens in it, a clause for people; the table of the documentation has it.
        doing: What a device does meanwhile, as metrics have it; None: nothing that is counted by itself.
        state: Where the device stands after it, by the words of `flashferry.model.states.State`; None: as before.
        record_field: The field of `DeviceRecord` that keeps what it returns; None: nothing is kept.
        seconds: What it takes by itself, for the forecast; >= 0.
        round_trips: Round trips on top of that; >= 0.
        stretch: What its cost is part of; None: it costs nothing, or is reckoned by a rate of its own.
        is_delivery: Whether it stands between journal and restore of a device that is staged, in the list's order.
        is_fatal: Whether a device that fails in it never comes to a later step, not even to a restore.
        runs_when_stopping: Whether it is also done where the operator stops the run.
        task: The Nornir task, of a step of a delivery that needs to know no more than `Delivered` has; else None.
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

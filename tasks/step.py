"""The description of a step, stated once in the step's own file.

The run reads a step's name, state and record field from it; the forecast its cost; progress, metrics and reports its
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
"""The words of all steps with `Step.is_fatal`, written out: readers of a run's events, such as the service, start
without importing the steps and their device code."""

MEASURABLE_S = 1.0
"""A shorter hash, copy or add is mostly round trips and does not show the device's speed."""


class CostPhase(Enum):
    """The phase of a device's run that a step's cost belongs to; copy and hash have rates of their own."""

    CHECK = auto()
    SET_UP = auto()
    RESTORE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The values that a step between journal and restore gets.

    Attributes:
        target: Destination of the image, for example `bootflash:image.bin` or `null:`.
        interrupted: Whether the operator stops.
    """

    image: Image
    target: str
    interrupted: Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a device's run.

    Attributes:
        word: Its name in events, in errors and in a record's `seconds_by_step`; part of the contract, never changed.
        label: What happens in it, a clause for the documentation's table.
        doing: Its name in metrics; None: not counted by itself.
        state: The device's state after it, a value of `flashferry.model.states.State`; None: unchanged.
        record_field: The field of `DeviceRecord` that stores its result; None: not stored.
        seconds: Its own duration, for the forecast; >= 0.
        round_trips: Round trips on top of that; >= 0.
        stretch: The phase that its cost belongs to; None: no cost, or a rate of its own.
        is_delivery: Whether it is between journal and restore of a staged device, in the list's order.
        is_fatal: Whether a device that fails in it reaches no later step, not even a restore.
        runs_when_stopping: Whether it runs even if the operator stops the run.
        task: The Nornir task of a delivery step that needs no more than `Delivered`, else None.
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

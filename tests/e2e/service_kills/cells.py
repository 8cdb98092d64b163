"""Who is killed when, around one run of the service: the cells of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.service_kills.ground import Ground

SERVICE, RUN = "service", "run"
IN_COPY = {"hold_copy_at_bytes": 100_000}
IN_RESTORE = {"hold_command_pattern": "^no ip tcp"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A moment, and who is killed in it.

    Attributes:
        name: What it is called.
        moment: When, in words.
        is_now: Whether it is that moment.
        killed: Who: the service, the run, or both.
        held: Faults that hold the routers there until the kill has come; without any the moment is a short one.
        is_asleep: Whether the service sleeps (SIGSTOP) from before the job is asked for, so that it surely dies first.
        is_in_journal: Whether the journal has the run by then: a run that is killed before is started again.
    """

    name: str
    moment: str
    is_now: Callable[[Ground], bool]
    killed: tuple[str, ...] = (SERVICE,)
    held: Mapping[str, Any] = field(default_factory=dict)
    is_asleep: bool = False
    is_in_journal: bool = True


CELLS = (
    Cell(
        name="before-start",
        moment="the job is entered, nothing has taken it",
        is_now=lambda ground: ground.job().state == "queued",
        is_asleep=True,
    ),
    Cell(
        name="claimed",
        moment="the job was claimed, its process has not taken it",
        is_now=lambda ground: ground.job().state == "starting" and not ground.has_begun(),
    ),
    Cell(
        name="between-start-and-row",
        moment="its process has taken the job, the service's row does not know it",
        is_now=lambda ground: ground.has_begun() and ground.job().state == "starting",
    ),
    Cell(
        name="run-before-journal",
        moment="its process has taken the job, the journal has no run of it",
        is_now=lambda ground: ground.has_begun() and ground.job().state == "starting",
        killed=(RUN,),
        is_in_journal=False,
    ),
    Cell(
        name="in-copy",
        moment="a router fetches the image",
        is_now=lambda ground: ground.is_held(),
        held=IN_COPY,
    ),
    Cell(
        name="in-restore",
        moment="a router's configuration is being restored",
        is_now=lambda ground: ground.is_held(),
        held=IN_RESTORE,
    ),
    Cell(
        name="run-in-copy",
        moment="a router fetches the image",
        is_now=lambda ground: ground.is_held(),
        held=IN_COPY,
        killed=(RUN,),
    ),
    Cell(
        name="run-in-restore",
        moment="a router's configuration is being restored",
        is_now=lambda ground: ground.is_held(),
        held=IN_RESTORE,
        killed=(RUN,),
    ),
    Cell(
        name="both-in-copy",
        moment="a router fetches the image",
        is_now=lambda ground: ground.is_held(),
        held=IN_COPY,
        killed=(SERVICE, RUN),
    ),
)

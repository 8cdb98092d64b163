"""All steps of a device's run, in order.

A new step describes itself in a file of its own and is listed here. If it needs no more than `tasks.step.Delivered`, it
has a `task`, and the run calls it in its place of the list, between journal and restore; its result is stored if
`DeviceRecord` has a field for it. Everything else is in the device's run (`flashferry.run.device`).
"""

from __future__ import annotations

from tasks.add import ADD
from tasks.check import CHECK
from tasks.clean import CLEAN
from tasks.connectivity import REACH
from tasks.copy import COPY
from tasks.dead_man import DEAD_MAN
from tasks.distribute import DISTRIBUTE
from tasks.neighbours import SERVE
from tasks.partial_file import REMOVE
from tasks.readiness.check import READY
from tasks.restore import RESTORE
from tasks.snapshot import SNAPSHOT
from tasks.step import CostPhase, Step
from tasks.tune import TUNE
from tasks.verify import VERIFY

CONNECT = Step(word="connect", label="we log in", doing="checking", is_fatal=True)
"""Logging in. It has no file here: `flashferry.devices` logs in for whichever step needs the session."""

COPY_RECOVERY = Step(
    word="reconcile", label="we find out what became of a copy whose session was lost", doing="reconciling"
)
"""Finding out what became of a copy whose session was lost. It needs the server's account, so the run does it."""

STEPS = (
    CONNECT,
    CHECK,
    SNAPSHOT,
    DEAD_MAN,
    TUNE,
    COPY,
    COPY_RECOVERY,
    REMOVE,
    VERIFY,
    SERVE,
    RESTORE,
    DISTRIBUTE,
    ADD,
    READY,
    REACH,
    CLEAN,
)

DELIVERY = tuple(step for step in STEPS if step.is_delivery)
"""The steps between journal and restore of a staged device, in order."""


def cost(stretch: CostPhase) -> tuple[float, float]:
    """Return the cost of the steps of a phase: seconds of their own, and round trips on top."""
    steps = [step for step in STEPS if step.stretch is stretch]
    return sum(step.seconds for step in steps), sum(step.round_trips for step in steps)

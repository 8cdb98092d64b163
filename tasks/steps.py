"""All steps of a device's run, in their order.

A new step describes itself in a file of its own and is put in here. Where it needs no more than `tasks.step.Delivered`,
it has a `task`, and the run does it in its place of the list, between journal and restore; what it returns is kept
where `DeviceRecord` has a field for it. Everything else is done by the device's run (`flashferry.run.device`).
"""

from __future__ import annotations

from tasks.add import ADD
from tasks.check import CHECK
from tasks.clean import CLEAN
from tasks.connectivity import REACH
from tasks.copy import COPY
from tasks.dead_man import DEAD_MAN
from tasks.distribute import DISTRIBUTE
from tasks.neighbours.serve import SERVE
from tasks.partial_file import REMOVE
from tasks.readiness.check import READY
from tasks.restore import RESTORE
from tasks.snapshot import SNAPSHOT
from tasks.step import CostPhase, Step
from tasks.tune import TUNE
from tasks.verify import VERIFY

CONNECT = Step(word="connect", label="we log in", doing="checking", is_fatal=True)
"""Logging in. It has no file here: `flashferry.devices` does it, for whichever step needs the session."""

COPY_RECOVERY = Step(
    word="reconcile", label="we find out what became of a copy whose session was lost", doing="reconciling"
)
"""Finding out what became of a copy whose session was lost. It takes the server's account too, so the run does it."""

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
"""What stands between journal and restore of a device that is staged, in this order."""


def cost(stretch: CostPhase) -> tuple[float, float]:
    """Return what the steps of a phase take: seconds of their own, and round trips on top."""
    steps = [step for step in STEPS if step.stretch is stretch]
    return sum(step.seconds for step in steps), sum(step.round_trips for step in steps)

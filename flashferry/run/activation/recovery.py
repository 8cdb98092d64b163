"""Complete an activation that a killed run left, from the journal and the device's state. Nothing is restarted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct
from nornir.core.task import Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceUnreachable
from flashferry.devices.session import DeviceSession
from flashferry.model.activation import Activation, ActivationReport, Phase
from flashferry.model.lease import LeasedDevice
from flashferry.run.activation.following import Following, Notify
from flashferry.run.device_recorder import drop_session
from flashferry.store.journal import Journal
from tasks.add import TOTAL_LIMIT_S

RETRY_EVERY_S = 5.0

GOING_S = {Phase.ACTIVATING: TOTAL_LIMIT_S, Phase.RELOADING: 120.0}
"""Seconds after its command during which a device may still be about to restart: an activation works for minutes before
it does, a stack's for longer, even if the run was killed."""

_RESTARTS = frozenset({Phase.ACTIVATING, Phase.RELOADING, Phase.COMMITTING, Phase.ROLLING_BACK})
"""Phases in which the device may be restarting, by our command or by its own timer."""


class Ending(Struct, frozen=True, kw_only=True):
    """Settings for the completion of an activation.

    Attributes:
        journal: Each further phase is written to it before its command.
        patience_s: Longest wait for a device, in seconds.
    """

    journal: Journal
    notify: Notify
    interrupted: Callable[[], bool]
    patience_s: float


def session_with(
    task: Task, device: LeasedDevice, ending: Ending, check: Callable[[DeviceSession], None]
) -> DeviceSession:
    """Return a session; wait, within the patience, for a device that may be restarting.

    `check` raises if another device answers. It sends commands, so the session may be lost during it.
    """
    going_s = _restarting_s(device.activation)
    until = time.monotonic() + min(going_s, ending.patience_s)
    while True:
        try:
            return _checked(task, check)
        except DeviceUnreachable:
            if time.monotonic() > until or ending.interrupted():
                raise
        ending.notify("waiting", "it does not answer, and may be restarting")
        time.sleep(min(RETRY_EVERY_S, going_s))


def _checked(task: Task, check: Callable[[DeviceSession], None]) -> DeviceSession:
    try:
        session = session_of(task)
        check(session)
    except DeviceUnreachable:
        drop_session(task)
        raise
    return session


def _restarting_s(activation: Activation | None) -> float:
    """Return for how many more seconds the device may be restarting; negative if it was not restarted."""
    if activation is None or activation.phase not in _RESTARTS:
        return -1.0
    limits = activation.limits
    longest_s = limits.boot_limit_s + GOING_S.get(activation.phase, limits.timer_min * 60.0)
    return longest_s - _age_s(activation)


def _age_s(activation: Activation) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(activation.since)).total_seconds()


def end_activation(
    task: Task, device: LeasedDevice, activation: Activation, ending: Ending
) -> tuple[ActivationReport, bool]:
    """Complete an activation; return its result, and whether the configuration is as before or as intended.

    Raises:
        FlashferryError: It could not be completed; the journal keeps the device.
    """
    following = _following(task, device, activation, ending)
    going_s = GOING_S.get(activation.phase, 0.0)
    reading = following.await_return(limit_s=ending.patience_s, is_going=lambda: _age_s(activation) < going_s)
    report = following.finish(reading)
    return report, report.outcome.runs_new or following.is_as_before()


def _following(task: Task, device: LeasedDevice, activation: Activation, ending: Ending) -> Following:
    return Following(
        task,
        activation,
        device.snapshot,
        keep=lambda one: ending.journal.activating(device.run_id, device.host, one),
        notify=ending.notify,
        interrupted=ending.interrupted,
        patience_s=ending.patience_s,
    )

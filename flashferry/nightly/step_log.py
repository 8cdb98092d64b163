"""Run the steps of a night and record time, outcome and fault of each.

An error of a step becomes its result; only a stop by the operator propagates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import masked
from flashferry.nightly.backend import Deadline, NightStopped, StoppableClock
from flashferry.nightly.night import Fault, NightFault, NightStep, StepName, StepOutcome

_LOG = logging.getLogger("flashferry.nightly")


class Watcher(Protocol):
    """Receive the steps while a night runs. Methods must not raise."""

    def began(self, name: StepName) -> None:
        """Receive the start of a step."""

    def ended(self, step: NightStep) -> None:
        """Receive a finished step."""


class SilentWatcher(Watcher):
    """Ignore every step."""


class StepLog:
    """Run steps and keep their results."""

    def __init__(self, clock: StoppableClock, watcher: Watcher) -> None:
        self._clock = clock
        self._watcher = watcher
        self._steps: list[NightStep] = []

    @property
    def steps(self) -> tuple[NightStep, ...]:
        """The steps so far."""
        return tuple(self._steps)

    def do(
        self, name: StepName, action: Callable[[Deadline], str], *, deadline: Deadline, fault: Fault = Fault.LAB
    ) -> NightStep:
        """Run a step and return its result.

        Args:
            name: The step.
            action: Runs it by a deadline, and returns a sentence on the result.
            deadline: When it must have ended.
            fault: The responsible party of an error that is no `NightFault`.

        Raises:
            NightStopped: The operator stopped the night.
            ConfigInvalid: The preflight check finds the description wrong.
        """
        began, began_s = self._clock.now(), self._clock.monotonic_s()

        def ended(outcome: StepOutcome, sentence: str, error: NightFault | None = None) -> NightStep:
            step = NightStep(
                name=name,
                started_at=began,
                duration_s=self._clock.monotonic_s() - began_s,
                outcome=outcome,
                fault=error.fault if error else None,
                sentence=masked(sentence),
                hint=masked(error.hint or "") if error else "",
                is_unrestored=error is not None and error.is_unrestored,
            )
            self._steps.append(step)
            self._watcher.ended(step)
            return step

        self._watcher.began(name)
        try:
            self._clock.check()
            if deadline.is_over:
                raise NightFault(
                    "the night's time is over",
                    fault=Fault.LAB,
                    step=name,
                    hint="Give it more, or fewer copies: 'limits' and 'copies' of the description",
                )
            sentence = action(deadline)
        except NightStopped:
            ended(StepOutcome.SKIPPED, "ended by the operator")
            raise
        except Exception as error:
            if name is StepName.PREFLIGHT and isinstance(error, ConfigInvalid):
                # What the operator wrote is wrong, and nothing was made of it yet: that is no night.
                raise
            found = as_night_fault(error, step=name, fault=fault)
            sentence = f"{found.host}: {found.message}" if found.host else found.message
            return ended(StepOutcome.FAILED, sentence, found)
        return ended(StepOutcome.PASSED, sentence)

    def skip(self, names: Iterable[StepName], why: str) -> None:
        """Record steps as skipped."""
        for name in names:
            step = NightStep(
                name=name, started_at=self._clock.now(), duration_s=0.0, outcome=StepOutcome.SKIPPED, sentence=why
            )
            self._steps.append(step)
            self._watcher.ended(step)


def as_night_fault(error: Exception, *, step: StepName, fault: Fault) -> NightFault:
    """Convert any error of a step to a `NightFault`."""
    if isinstance(error, NightFault):
        return error
    if isinstance(error, FlashferryError):
        hint = error.hint or "Look at the night's folder"
        return NightFault(error.message, fault=fault, step=step, hint=hint, host=error.host)
    _LOG.debug("step %s", step, exc_info=error)
    return NightFault(
        f"{type(error).__name__}: {error}",
        fault=fault,
        step=step,
        hint="This was unexpected: report it with the night's folder",
    )

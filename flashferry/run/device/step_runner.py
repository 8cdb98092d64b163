"""Running a device's steps: each is timed and told, and what it raises knows its device and its step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nornir.core.exceptions import NornirSubTaskError
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import Interrupted
from flashferry.model.record import sentence_of
from flashferry.run.context import RunContext
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from tasks.step import Step


class StepRunner:
    """Runs the steps of one device, each as a Nornir subtask."""

    def __init__(self, task: Task, context: RunContext, events: DeviceEvents, keeper: RecordKeeper) -> None:
        self._task, self._context = task, context
        self._events, self._keeper = events, keeper

    def run(self, step: Step, task: Callable[..., Result], **arguments: Any) -> Any:
        """Run one step and return its typed result; what is kept of it is the caller's to say.

        Raises:
            Interrupted: The run is to stop; whatever happens, restoring goes on.
        """
        word = step.word
        if not step.runs_when_stopping:
            self.check_stop(step)
        self._events.tell(word, "started", "")
        started = time.monotonic()
        try:
            result = self._task.run(task=task, name=word, **arguments)[0].result
        except NornirSubTaskError as wrapped:
            cause = wrapped.result[0].exception
            if isinstance(cause, FlashferryError):
                cause.at(host=self._task.host.name, step=word)
            self._events.tell(word, "failed", sentence_of(cause))
            raise cause from None
        finally:
            self._keeper.spent(word, time.monotonic() - started)
        self._events.tell(word, "done", f"{time.monotonic() - started:.1f} s")
        return result

    @contextmanager
    def telling(self, step: Step) -> Iterator[None]:
        """Tell a step that is no Nornir task, and take its time."""
        word = step.word
        self._events.tell(word, "started", "")
        started = time.monotonic()
        try:
            yield
        except Exception as error:
            self._events.tell(word, "failed", sentence_of(error))
            raise
        finally:
            self._keeper.spent(word, time.monotonic() - started)
        self._events.tell(word, "done", f"{time.monotonic() - started:.1f} s")

    def check_stop(self, step: Step) -> None:
        """Stop before a step where the run is to stop.

        Raises:
            Interrupted: It is.
        """
        if self._context.interrupted():
            raise Interrupted("stopped by the operator before this step", host=self._task.host.name, step=step.word)

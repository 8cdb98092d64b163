"""Running a device's steps: each is timed, told, and leaves its trace in the record; the first failure stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nornir.core.exceptions import NornirSubTaskError
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, remark
from flashferry.devices.errors import Interrupted, Stopped
from flashferry.devices.identity import guard_logins
from flashferry.fileserver import Ticket
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, failure_of, sentence_of
from flashferry.model.states import Outcome, State
from flashferry.monitor.events import Event
from flashferry.run.context import RunContext
from inventory.view import HostView, view


class StepRunner:
    """One device in a run. Its record grows step by step and is the only result."""

    def __init__(self, task: Task, context: RunContext) -> None:
        self._task = task
        self._context = context
        self._host: HostView = view(task.host)
        self._record = DeviceRecord(
            host=task.host.name,
            image=context.image.name,
            attempt=context.attempt,
            earlier=context.earlier,
            seconds_by_step={},
        )
        self._ticket: Ticket | None = None
        guard_logins(task, context.guard)

    @property
    def task(self) -> Task:
        """Return the Nornir task that this run is."""
        return self._task

    @property
    def context(self) -> RunContext:
        """Return what it shares with the other devices."""
        return self._context

    def _do(self, step: str, task: Callable[..., Result], **arguments: Any) -> Any:
        """Run one step as a Nornir subtask and return its typed result."""
        if step != "restore" and self._context.interrupted():
            raise Interrupted("stopped by the operator before this step", host=self._record.host, step=step)
        self._tell(step, "started", "")
        started = time.monotonic()
        try:
            result = self._task.run(task=task, name=step, **arguments)[0].result
        except NornirSubTaskError as wrapped:
            cause = wrapped.result[0].exception
            if isinstance(cause, FlashferryError):
                cause.at(host=self._record.host, step=step)
            self._tell(step, "failed", sentence_of(cause))
            raise cause from None
        finally:
            self._spent(step, time.monotonic() - started)
        self._tell(step, "done", f"{time.monotonic() - started:.1f} s")
        return result

    def _update(self, **values: Any) -> None:
        self._record = replace(self._record, **values)

    def _spent(self, step: str, seconds: float) -> None:
        spent = self._record.seconds_by_step.get(step, 0.0) + seconds
        self._update(seconds_by_step=self._record.seconds_by_step | {step: round(spent, 3)})

    def _move(self, state: State) -> None:
        self._context.journal.move(self._context.run_id, self._record.host, state)
        self._update(state=state)

    def _tell(self, step: str, status: str, text: str, **more: Any) -> None:
        """Tell what happened; `more` are further fields of the event."""
        if status != "progress":
            remark(self._task, f"{step}: {status}{': ' if text else ''}{text}")
        at_s = time.monotonic() - self._context.started_s
        site = self._host.site or None
        self._context.emit(
            Event(
                host=self._record.host,
                step=step,
                status=status,
                text=text,
                at_s=at_s,
                site=site,
                wave=self._context.wave,
                **more,
            )
        )

    def _fail(self, error: BaseException) -> None:
        """Take the first failure into the record.

        What the end of the run, or of the device's time, did is told as that; whatever else happened to fail meanwhile
        (a wrong hash, a refusal) stays what it is.
        """
        if self._record.failure is not None:
            return
        failure = failure_of("stage", error, recent_of(self._task).lines())
        if isinstance(error, Stopped):
            self._update(outcome=Outcome.INTERRUPTED, failure=self._closed(failure))
        else:
            known = isinstance(error, FlashferryError)
            self._update(outcome=Outcome.FAILED if known else Outcome.ERROR, failure=failure)
        if self._record.state in {State.PLANNED, State.CHECKED}:
            # Untouched as it is: a journal that cannot be written must not have it told as one that is not restored.
            with suppress(JournalUnusable):
                self._move(State.FAILED)

    def _closed(self, failure: Failure) -> Failure:
        """Return a failure as what it is where the device's time was over: nobody but the clock ended it."""
        reason = self._context.closing()
        if reason is None:
            return failure
        hint = f"Go on with 'flashferry stage --resume {self._context.run_id}' when its window is open again"
        return Failure(step=failure.step, reason=reason, hint=hint, kind=Kind.WINDOW_CLOSED)

    def _move_to_failed(self) -> None:
        if self._record.state is not State.FAILED:
            self._move(State.FAILED)

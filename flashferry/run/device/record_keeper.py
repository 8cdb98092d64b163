"""What is kept and told of one device in a run: its record, its place in the journal, and its events."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nornir.core.task import Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, remark
from flashferry.devices.errors import Stopped
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, compare_clocks, failure_of
from flashferry.model.states import Outcome, State
from flashferry.monitor.events import Event
from flashferry.reports.facts import fact_of, sentence_of
from flashferry.run.context import RunContext
from tasks.check import CheckReport
from tasks.step import Step


class DeviceEvents:
    """Tells whoever watches, and the session's transcript, what happens to one device."""

    def __init__(self, task: Task, context: RunContext, site: str | None) -> None:
        self._task, self._context, self._site = task, context, site or None

    def note_fact(self, step: str, name: str, value: object) -> None:
        """Report a fact as every form of the report will have it; `name` is its field in the record."""
        self.tell(step, "note", sentence_of(fact_of(name, value)))

    def tell(self, step: str, status: str, text: str, **more: Any) -> None:
        """Tell what happened.

        Args:
            step: The event word of a step.
            status: `started`, `done`, `failed`, `queued`, `progress` or `note`.
            text: What happened, in words.
            more: Further fields of the event.
        """
        if status != "progress":
            remark(self._task, f"{step}: {status}{': ' if text else ''}{text}")
        at_s = time.monotonic() - self._context.started_s
        self._context.emit(
            Event(
                host=self._task.host.name,
                step=step,
                status=status,
                text=text,
                at_s=at_s,
                site=self._site,
                wave=self._context.wave,
                **more,
            )
        )

    def queued(self, step: str) -> Callable[[str], None]:
        """Return what tells that the device waits before a step."""
        return lambda text: self.tell(step, "queued", text)


class RecordKeeper:
    """Grows a device's record step by step, and moves it on in the journal; the first failure stays."""

    def __init__(self, task: Task, context: RunContext) -> None:
        self._task, self._context = task, context
        self._record = DeviceRecord(
            host=task.host.name,
            image=context.image.name,
            transport=context.transports[0].name,
            attempt=context.attempt,
            earlier=context.earlier,
            seconds_by_step={},
        )

    @property
    def record(self) -> DeviceRecord:
        """Return the record as it is by now."""
        return self._record

    @property
    def checked(self) -> CheckReport:
        """Return what the device is and has; it was checked."""
        assert self._record.check is not None
        return self._record.check

    def update(self, **values: Any) -> None:
        """Put values into fields of the record."""
        self._record = replace(self._record, **values)

    def keep(self, step: Step, report: object) -> None:
        """Keep what a step returned in its field of the record, where it has one."""
        if step.record_field is not None:
            self.update(**{step.record_field: report})

    def passed(self, step: Step) -> None:
        """Have the device where it stands behind a step; see `move`."""
        if step.state is not None:
            self.move(State(step.state))

    def note(self, text: str) -> None:
        """Add what a reader should know besides."""
        self.update(notes=(*self._record.notes, text))

    def spent(self, step: str, seconds: float) -> None:
        """Add to the time that a step took."""
        spent = self._record.seconds_by_step.get(step, 0.0) + seconds
        self.update(seconds_by_step=self._record.seconds_by_step | {step: round(spent, 3)})

    def move(self, state: State) -> None:
        """Have the device in a state, in the journal first.

        Raises:
            JournalUnusable: It could not be written; the record is as it was.
        """
        self._context.journal.move(self._context.run_id, self._record.host, state)
        self.update(state=state)

    def move_to_failed(self) -> None:
        """Have the device failed, once."""
        if self._record.state is not State.FAILED:
            self.move(State.FAILED)

    def compare_clocks(self) -> None:
        """Hold the copy's duration by three clocks against each other, as far as they are known."""
        done, seen = self._record.pull, self._record.transfer
        clocks = compare_clocks(
            device_s=done.device.duration_s if done else None,
            server_s=seen.duration_s if seen else None,
            wall_s=done.wall_s if done else None,
        )
        self.update(clocks=clocks)

    def take_failure(self, error: BaseException) -> None:
        """Take the first failure into the record.

        What the end of the run, or of the device's time, did is told as that; whatever else happened to fail meanwhile
        (a wrong hash, a refusal) stays what it is.
        """
        if self._record.failure is not None:
            return
        failure = failure_of("stage", error, recent_of(self._task).lines())
        if isinstance(error, Stopped):
            self.update(outcome=Outcome.INTERRUPTED, failure=self._closed(failure))
        else:
            known = isinstance(error, FlashferryError)
            self.update(outcome=Outcome.FAILED if known else Outcome.ERROR, failure=failure)
        if self._record.state in {State.PLANNED, State.CHECKED}:
            # Untouched as it is: a journal that cannot be written must not have it told as one that is not restored.
            with suppress(JournalUnusable):
                self.move(State.FAILED)

    def _closed(self, failure: Failure) -> Failure:
        """Return a failure as what it is where the device's time was over: nobody but the clock ended it."""
        reason = self._context.closing()
        if reason is None:
            return failure
        hint = f"Go on with 'flashferry stage --resume {self._context.run_id}' when its window is open again"
        return Failure(step=failure.step, reason=reason, hint=hint, kind=Kind.WINDOW_CLOSED)

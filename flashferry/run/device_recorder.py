"""The record and the events of one device, in a run or in an activation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace
from nornir.core.task import Task

from flashferry.devices.connection import NAME as CONNECTION
from flashferry.devices.connection import remark
from flashferry.model.record import DeviceRecord, sentence_of
from flashferry.monitor.events import Emit, Event


class DeviceRecorder:
    """Fills a device's record, which `update` changes, and emits its events. `started_s` is by the monotonic clock."""

    def __init__(
        self, task: Task, record: DeviceRecord, *, emit: Emit, started_s: float, site: str | None, wave: int | None
    ) -> None:
        self.task, self.record = task, record
        self._emit, self._started_s, self._site, self._wave = emit, started_s, site, wave

    def update(self, **values: Any) -> None:
        """Set fields of the record."""
        self.record = replace(self.record, **values)

    def event(self, step: str, status: str, text: str, **more: Any) -> None:
        """Emit an event, and write it to the session's transcript unless it is progress.

        `status` is `started`, `done`, `failed`, `queued`, `progress`, `waiting` or `note`; `more` are further fields.
        """
        if status != "progress":
            remark(self.task, f"{step}: {status}{': ' if text else ''}{text}")
        self._emit(
            Event(
                host=self.record.host,
                step=step,
                status=status,
                text=text,
                at_s=time.monotonic() - self._started_s,
                site=self._site,
                wave=self._wave,
                **more,
            )
        )

    @contextmanager
    def timed(self, word: str) -> Iterator[None]:
        """Emit the start and the end of a step, and add its duration to the record."""
        started_s = time.monotonic()
        self.event(word, "started", "")
        try:
            yield
        except Exception as error:
            self.event(word, "failed", sentence_of(error))
            raise
        finally:
            spent_s = self.record.seconds_by_step.get(word, 0.0) + time.monotonic() - started_s
            self.update(seconds_by_step=self.record.seconds_by_step | {word: round(spent_s, 3)})
        self.event(word, "done", f"{time.monotonic() - started_s:.1f} s")

    def drop_session(self) -> None:
        """Close the session without a dialogue, so that the next step logs in again."""
        drop_session(self.task)


def drop_session(task: Task) -> None:
    """Close a device's session without a dialogue: its state cannot be trusted, or the device may be restarting."""
    found = task.host.connections.pop(CONNECTION, None)
    if found is not None and found.connection is not None:
        found.connection.abandon()

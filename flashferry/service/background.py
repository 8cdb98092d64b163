"""Background tasks of the service, and its readiness checks."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import masked
from flashferry.service.service import Service
from flashferry.store.reader import reading
from flashferry.store.service.audit import entries
from flashferry.store.tables import latest_runs

_LOG = logging.getLogger("flashferry.service.background")
_EXPECTED = (FlashferryError, OSError, sqlite3.Error)
"""Errors that are logged without a traceback."""
_STUCK_S = 120.0
_STUCK_INTERVALS = 10


class PeriodicTask(Struct, frozen=True, kw_only=True):
    """A function that is called periodically.

    Attributes:
        every_s: From start to start, seconds, > 0; after a longer call the next one starts at once.
        run: Does the work once; must return soon after `Service.stopping` is set.
    """

    name: str
    every_s: float
    run: Callable[[Service], None]


class TaskState(Struct, frozen=True, kw_only=True):
    """State of a periodic task; `is_stuck` if the current call takes far longer than the interval."""

    name: str
    passes: int = 0
    last_pass_at: datetime | None = None
    failures: int = 0
    sentence: str = ""
    is_stuck: bool = False

    @property
    def is_good(self) -> bool:
        """Return whether the last call succeeded and the current one is not stuck."""
        return not self.sentence and not self.is_stuck


class BackgroundTasks:
    """The periodic tasks of a service. Their names are unique."""

    def __init__(self, service: Service, background_tasks: Sequence[PeriodicTask]) -> None:
        self._service = service
        self._background = tuple(background_tasks)
        self._lock = threading.Lock()
        self._states = {task.name: TaskState(name=task.name) for task in background_tasks}
        self._started_s: dict[str, float] = {}
        assert len(self._states) == len(self._background), "expected names that differ"
        self._threads = tuple(
            # Daemon threads: a hanging task must not delay the end of the process; its writes are transactions.
            threading.Thread(target=self._keep, args=(task,), name=f"background-{task.name}", daemon=True)
            for task in background_tasks
        )

    def start(self) -> None:
        """Start all tasks."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> tuple[str, ...]:
        """Stop all tasks; return the names of those still running after `timeout_s` seconds."""
        self._service.stopping.set()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return tuple(
            task.name for task, thread in zip(self._background, self._threads, strict=True) if thread.is_alive()
        )

    def states(self) -> tuple[TaskState, ...]:
        """Return the state of each task."""
        now_s = time.monotonic()
        with self._lock:
            return tuple(
                replace(self._states[task.name], is_stuck=self._is_stuck(task, now_s)) for task in self._background
            )

    def _is_stuck(self, task: PeriodicTask, now_s: float) -> bool:
        started_s = self._started_s.get(task.name)
        return started_s is not None and now_s - started_s > max(_STUCK_S, _STUCK_INTERVALS * task.every_s)

    def _keep(self, task: PeriodicTask) -> None:
        stopping = self._service.stopping
        while not stopping.is_set():
            started_s = time.monotonic()
            with self._lock:
                self._started_s[task.name] = started_s
            self._take(task, self._call(task))
            stopping.wait(max(0.0, task.every_s - (time.monotonic() - started_s)))

    def _call(self, task: PeriodicTask) -> Exception | None:
        try:
            task.run(self._service)
        except Exception as error:  # noqa: BLE001 -- no failure may end the task
            return error
        return None

    def _take(self, task: PeriodicTask, error: Exception | None) -> None:
        """Store the result of a call, and log it if it differs from the previous one."""
        sentence = "" if error is None else masked(str(error) or type(error).__name__)
        with self._lock:
            before = self._states[task.name]
            self._started_s.pop(task.name, None)
            self._states[task.name] = TaskState(
                name=task.name,
                passes=before.passes + 1,
                last_pass_at=self._service.now(),
                failures=before.failures + 1 if error is not None else 0,
                sentence=sentence,
            )
        if error is not None and sentence != before.sentence:
            trace = None if isinstance(error, _EXPECTED) else error
            _LOG.error("background task %s failed and is retried: %s", task.name, sentence, exc_info=trace)
        elif error is None and before.sentence:
            _LOG.warning("background task %s works again after %s failures", task.name, before.failures)


LEAST_FREE_BYTES = 64 * 2**20
"""With less space on the state folder's disk the service is not ready."""


def checks_of(service: Service) -> dict[str, bool]:
    """Return each readiness check by name, and whether it passes."""
    return {
        "database": _has_database(service),
        "journal": _has_journal(service),
        "disk": shutil.disk_usage(service.state).free >= LEAST_FREE_BYTES,
    }


def _has_database(service: Service) -> bool:
    try:
        with service.database.reading() as database:
            next(entries(database, most=1), None)
    except sqlite3.Error:
        return False
    return True


def _has_journal(service: Service) -> bool:
    """Return whether the journal can be read, or does not exist yet (before the first run)."""
    try:
        with reading(service.state) as journal:
            if journal is not None:
                latest_runs(journal, 1)
    except FlashferryError:
        return False
    return True

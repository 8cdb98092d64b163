"""Writes of many threads in one transaction: each returns when it is on disk, and they share the wait for the disk.

A commit with `synchronous=FULL` waits for the disk, about as long for one row as for a hundred. So whoever comes while
a commit is under way queues; the next one in line takes all that queue with it. There is no thread of its own that
could be left behind, and a single writer waits for nobody.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class _Job(Generic[T]):
    """A write that waits for its commit."""

    __slots__ = ("error", "is_done", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.is_done = False
        self.result: T | None = None
        self.error: Exception | None = None


class GroupedWriter:
    """The only writer of a database in this process; safe to use from all threads.

    Args:
        database: In autocommit mode, so that transactions begin and end here only.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: deque[_Job[Any]] = deque()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do a write and return its result; it is on disk when this returns, and undone where it raises.

        Args:
            work: Its statements. It shares the transaction with others' writes, and ends or begins none.

        Raises:
            sqlite3.Error: It could not be done or committed.
            Exception: Whatever `work` raises.
        """
        job = _Job(work)
        self._waiting.append(job)
        with self._lock:
            # Whoever held the lock before us may have taken our job along.
            while not job.is_done:
                self._commit(job)
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what a query finds, all that was committed before included."""
        with self._lock:
            return work(self._database)

    def _commit(self, own: _Job[Any]) -> None:
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        began = False
        try:
            self._database.execute("BEGIN IMMEDIATE")
            began = True
            for job in batch:
                self._attempt(job)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            for job in batch:
                job.error = job.error or error
        except BaseException:
            # Ctrl-C hit this thread while it wrote for others: they do it themselves, unless it is done.
            is_committed = began and not self._database.in_transaction
            self._undo()
            if not is_committed:
                self._waiting.extendleft(job for job in reversed(batch) if job is not own)
                raise
            self._end(batch)
            raise
        self._end(batch)

    @staticmethod
    def _end(batch: list[_Job[Any]]) -> None:
        for job in batch:
            job.is_done = True

    def _attempt(self, job: _Job[Any]) -> None:
        """Do one write of a transaction; where it fails, it alone is undone."""
        self._database.execute("SAVEPOINT one")
        try:
            job.result = job.work(self._database)
        except Exception as error:
            if not self._database.in_transaction:
                # SQLite gave up the whole transaction (a full disk): nobody's write is kept.
                raise
            job.error = error
            self._database.execute("ROLLBACK TO one")
        self._database.execute("RELEASE one")

    def _undo(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

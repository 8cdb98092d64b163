"""Group the writes of many threads into one transaction, so that they share one wait for the disk.

A commit with `synchronous=FULL` waits for the disk, about as long for one row as for a hundred. Writes that come during
a commit are queued, and the thread of the first commits them all. There is no writer thread.

A write without sync commits with `synchronous=NORMAL`: it is visible at once and survives a crash of this process. A
power cut may lose such writes since the last synced one, the newest first (WAL mode;
sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from flashferry.core.errors import ConfigInvalid
from flashferry.model.lease import JournalUnusable
from flashferry.store.database import OtherSchema, make_private, use_log
from flashferry.store.schema import FILE, another_hint, migrate, seal_writes
from flashferry.store.summaries import TABLE, keep_summaries
from tasks.run_marker import SHOW_OUR_LINES

T = TypeVar("T")


class _Job(Generic[T]):
    """A queued write; its own thread or another commits it."""

    __slots__ = ("_signal", "error", "is_done", "is_synced", "leads", "result", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], *, is_synced: bool) -> None:
        self.work = work
        self.is_synced = is_synced
        self.is_done = False
        self.leads = False
        self.result: T | None = None
        self.error: Exception | None = None
        # Acquiring a held lock is the cheapest way to wait.
        self._signal = threading.Lock()
        self._signal.acquire()

    def wait(self) -> None:
        """Wait until the write is done, or it is this thread's turn to commit."""
        self._signal.acquire()

    def wake(self) -> None:
        """Wake its thread."""
        self._signal.release()


class GroupedWriter:
    """The only writer of a database in this process; safe to use from all threads.

    Args:
        database: A connection in autocommit mode.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._in_use = threading.Lock()
        self._queue = threading.Lock()
        self._waiting: deque[_Job[Any]] = deque()
        self._is_led = False
        self._is_synced: bool | None = None

    def write(self, work: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Do a write and return its result; committed when this returns, rolled back if it raises.

        Args:
            work: The statements. They share a transaction with other writes, and must not start or end one.
            is_synced: Whether it must be on disk when this returns.

        Raises:
            sqlite3.Error: It could not be done or committed.
            Exception: Whatever `work` raises.
        """
        job = _Job(work, is_synced=is_synced)
        with self._queue:
            self._waiting.append(job)
            job.leads, self._is_led = not self._is_led, True
        try:
            if not job.leads:
                job.wait()
            if not job.is_done:
                self._lead(job)
        except BaseException:
            self._give_up(job)
            raise
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def _lead(self, own: _Job[Any]) -> None:
        """Commit all queued writes, this thread's included, then let the next in the queue commit."""
        batch: list[_Job[Any]] = []
        try:
            with self._in_use:
                with self._queue:
                    batch.extend(self._waiting)
                    self._waiting.clear()
                self._commit(batch, own)
        finally:
            for job in batch:
                if job.is_done and job is not own:
                    job.wake()
            with self._queue:
                self._hand_on()

    def _hand_on(self) -> None:
        """Let the next in the queue commit; the caller holds the queue's lock."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].wake()

    def _give_up(self, job: _Job[Any]) -> None:
        """Leave the queue after Ctrl-C, and pass on this thread's turn to commit."""
        with self._queue:
            if job in self._waiting:
                self._waiting.remove(job)
                if job.leads:
                    self._hand_on()

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of a query that sees all commits so far."""
        with self._in_use:
            return _without_cursor(work(self._database))

    def _commit(self, batch: list[_Job[Any]], own: _Job[Any]) -> None:
        began = False
        try:
            self._set_synced(any(job.is_synced for job in batch))
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
            # Ctrl-C interrupted this thread while it wrote for others: they write what is not done.
            is_committed = began and not self._database.in_transaction
            self._undo()
            if is_committed:
                self._end(batch)
            else:
                self._put_back(batch, own)
            raise
        self._end(batch)

    def _set_synced(self, is_synced: bool) -> None:
        if is_synced != self._is_synced:
            self._database.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced

    def _put_back(self, batch: list[_Job[Any]], own: _Job[Any]) -> None:
        others = [job for job in batch if job is not own]
        for job in others:
            job.error = None
        with self._queue:
            self._waiting.extendleft(reversed(others))

    @staticmethod
    def _end(batch: list[_Job[Any]]) -> None:
        for job in batch:
            job.is_done = True

    def _attempt(self, job: _Job[Any]) -> None:
        """Do one write of a transaction; if it fails, it alone is rolled back."""
        self._database.execute("SAVEPOINT one")
        try:
            job.result = _without_cursor(job.work(self._database))
        except Exception as error:
            if not self._database.in_transaction:
                # SQLite rolled back the whole transaction (disk full): no write of the batch is stored.
                raise
            job.error = error
            self._database.execute("ROLLBACK TO one")
        self._database.execute("RELEASE one")

    def _undo(self) -> None:
        # If the rollback fails too, every later transaction fails until the process ends.
        with suppress(sqlite3.Error):
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")


def _without_cursor(result: T) -> T:
    """Return a result without a cursor, so that it can leave the thread that holds the database.

    Freeing a cursor resets its statement, and the module shares statements of the same text: another thread may be
    using it. SQLite reports misuse and may crash.
    """
    if isinstance(result, sqlite3.Cursor):
        result.close()
    return result


def open_database(directory: Path) -> sqlite3.Connection:
    """Open the journal of a state directory; create it if there is none.

    Raises:
        ConfigInvalid: It is damaged, of another schema, a link, or cannot be used.
        OSError: It cannot be made private.
    """
    make_private(directory / FILE)
    try:
        # No implicit transactions: the writer begins and ends them.
        database = sqlite3.connect(directory / FILE, check_same_thread=False, timeout=30, isolation_level=None)
        try:
            _prepare(database)
        except BaseException:
            database.close()
            raise
    except sqlite3.Error as error:
        raise _unusable(directory, error) from None
    return database


def _prepare(database: sqlite3.Connection) -> None:
    use_log(database)
    with database:
        database.execute("BEGIN IMMEDIATE")
        migrate(database)
        database.execute(TABLE)
    seal_writes(database)
    keep_summaries(database)


def _unusable(directory: Path, error: sqlite3.Error) -> ConfigInvalid:
    """Return the error for a journal that cannot be opened. A damaged journal is never repaired or replaced."""
    path = directory / FILE
    if isinstance(error, OtherSchema):
        return ConfigInvalid(f"journal {path} was {error}", hint=another_hint(directory))
    if isinstance(error, sqlite3.OperationalError):
        return ConfigInvalid(f"journal {path}: {error}", hint="Check its permissions, or give another --state-dir")
    return ConfigInvalid(
        f"journal {path} is damaged ({error}); no device was touched. What dead runs left tuned is known only there",
        hint=f"Put a copy of it back, or look with '{SHOW_OUR_LINES}' for lines that a dead run left on your "
        f"devices; then move {path.name}* out of {directory} and start anew",
    )


class FileWatch:
    """Detects that the journal's file was removed or replaced.

    SQLite would keep writing into the old file, and the data would be lost with this process.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._known = self._seen()

    def check(self) -> None:
        """Check that the journal's file is still the one that was opened.

        Raises:
            JournalUnusable: It was removed or replaced.
        """
        if self._seen() != self._known:
            raise JournalUnusable(
                f"the journal {self._path} was removed or replaced while it was in use: nothing new is started",
                hint="What is in hand is restored all the same; what is not stands in the files of "
                f"{self._path.parent / 'leases'}, which 'flashferry recover' reads",
            )

    def _seen(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


@contextmanager
def translate_errors(directory: Path) -> Iterator[None]:
    """Turn SQLite's errors in the block into `JournalUnusable`.

    Raises:
        JournalUnusable: SQLite failed.
        sqlite3.IntegrityError: A row violates a constraint, such as that of the lease.
    """
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise JournalUnusable(
            f"the journal in {directory} cannot be used: {error}",
            hint="Check free disk space and the file's permissions",
        ) from None

"""The journal's runs: started, ended, resumed, and controlled from another terminal."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.core.outside import masked
from flashferry.core.state_folder import make_private_directory, sweep
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import Asker, Origin, WishKind
from flashferry.store.journal_file import FileWatch, open_database, translate_errors
from flashferry.store.journal_writer import GroupedWriter
from flashferry.store.reader import unknown_run
from flashferry.store.run_lock import is_run_alive, lock_of, locked_runs, taken_lock
from flashferry.store.tables import RunRow, run_row, runs_by_age, unsound_rows

T = TypeVar("T")


_INSERT_WISH = "INSERT INTO wishes (run_id, at, actor, via, what, wave, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SET_CONTROL = (
    "UPDATE runs SET paused = COALESCE(?, paused), stopping = COALESCE(?, stopping), "
    "approved_wave = MAX(approved_wave, COALESCE(?, approved_wave)) WHERE run_id = ?"
)


class JournalRuns:
    """The part of the journal that has to do with whole runs.

    Args:
        directory: State directory.
        origin: From where the runs come that are started or resumed with it.

    Raises:
        ConfigInvalid: The directory cannot be used.
    """

    def __init__(self, directory: Path, origin: Origin | None = None) -> None:
        self.directory = directory
        self._origin = origin or Origin()
        self._run_locks: dict[str, IO[str]] = {}
        try:
            make_private_directory(directory)
            make_private_directory(directory / "runs")
            self._db = open_database(directory)
            self._watch = FileWatch(directory)
            sweep(directory)
        except OSError as error:
            raise ConfigInvalid(
                f"state directory {directory}: {error}", hint="Give a writable one with --state-dir"
            ) from None
        self._writer = GroupedWriter(self._db)

    def begin_run(self, verb: str, request: Mapping[str, object] | None = None) -> str:
        """Open a run, take its lock, and return its identifier: date, time and four random digits.

        Args:
            verb: `stage` or `probe`.
            request: What it takes to go on with the run after its death: inventory, images, options, plan; no secret.
        """
        kept = None if request is None else to_json(dict(request))
        come = self._origin
        # The row first: a lock without one is what a lost journal leaves.
        written = 0
        while not written:
            run_id = _fresh_id()
            written = self._write(
                # Another run of this second may have drawn the same digits.
                "INSERT INTO runs (run_id, verb, started_at, request, job, events, plan_digest, actor) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING",
                (
                    *(run_id, verb, now(), None if kept is None else json.dumps(kept)),
                    *(come.job, come.events, Node(kept).text("plan", "digest"), come.actor),
                ),
            )
        self._run_locks[run_id] = taken_lock(self.directory, run_id)
        return run_id

    def finish_run(self, run_id: str) -> None:
        """Mark a run as ended in good order and free its lock."""
        self._write("UPDATE runs SET finished_at = ?, waiting_wave = NULL WHERE run_id = ?", (now(), run_id))
        if held := self._run_locks.pop(run_id, None):
            lock_of(self.directory, run_id).unlink(missing_ok=True)
            held.close()

    def reopen_run(self, run_id: str) -> None:
        """Go on with a run that died or ended: its lock is ours; requests to pause or stop it are forgotten.

        What was approved stays approved, who wanted what before is kept, and who began it stays who began it.

        Raises:
            ConfigInvalid: The run is unknown, or alive.
        """
        self._run_row(run_id)
        try:
            self._run_locks[run_id] = taken_lock(self.directory, run_id)
        except BlockingIOError:
            raise ConfigInvalid(
                f"run {run_id} is alive: expected one that died or ended",
                hint=f"Wait for it, or end it with 'flashferry run stop {run_id}'",
            ) from None
        self._write(
            "UPDATE runs SET finished_at = NULL, paused = 0, stopping = 0, waiting_wave = NULL, resumed = resumed + 1, "
            "job = ?, events = ? WHERE run_id = ?",
            (self._origin.job, self._origin.events, run_id),
        )

    def record_all(self, run_id: str, records: Mapping[str, object]) -> None:
        """Keep the records of many devices, by host, that nothing was done with; all of them or none, in one write."""
        at = now()
        rows = [(json.dumps(to_json(record)), at, run_id, host) for host, record in records.items()]
        statement = "UPDATE devices SET record = ?, updated_at = ? WHERE run_id = ? AND host = ?"
        self._change(lambda database: database.executemany(statement, rows), is_synced=False)

    def lost_runs(self) -> tuple[str, ...]:
        """Return dead runs that left a lock here and of which the journal knows nothing: it was lost, or is an old one.

        A run that ends in good order removes its lock.
        """
        known = {run_id for run_id, _ in self._read(runs_by_age)}
        locked = locked_runs(self.directory)
        return tuple(run_id for run_id in locked if run_id not in known and not self.is_alive(run_id))

    def damaged_rows(self) -> int:
        """Return how many rows are not what was written; costs a look at all of them."""
        return sum(self._read(unsound_rows).values())

    def is_alive(self, run_id: str) -> bool:
        """Return whether the process that opened a run still lives."""
        return is_run_alive(self.directory, run_id)

    def request_of(self, run_id: str) -> dict[str, Any]:
        """Return what a run was asked for; empty where it did not say.

        Raises:
            ConfigInvalid: The run is unknown, or what it was asked for cannot be read.
        """
        stored = self._run_row(run_id).request
        try:
            return dict(json.loads(stored or "{}"))
        except (ValueError, TypeError):
            raise ConfigInvalid(
                f"run {run_id}: what it was asked for is damaged in the journal", hint="Begin a new run"
            ) from None

    def control(self, run_id: str) -> ControlRequest:
        """Return what operators want of a run; costs a query, so once a second is fine.

        Raises:
            ConfigInvalid: The run is unknown.
        """
        return ControlRequest.of(self._run_row(run_id))

    def set_control(
        self,
        run_id: str,
        *,
        paused: bool | None = None,
        stopping: bool | None = None,
        approved_wave: int | None = None,
        asker: Asker | None = None,
    ) -> None:
        """Change what operators want of a run, and keep who wanted it; what is None stays.

        An approved wave stays approved.

        Args:
            run_id: The run.
            paused: Whether no further device may begin.
            stopping: Whether it is to end what is under way.
            approved_wave: Up to which wave it may begin.
            asker: Who wants it and why; None where unknown.

        Raises:
            ConfigInvalid: The run is unknown.
        """
        self._run_row(run_id)
        who = asker or Asker()
        asked: list[tuple[WishKind, int | None]] = []
        if paused is not None:
            asked.append((WishKind.PAUSE if paused else WishKind.CONTINUE, None))
        if stopping:
            asked.append((WishKind.STOP, None))
        if approved_wave is not None:
            asked.append((WishKind.APPROVE, approved_wave))
        rows = [(run_id, now(), who.actor, who.via, what.value, wave, masked(who.reason)) for what, wave in asked]

        def write(database: sqlite3.Connection) -> None:
            database.executemany(_INSERT_WISH, rows)
            database.execute(_SET_CONTROL, (paused, stopping, approved_wave, run_id))

        self._change(write)

    def set_waiting_wave(self, run_id: str, wave: int | None) -> None:
        """Write which wave waits for approval, or None; `flashferry run` shows it and approves it."""
        self._write("UPDATE runs SET waiting_wave = ? WHERE run_id = ?", (wave, run_id))

    def _run_row(self, run_id: str) -> RunRow:
        """Return the row of a run."""
        found = self._read(lambda database: run_row(database, run_id))
        if found is None:
            raise unknown_run(run_id, [known for known, _ in self._read(runs_by_age)])
        return found

    def _write(self, statement: str, values: tuple[Any, ...]) -> int:
        """Change rows, on disk when this returns; return how many."""
        return self._change(lambda database: database.execute(statement, values).rowcount)

    def _change(self, work: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Do a write; where it needs no sync, a power cut may lose it until the next one that does."""
        self._watch.check()
        with translate_errors(self.directory):
            return self._writer.write(work, is_synced=is_synced)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translate_errors(self.directory):
            return self._writer.read(work)


def now() -> str:
    """Return the time as the journal writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _fresh_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"

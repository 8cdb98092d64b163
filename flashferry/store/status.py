"""Read where runs stand: runs alive, leased devices, what dead runs left, last results.

A journal is neither made nor changed by asking: SQLite opens it with `mode=ro` (sqlite.org/uri.html).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.core.json_access import parsed
from flashferry.model.states import ENDED, Outcome, State
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import SteerRequest
from flashferry.store.lease_files import LeaseFile, LeaseFiles
from flashferry.store.reader import LATEST_RUNS, RunState, is_run_alive, locked_runs, reading, run_state
from flashferry.store.stored_run import held_applet, held_phase
from flashferry.store.summaries import summarized_devices
from flashferry.store.tables import (
    RunRow,
    StatusRow,
    device_row,
    held_devices,
    last_figures,
    latest_runs,
    run_row,
    runs_by_age,
    wishes_of,
)
from inventory.transport_policy import USUAL

__all__ = [
    "DeviceStatus",
    "FollowedRun",
    "RunState",
    "RunStatus",
    "Status",
    "StatusReader",
    "last_as_is",
    "last_hash_speeds",
    "read_status",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatus:
    """A device of a run.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        state: How far it came (`planned` to `done` or `failed`).
        is_held: Whether its lease is not ended: in the run's hands, or left by it.
        updated_at: Last change, ISO 8601, UTC.
        outcome: What became of it, or None where that is not recorded.
        restored: Whether its configuration is what it was, by the last attempt that changed it, or None.
        rate_bytes_per_s: By the server's account, or None.
        verdict: What limited the copy, or None.
        reason: Why it failed or was refused, or None.
        site: Name of its site, or None.
        wave: Number of its wave.
        attempt: Which attempt of the run this is, 1 for the first.
        transport: By what it fetched, or was to, or None where that is not recorded.
        activation: Phase of the activation that it is in hand for; None where it is in none.
        applet: Name of the applet that it may carry while it is in hand (`stage --dead-man`), or None.
        configuration: What became of its configuration, in the word for people, or None.
        is_accepted: Whether the operator accepted that as it is (`recover --accept`), so that nothing of it is open.
    """

    host: str
    address: str
    state: str
    is_held: bool
    updated_at: str
    outcome: str | None = None
    restored: str | None = None
    rate_bytes_per_s: float | None = None
    verdict: str | None = None
    reason: str | None = None
    site: str | None = None
    wave: int = 0
    attempt: int = 1
    transport: str | None = None
    activation: str | None = None
    applet: str | None = None
    configuration: str | None = None
    is_accepted: bool = False

    @property
    def is_left_by_plan(self) -> bool:
        """Return whether its run's plan leaves it as it is by rule: it ended where it began, and nothing is open."""
        return self.outcome == Outcome.NOT_STARTED and self.state == State.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run.

    Attributes:
        run_id: Its identifier.
        verb: `stage` or `probe`.
        state: Where it stands.
        started_at: When it began, ISO 8601, UTC.
        finished_at: When it ended in good order, or None.
        devices: Its devices in the order in which they were entered.
        resumed: How often it was gone on with.
        is_paused: Whether no further device may begin.
        is_stopping: Whether it was asked to stop.
        waiting_wave: Number of the wave that waits for approval, or None.
        actor: Who started it, or None where unknown.
        job: The job of a service that it is, or None.
    """

    run_id: str
    verb: str
    state: RunState
    started_at: str
    finished_at: str | None
    devices: tuple[DeviceStatus, ...]
    resumed: int = 0
    is_paused: bool = False
    is_stopping: bool = False
    waiting_wave: int | None = None
    actor: str | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostDevice:
    """A device that a dead run had in its hands by the files beside the journal, which itself does not say so.

    Attributes:
        run_id: The run.
        host: Inventory name at that time; the run's own name where its devices are unknown.
        address: Address at that time, or `?`.
    """

    run_id: str
    host: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the journal knows.

    Attributes:
        directory: State directory.
        has_journal: Whether there is one; nothing was ever staged or probed from here without.
        runs: The latest runs and every run that still holds a device, the latest first.
        lost: What dead runs left by the files beside the journal and not by the journal: it was lost, or damaged, or an
            older one was put in its place.
    """

    directory: Path
    has_journal: bool
    runs: tuple[RunStatus, ...] = ()
    lost: tuple[LostDevice, ...] = ()

    @property
    def to_recover(self) -> tuple[tuple[RunStatus, DeviceStatus], ...]:
        """Return the devices that dead runs left, or finished ones could not prove restored, with their runs."""
        return tuple(
            (run, device)
            for run in self.runs
            if run.state is not RunState.ALIVE
            for device in run.devices
            if device.is_held
        )


def read_status(directory: Path, latest: int = LATEST_RUNS) -> Status:
    """Return what the journal of a state directory knows.

    Args:
        directory: State directory; it need not exist.
        latest: How many runs to return; those that still hold a device come on top.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    files = LeaseFiles(directory).read()
    with reading(directory) as database:
        if database is None:
            return Status(directory=directory, has_journal=False, lost=_lost(directory, frozenset(), files))
        rows = latest_runs(database, latest)
        runs = tuple(_run_status(database, directory, row) for row in rows)
        known = frozenset(run_id for run_id, _ in runs_by_age(database))
        unknown = [one for one in files if not _is_known(database, one)]
    return Status(
        directory=directory,
        has_journal=True,
        runs=runs,
        lost=_lost(directory, known, unknown),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRun:
    """A run of those that are looked at again and again.

    Attributes:
        status: Where it stands.
        request: What it was asked for, as the run kept it; empty where it did not say.
        row: Its row.
        actor: Who started it, or None where unknown.
        events: Where it writes its events, or None.
        plan_digest: The plan that it carries out, or None.
        wishes: The requests to steer it, the oldest first.
    """

    status: RunStatus
    request: Mapping[str, Any]
    row: RunRow
    actor: str | None = None
    events: str | None = None
    plan_digest: str | None = None
    wishes: tuple[SteerRequest, ...] = ()


class StatusReader:
    """Reads what the journal knows again and again, cheaply: what is over and holds no device is read once.

    Args:
        directory: State directory; it need not exist.
        latest: How many runs to return; those that still hold a device come on top.
    """

    def __init__(self, directory: Path, latest: int = LATEST_RUNS) -> None:
        self._directory, self._latest = directory, latest
        self._files = LeaseFiles(directory)
        self._over: dict[RunRow, FollowedRun] = {}

    def read(self) -> tuple[tuple[FollowedRun, ...], Status]:
        """Return the runs as they are now, and the same as `read_status` has them.

        Raises:
            ConfigInvalid: There is a journal and it cannot be read.
        """
        files = self._files.read()
        with reading(self._directory) as database:
            if database is None:
                lost = _lost(self._directory, frozenset(), files)
                return (), Status(directory=self._directory, has_journal=False, lost=lost)
            rows = latest_runs(database, self._latest)
            held = frozenset((one.run_id, one.host) for one in held_devices(database))
            runs = self._runs(database, rows, holding={run_id for run_id, _ in held})
            known = frozenset(run_id for run_id, _ in runs_by_age(database))
            others = (one for one in files if (one.entry.run_id, one.entry.host) not in held)
            unknown = [one for one in others if not _is_known(database, one)]
        self._over = {row: one for row, one in self._over.items() if row in rows}
        lost = _lost(self._directory, known, unknown)
        status = Status(directory=self._directory, has_journal=True, runs=tuple(one.status for one in runs), lost=lost)
        return runs, status

    def latest(self, count: int) -> tuple[RunStatus, ...]:
        """Return the latest runs and those that hold a device, the latest first, as `read_status` has them.

        Raises:
            ConfigInvalid: There is a journal and it cannot be read.
        """
        with reading(self._directory) as database:
            if database is None:
                return ()
            holding = {one.run_id for one in held_devices(database)}
            return tuple(one.status for one in self._runs(database, latest_runs(database, count), holding=holding))

    def some(self, run_ids: Sequence[str]) -> tuple[FollowedRun, ...]:
        """Return some runs, those that are not known left out.

        Raises:
            ConfigInvalid: There is a journal and it cannot be read.
        """
        with reading(self._directory) as database:
            if database is None:
                return ()
            rows = [row for run_id in run_ids if (row := run_row(database, run_id)) is not None]
            return tuple(self._run(database, row, is_held=True) for row in rows)

    def identifiers(self) -> tuple[str, ...]:
        """Return all runs, the latest first.

        Raises:
            ConfigInvalid: There is a journal and it cannot be read.
        """
        with reading(self._directory) as database:
            return () if database is None else tuple(run_id for run_id, _ in reversed(runs_by_age(database)))

    def _runs(
        self, database: sqlite3.Connection, rows: Sequence[RunRow], *, holding: Set[str]
    ) -> tuple[FollowedRun, ...]:
        return tuple(self._run(database, row, is_held=row.run_id in holding) for row in rows)

    def _run(self, database: sqlite3.Connection, row: RunRow, *, is_held: bool) -> FollowedRun:
        if (known := self._over.get(row)) is not None and not is_held:
            return known
        made = FollowedRun(
            status=_run_status(database, self._directory, row),
            request=parsed(row.request) or {},
            row=row,
            actor=row.actor,
            events=row.events,
            plan_digest=row.plan_digest,
            wishes=tuple(SteerRequest.of(one) for one in wishes_of(database, row.run_id)),
        )
        if row.finished_at is not None and not is_held:
            self._over[row] = made
        return made


def _is_known(database: sqlite3.Connection, file: LeaseFile) -> bool:
    """Return whether the journal knows of a lease that has a file: the device is in hand, or its lease is over."""
    row = device_row(database, file.entry.run_id, file.entry.host)
    return row is not None and (bool(row.touched) or (row.state in ENDED and row.attempt >= file.attempt))


def _lost(directory: Path, known: frozenset[str], unknown: Sequence[LeaseFile]) -> tuple[LostDevice, ...]:
    """Return what dead runs left by the files beside the journal and not by the journal."""
    found = [
        LostDevice(run_id=one.entry.run_id, host=one.entry.host, address=one.entry.address)
        for one in unknown
        if not is_run_alive(directory, one.entry.run_id)
    ]
    named = {one.run_id for one in found}
    found += [
        LostDevice(run_id=run_id, host=run_id, address="?")
        for run_id in locked_runs(directory)
        if run_id not in known and run_id not in named and not is_run_alive(directory, run_id)
    ]
    return tuple(found)


def last_as_is(directory: Path, transport: str = USUAL) -> dict[str, float]:
    """Return by device the speed with its own settings that its last speed test measured, in bytes per second.

    Args:
        directory: State directory; it need not exist.
        transport: By which the speed tests went: what another one gave is nothing to hold a copy against.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    unless = ("probe", "as_is", "too_short")
    return _last_measured(directory, "probe", "as_is", "steady_bytes_per_s", unless=unless, transport=transport)


def last_hash_speeds(directory: Path) -> dict[str, float]:
    """Return by device how fast it hashed last, in bytes per second; how long it may take the next time follows.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    return _last_measured(directory, "verify", "hash_bytes_per_s")


def last_flash_speeds(directory: Path) -> dict[str, float]:
    """Return by device how fast it copied last inside the box, to another member or the standby, in bytes per second.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    return _last_measured(directory, "distribution", "bytes_per_s")


def last_add_speeds(directory: Path) -> dict[str, float]:
    """Return by device how fast its last `install add` went through an image, in bytes per second.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    return _last_measured(directory, "added", "bytes_per_s")


def _last_measured(
    directory: Path, *keys: str, unless: tuple[str, ...] = (), transport: str | None = None
) -> dict[str, float]:
    """Return by device the latest figure that its records have at a place; see `flashferry.store.tables`."""
    with reading(directory) as database:
        return last_figures(database, *keys, unless=unless, transport=transport) if database is not None else {}


def _run_status(database: sqlite3.Connection, directory: Path, row: RunRow) -> RunStatus:
    control = ControlRequest.of(row)
    return RunStatus(
        run_id=row.run_id,
        verb=row.verb,
        state=run_state(directory, row.run_id, row.finished_at),
        started_at=row.started_at,
        finished_at=row.finished_at,
        devices=tuple(_device_status(*one) for one in summarized_devices(database, row.run_id)),
        resumed=row.resumed,
        is_paused=control.paused,
        is_stopping=control.stopping,
        waiting_wave=control.waiting_wave,
        actor=row.actor,
        job=row.job,
    )


def _device_status(row: StatusRow, summary: dict[str, Any]) -> DeviceStatus:
    return DeviceStatus(
        host=row.host,
        address=row.address,
        state=row.state,
        is_held=bool(row.touched),
        updated_at=row.updated_at,
        site=row.site,
        wave=row.wave,
        attempt=row.attempt,
        activation=held_phase(row.activation) if row.touched else None,
        applet=held_applet(row.changes) if row.touched else None,
        **summary,
    )

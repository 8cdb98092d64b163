"""Read the state of runs and of their devices, and which devices must be recovered. Read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from msgspec import Struct

from flashferry.core.json_access import parsed
from flashferry.model.states import ENDED, Outcome, RunState, State
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import SteerKind, SteerRequest
from flashferry.store.lease_files import LeaseFile, LeaseFiles
from flashferry.store.reader import LATEST_RUNS, is_run_alive, locked_runs, reading, run_state
from flashferry.store.summaries import held_applet, held_phase, summarized_devices
from flashferry.store.tables import (
    RunRow,
    StatusRow,
    device_row,
    held_devices,
    last_figures,
    latest_runs,
    run_row,
    runs_by_age,
    steer_requests_of,
)
from inventory.transport_policy import USUAL

__all__ = [
    "DeviceStatus",
    "FollowedRun",
    "RunStatus",
    "Status",
    "StatusReader",
    "last_as_is",
    "last_hash_speeds",
    "read_status",
]


class DeviceStatus(Struct, frozen=True, kw_only=True):
    """A device of a run.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        state: `planned` to `done` or `failed`.
        is_held: Whether its lease has not ended: the run holds it, or left it unrestored.
        updated_at: Last change, ISO 8601, UTC.
        outcome: A value of `flashferry.model.states.Outcome`; None before the end.
        restored: Whether its configuration is restored, by the last attempt that changed it; None if unknown.
        rate_bytes_per_s: Measured by the server; None for none.
        verdict: What limited the copy; None if unknown.
        reason: Why it failed or was refused; None for none.
        attempt: Number of the attempt, from 1.
        transport: Transport of the copy; None if unknown.
        activation: Phase of its activation while held; None for none.
        applet: Name of the rollback applet that it may have while held (`stage --dead-man`), or None.
        configuration: The state of its configuration as shown to users; None if unknown.
        is_accepted: Whether the operator accepted the configuration as it is (`recover --accept`).
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
        """Return whether the run's plan excluded the device, so that nothing is open."""
        return self.outcome == Outcome.NOT_STARTED and self.state == State.DONE


class RunStatus(Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        verb: `stage`, `probe`, ...
        started_at: ISO 8601, UTC.
        finished_at: When it finished; None if it is alive or died.
        devices: In the order of entry.
        resumed: How often it was resumed.
        is_paused: Whether it was asked to start no further device.
        is_stopping: Whether it was asked to stop.
        waiting_wave: Number of the wave that waits for approval; None for none.
        actor: Who started it; None if unknown.
        job: The service's job that last ran it; None for none.
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

    @property
    def hold(self) -> str:
        """Return why it starts no device: `stopping`, `paused`, `waiting` for an approval; empty: it does."""
        if self.is_stopping:
            return "stopping"
        if self.is_paused:
            return "paused"
        return "waiting" if self.waiting_wave is not None else ""


class LostDevice(Struct, frozen=True, kw_only=True):
    """A device that a dead run held by its lease or lock file, and of which the journal has no row.

    Attributes:
        run_id: The run.
        host: Inventory name at that time; the run's identifier if its devices are unknown.
        address: Address at that time, or `?`.
    """

    run_id: str
    host: str
    address: str


class Status(Struct, frozen=True, kw_only=True):
    """The state of a journal.

    Attributes:
        directory: State directory.
        has_journal: Whether there is a journal.
        runs: The latest runs and every run that still holds a device, the newest first.
        lost: Devices of dead runs that are only in lease or lock files: the journal was lost, damaged, or replaced by
            an older one.
    """

    directory: Path
    has_journal: bool
    runs: tuple[RunStatus, ...] = ()
    lost: tuple[LostDevice, ...] = ()

    @property
    def to_recover(self) -> tuple[tuple[RunStatus, DeviceStatus], ...]:
        """Return the devices that a run left unrestored, with their runs."""
        return tuple(
            (run, device)
            for run in self.runs
            if run.state is not RunState.ALIVE
            for device in run.devices
            if device.is_held
        )


def read_status(directory: Path, latest: int = LATEST_RUNS) -> Status:
    """Return the state of a journal.

    Args:
        directory: State directory; may not exist.
        latest: Number of runs; those that still hold a device are added.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    return StatusReader(directory, latest).read()[1]


class FollowedRun(Struct, frozen=True, kw_only=True):
    """A run that is read repeatedly.

    Attributes:
        status: Its state.
        request: Its stored request; empty if there is none.
        row: Its row in the journal.
        steer_requests: Requests to steer it, the oldest first.
    """

    status: RunStatus
    request: Mapping[str, Any]
    row: RunRow
    steer_requests: tuple[SteerRequest, ...] = ()

    @property
    def held_since(self) -> str:
        """Return when the present pause or stop was requested, ISO 8601; empty for none."""
        requested = {"stopping": SteerKind.STOP, "paused": SteerKind.PAUSE}.get(self.status.hold)
        return next((one.at for one in reversed(self.steer_requests) if one.what == requested), "")


class StatusReader:
    """Reads the state of a journal repeatedly; finished runs that hold no device are read once.

    Args:
        directory: State directory; may not exist.
        latest: Number of runs; those that still hold a device are added.
    """

    def __init__(self, directory: Path, latest: int = LATEST_RUNS) -> None:
        self._directory, self._latest = directory, latest
        self._files = LeaseFiles(directory)
        self._over: dict[RunRow, FollowedRun] = {}

    def read(self) -> tuple[tuple[FollowedRun, ...], Status]:
        """Return the runs, and the state of the journal.

        Raises:
            ConfigInvalid: The journal cannot be read.
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
        """Return the latest runs and those that hold a device, the newest first.

        Raises:
            ConfigInvalid: The journal cannot be read.
        """
        with reading(self._directory) as database:
            if database is None:
                return ()
            holding = {one.run_id for one in held_devices(database)}
            return tuple(one.status for one in self._runs(database, latest_runs(database, count), holding=holding))

    def some(self, run_ids: Sequence[str]) -> tuple[FollowedRun, ...]:
        """Return some runs, without unknown ones.

        Raises:
            ConfigInvalid: The journal cannot be read.
        """
        with reading(self._directory) as database:
            if database is None:
                return ()
            rows = [row for run_id in run_ids if (row := run_row(database, run_id)) is not None]
            return tuple(self._run(database, row, is_held=True) for row in rows)

    def identifiers(self) -> tuple[str, ...]:
        """Return the identifiers of all runs, the newest first.

        Raises:
            ConfigInvalid: The journal cannot be read.
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
            steer_requests=tuple(steer_requests_of(database, row.run_id)),
        )
        if row.finished_at is not None and not is_held:
            self._over[row] = made
        return made


def _is_known(database: sqlite3.Connection, file: LeaseFile) -> bool:
    """Return whether the journal accounts for a lease file: the device is held by its row, or the lease has ended."""
    row = device_row(database, file.entry.run_id, file.entry.host)
    return row is not None and (bool(row.touched) or (row.state in ENDED and row.attempt >= file.attempt))


def _lost(directory: Path, known: frozenset[str], unknown: Sequence[LeaseFile]) -> tuple[LostDevice, ...]:
    """Return devices of dead runs that are only in lease or lock files."""
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
    """Return the speed of each device's last speed test with its own settings, by host, in bytes/s.

    Args:
        directory: State directory; may not exist.
        transport: Transport of the speed test.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    unless = ("probe", "as_is", "too_short")
    return _last_measured(directory, "probe", "as_is", "steady_bytes_per_s", unless=unless, transport=transport)


def last_hash_speeds(directory: Path) -> dict[str, float]:
    """Return the speed at which each device last hashed a file, by host, in bytes/s.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    return _last_measured(directory, "verify", "hash_bytes_per_s")


def last_flash_speeds(directory: Path) -> dict[str, float]:
    """Return the speed of each device's last copy to another member or the standby, by host, in bytes/s.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    return _last_measured(directory, "distribution", "bytes_per_s")


def last_add_speeds(directory: Path) -> dict[str, float]:
    """Return the speed of each device's last `install add`, by host, in bytes/s.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    return _last_measured(directory, "added", "bytes_per_s")


def _last_measured(
    directory: Path, *keys: str, unless: tuple[str, ...] = (), transport: str | None = None
) -> dict[str, float]:
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

"""What the journal knows: runs alive, devices in their hands, what dead runs left, last results. Read-only.

A journal is neither made nor changed by asking: SQLite opens it with `mode=ro` (sqlite.org/uri.html).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from inventory.errors import ConfigInvalid
from staging.run_lock import is_run_alive

DATABASE = "journal.sqlite3"
LATEST_RUNS = 10


class RunState(StrEnum):
    """Where a run stands."""

    ALIVE = "alive"
    FINISHED = "finished"
    DIED = "died"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatus:
    """A device of a run.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        state: How far it came (`planned` to `done` or `failed`).
        is_held: Whether its lease is not ended: in the run's hands, or left by it.
        updated_at: Last change, ISO 8601, UTC.
        outcome: What became of it, or None where the run has not told.
        restored: Whether its configuration is what it was, or None.
        rate_bytes_per_s: By the server's account, or None.
        verdict: What limited the copy, or None.
        reason: Why it failed or was refused, or None.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run. `started_at` and `finished_at` are ISO 8601, UTC; the latter is None where it did not end in order."""

    run_id: str
    verb: str
    state: RunState
    started_at: str
    finished_at: str | None
    devices: tuple[DeviceStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the journal knows.

    Attributes:
        directory: State directory.
        has_journal: Whether there is one; nothing was ever staged or probed from here without.
        runs: The latest runs and every run that still holds a device, the latest first.
    """

    directory: Path
    has_journal: bool
    runs: tuple[RunStatus, ...] = ()

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
        latest: How many runs to tell; those that still hold a device come on top.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    with _reading(directory) as database:
        if database is None:
            return Status(directory=directory, has_journal=False)
        return Status(directory=directory, has_journal=True, runs=_runs(database, directory, latest))


def last_as_is(directory: Path) -> dict[str, float]:
    """Return by device the speed with its own settings that its last speed test measured, in bytes per second.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    return _last_measured(directory, "probe", "as_is", "steady_bytes_per_s")


def last_hash_speeds(directory: Path) -> dict[str, float]:
    """Return by device how fast it hashed last, in bytes per second; how long it may take the next time follows.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    return _last_measured(directory, "verify", "hash_bytes_per_s")


def _last_measured(directory: Path, *keys: str) -> dict[str, float]:
    """Return by device the latest figure that its records have at a place."""
    query = (
        "SELECT host, CASE WHEN json_valid(record) THEN json_extract(record, ?) END AS figure "
        "FROM devices JOIN runs USING (run_id) WHERE typeof(figure) IN ('real', 'integer') ORDER BY started_at"
    )
    with _reading(directory) as database:
        rows = database.execute(query, ("$." + ".".join(keys),)).fetchall() if database is not None else []
    return {host: float(figure) for host, figure in rows}


@contextmanager
def _reading(directory: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield the journal's database, to be read only, or None where there is none."""
    path = directory / DATABASE
    try:
        if not path.is_file():
            yield None
            return
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=10)) as database:
            yield database
    except (OSError, sqlite3.Error) as error:
        raise ConfigInvalid(
            f"the journal in {directory} cannot be read: {error}", hint="Check --state-dir and the file's rights"
        ) from None


def _runs(database: sqlite3.Connection, directory: Path, latest: int) -> tuple[RunStatus, ...]:
    rows = database.execute(
        "SELECT run_id, verb, started_at, finished_at FROM runs WHERE run_id IN "
        "(SELECT run_id FROM runs ORDER BY started_at DESC, run_id DESC LIMIT ?) "
        "OR run_id IN (SELECT run_id FROM devices WHERE touched = 1) ORDER BY started_at DESC, run_id DESC",
        (latest,),
    ).fetchall()
    return tuple(
        RunStatus(
            run_id=run_id,
            verb=verb,
            state=_state(directory, run_id, finished_at),
            started_at=started_at,
            finished_at=finished_at,
            devices=_devices(database, run_id),
        )
        for run_id, verb, started_at, finished_at in rows
    )


def _state(directory: Path, run_id: str, finished_at: str | None) -> RunState:
    if finished_at is not None:
        return RunState.FINISHED
    return RunState.ALIVE if is_run_alive(directory, run_id) else RunState.DIED


def _devices(database: sqlite3.Connection, run_id: str) -> tuple[DeviceStatus, ...]:
    rows = database.execute(
        "SELECT host, address, state, touched, updated_at, record FROM devices WHERE run_id = ? ORDER BY rowid",
        (run_id,),
    ).fetchall()
    return tuple(
        DeviceStatus(
            host=host,
            address=address,
            state=state,
            is_held=bool(touched),
            updated_at=updated_at,
            **_told(record),
        )
        for host, address, state, touched, updated_at, record in rows
    )


def _told(record: str | None) -> dict[str, Any]:
    """Return what a device's record says; one that is damaged, or of another release, says nothing."""
    try:
        kept = json.loads(record or "{}")
        transfer, failure = kept.get("transfer") or {}, kept.get("failure") or {}
        return {
            "outcome": kept.get("outcome"),
            "restored": kept.get("restored"),
            "rate_bytes_per_s": transfer.get("rate_bytes_per_s"),
            "verdict": (transfer.get("verdict") or {}).get("kind"),
            "reason": failure.get("reason"),
        }
    except (ValueError, AttributeError):
        return {}

"""A device that begins anew within its run: what its attempt so far came to is kept beside the next one."""

from __future__ import annotations

import sqlite3

from flashferry.devices.errors import DeviceRefused
from flashferry.model.states import State
from staging.journal_runs import now


def begin_anew(database: sqlite3.Connection, run_id: str, host: str) -> None:
    """Put a device back to its start and its record among its attempts, in the caller's transaction.

    Raises:
        DeviceRefused: The device is still in a run's hands: what it was before must not be forgotten.
        ValueError: The run has no such device.
    """
    where = (run_id, host)
    row = database.execute("SELECT touched FROM devices WHERE run_id = ? AND host = ?", where).fetchone()
    if row is None:
        raise ValueError(f"{host}: run {run_id} has no such device")
    if row[0]:
        raise DeviceRefused(
            f"run {run_id} has this device in its hands, or left it before it was proven restored",
            host=host,
            step="resume",
            hint="Run 'flashferry recover' first",
        )
    database.execute(
        "INSERT INTO attempts (run_id, host, attempt, state, record, ended_at) "
        "SELECT run_id, host, attempt, state, record, updated_at FROM devices WHERE run_id = ? AND host = ?",
        where,
    )
    database.execute(
        "UPDATE devices SET state = ?, attempt = attempt + 1, record = NULL, snapshot = NULL, changes = NULL, "
        "target = NULL, updated_at = ? WHERE run_id = ? AND host = ?",
        (State.PLANNED.value, now(), *where),
    )

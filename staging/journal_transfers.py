"""The journal's transfers: kept once with all their samples, and slim in the records that speak of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from flashferry.core.json_access import number, text
from flashferry.model.codec import kept_json
from staging.store.kept import COLUMNS, utc

if TYPE_CHECKING:
    from flashferry.fileserver import TransferRecord
    from flashferry.model.record import DeviceRecord

Key = tuple[str, str, str, str]
"""Run, host, ticket and time of a transfer."""

_INSERT = f"INSERT OR REPLACE INTO transfers ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 -- our own words


def key_of(run_id: str, host: str, record: TransferRecord) -> Key:
    """Return what tells a transfer from all others: a ticket may be good for more than one try."""
    return run_id, host, record.ticket_id, utc(record.started_at)


def keep(database: sqlite3.Connection, row: tuple[Any, ...]) -> None:
    """Write a transfer; the same one again replaces what was known of it."""
    database.execute(_INSERT, row)


def slim(run_id: str, host: str, record: object, kept: Collection[Key]) -> Any:
    """Return a record as JSON types, without the samples of a transfer that is kept by itself.

    They are nine tenths of a record, which is written more than once; a reader puts them back.
    """
    transfer = getattr(record, "transfer", None)
    if transfer is None or key_of(run_id, host, transfer) not in kept:
        return kept_json(record)
    return kept_json(replace(cast("DeviceRecord", record), transfer=replace(transfer, samples=())))


def annotate(database: sqlite3.Connection, run_id: str, host: str, record: Any) -> None:
    """Add to a device's transfers what only its record knows: the model, and the device's own clock on its last copy.

    The device's clock counts flash writing; what a copy to flash takes is known by it alone.
    """
    if (model := text(record, "check", "facts", "model")) is not None:
        database.execute("UPDATE transfers SET model = ? WHERE run_id = ? AND host = ?", (model, run_id, host))
    device_s, started_s = number(record, "pull", "device", "duration_s"), number(record, "transfer", "started_at")
    if device_s is not None and started_s is not None:
        database.execute(
            "UPDATE transfers SET device_s = ? WHERE run_id = ? AND host = ? AND ticket_id = ? AND at = ?",
            (device_s, run_id, host, text(record, "transfer", "ticket_id"), utc(started_s)),
        )

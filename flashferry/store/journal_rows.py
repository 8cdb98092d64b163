"""How devices and transfers are written into the journal's tables, each within the caller's transaction.

A device is entered before anything is done with it. One that begins anew within its run has what its attempt so far
came to kept beside the next one. A transfer is kept once with all its samples, and slim in the records of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import astuple, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

from flashferry.core.codec import stored_json
from flashferry.core.json_access import Node
from flashferry.devices.errors import DeviceRefused
from flashferry.model.states import State
from flashferry.store.journal_runs import now
from flashferry.store.tables import SampledRow, device_row
from flashferry.store.transfer_row import utc
from inventory.host_view import HostView

if TYPE_CHECKING:
    from flashferry.fileserver import TransferRecord
    from flashferry.model.record import DeviceRecord

INSERT_DEVICE = (
    "INSERT INTO devices (run_id, host, address, port, platform, site, wave, image, state, updated_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

UPDATE_DEVICE = (
    "UPDATE devices SET address = ?, port = ?, platform = ?, site = ?, updated_at = ? "
    "WHERE run_id = ? AND host = ? AND touched = 0"
)
"""One in a run's hands stays what it was when it was taken: recovery finds it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDevice:
    """A device of a run, before anything is done with it.

    Attributes:
        host: Inventory name.
        address: Its address or DNS name.
        port: Its SSH port.
        platform: `ios`.
        site: Its site, or None.
        wave: Number of its wave.
        image: Name of the image that it is to get, or None.
    """

    host: str
    address: str
    port: int
    platform: str
    site: str | None = None
    wave: int = 0
    image: str | None = None

    @classmethod
    def of(cls, device: HostView, *, wave: int, image: str) -> NewDevice:
        """Return a device of the inventory as it is entered."""
        return cls(
            host=device.name,
            address=device.address,
            port=device.port,
            platform=device.platform,
            site=device.site,
            wave=wave,
            image=image,
        )


def begin_anew(database: sqlite3.Connection, run_id: str, host: str) -> None:
    """Put a device back to its start and its record among its attempts, in the caller's transaction.

    Raises:
        DeviceRefused: The device is still in a run's hands: what it was before must not be forgotten.
        ValueError: The run has no such device.
    """
    where = (run_id, host)
    row = device_row(database, run_id, host)
    if row is None:
        raise ValueError(f"{host}: run {run_id} has no such device")
    if row.touched:
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


Key = tuple[str, str, str, str]
"""Run, host, ticket and time of a transfer."""

_COLUMNS = tuple(field.name for field in fields(SampledRow))
_INSERT = f"INSERT OR REPLACE INTO transfers ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 -- our own words


def key_of(run_id: str, host: str, record: TransferRecord) -> Key:
    """Return what identifies a transfer: a ticket may be good for more than one try."""
    return run_id, host, record.ticket_id, utc(record.started_at)


def keep(database: sqlite3.Connection, row: SampledRow) -> None:
    """Write a transfer; the same one again replaces what was known of it."""
    database.execute(_INSERT, astuple(row))


def slim(run_id: str, host: str, record: object, kept: Collection[Key]) -> Any:
    """Return a record as JSON types, without the samples of a transfer that is kept by itself.

    They are nine tenths of a record, which is written more than once; a reader puts them back.
    """
    transfer = getattr(record, "transfer", None)
    if transfer is None or key_of(run_id, host, transfer) not in kept:
        return stored_json(record)
    return stored_json(replace(cast("DeviceRecord", record), transfer=replace(transfer, samples=())))


def annotate(database: sqlite3.Connection, run_id: str, host: str, record: Any) -> None:
    """Add to a device's transfers what only its record knows: the model, and the device's own clock on its last copy.

    The device's clock counts flash writing; what a copy to flash takes is known by it alone.
    """
    node = Node(record)
    if (model := node.text("check", "facts", "model")) is not None:
        database.execute("UPDATE transfers SET model = ? WHERE run_id = ? AND host = ?", (model, run_id, host))
    device_s, started_s = (
        node.number("pull", "device", "duration_s"),
        node.number("transfer", "started_at"),
    )
    if device_s is not None and started_s is not None:
        database.execute(
            "UPDATE transfers SET device_s = ? WHERE run_id = ? AND host = ? AND ticket_id = ? AND at = ?",
            (device_s, run_id, host, node.text("transfer", "ticket_id"), utc(started_s)),
        )

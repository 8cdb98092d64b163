"""The devices that any run had: what the last of them has of each, and what each run had of one. Read-only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flashferry.core.json_access import Node, parsed
from flashferry.store.reader import reading
from flashferry.store.tables import RecordRow, newest_devices, runs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A device as a run has it.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        site: Its site; empty for none.
        run_id: The run.
        state: How far it came, `planned` to `done` or `failed`.
        outcome: What became of it, or None where that is not recorded.
        is_held: Whether its lease is not ended: it is in the run's hands, or was left by it.
        reason: Why it failed or was refused, or None.
        image: Name of the image that it was to get, or None.
        model: Its model, or None where it was not read.
        release: What runs on it, or None.
        serial_number: Its serial number, or None.
        readiness: Verdict about its readiness to boot the image, or None where that was not asked.
        updated_at: Last change, ISO 8601, UTC.
    """

    host: str
    address: str
    site: str
    run_id: str
    state: str
    outcome: str | None
    is_held: bool
    reason: str | None
    image: str | None
    model: str | None
    release: str | None
    serial_number: str | None
    readiness: str | None
    updated_at: str


def known_devices(directory: Path) -> tuple[KnownDevice, ...]:
    """Return each device that any run of a state folder had, by name, as its last run has it.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    with reading(directory) as database:
        return () if database is None else tuple(map(_known, newest_devices(database)))


def device_runs(directory: Path, host: str) -> tuple[KnownDevice, ...]:
    """Return what each run that had a device has of it, the latest first.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    with reading(directory) as database:
        return () if database is None else tuple(map(_known, runs_of(database, host)))


def _known(row: RecordRow) -> KnownDevice:
    record = Node(parsed(row.record) or {})
    check = record.at("check")
    return KnownDevice(
        host=row.host,
        address=row.address,
        site=row.site or "",
        run_id=row.run_id,
        state=row.state,
        outcome=record.text("outcome"),
        is_held=bool(row.touched),
        reason=record.text("failure", "reason"),
        image=row.image,
        model=check.text("facts", "model"),
        release=check.text("version", "release"),
        serial_number=check.text("facts", "serial_number"),
        readiness=record.text("readiness", "verdict"),
        updated_at=row.updated_at,
    )

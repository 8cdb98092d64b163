"""Devices of all runs: the newest row of each, and all rows of one. Read-only."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from flashferry.core.json_access import Node, parsed
from flashferry.store.reader import reading
from flashferry.store.tables import RecordRow, newest_devices, rows_with_facts, runs_of, verified_copies


class KnownDevice(Struct, frozen=True, kw_only=True):
    """A device in a run.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        site: Its site; empty for none.
        run_id: The run.
        state: `planned` to `done` or `failed`.
        outcome: A value of `flashferry.model.states.Outcome`; None before the end.
        is_held: Whether its lease has not ended: the run holds it, or left it unrestored.
        reason: Why it failed or was refused; None for none.
        image: Name of the image to copy; None for none.
        model: Its model; None if unknown.
        release: Its running release; None if unknown.
        serial_number: None if unknown.
        readiness: Verdict on its readiness to boot the image; None if not checked.
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
    """Return each device of any run as its last run has it, by host name.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        return () if database is None else tuple(map(_known, newest_devices(database)))


def devices_with_facts(directory: Path, hosts: Collection[str]) -> tuple[KnownDevice, ...]:
    """Return some devices, each as the newest run has it that read its model; those that no run read are left out.

    A run that refuses a device by its plan, or does not reach it, reads nothing from it.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    if not hosts:
        return ()
    with reading(directory) as database:
        return () if database is None else tuple(map(_known, rows_with_facts(database, hosts)))


def copied_at(directory: Path) -> dict[str, str]:
    """Return by host the start of its newest copy that was completed and verified, ISO 8601, UTC.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        return {} if database is None else verified_copies(database)


def device_runs(directory: Path, host: str) -> tuple[KnownDevice, ...]:
    """Return a device as each of its runs has it, the newest first.

    Raises:
        ConfigInvalid: The journal cannot be read.
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
